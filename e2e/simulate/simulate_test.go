//go:debug randseednop=0

package simulate_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"addon-operator/e2e/cputime"
	"addon-operator/store"
)

// TestMain makes only one goroutine run at a time, so that equal simulations run their goroutines in the same order.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(800)         // fewer collections: the heap is small, and most of it stays in use until the end of a simulation
	utilruntime.ErrorHandlers = nil //nolint:reassign // these handlers have a rate limit, which would use the clock of an earlier simulation
	os.Exit(m.Run())
}

// releaseQuarantined releases all tasks from quarantine, as a user does.
func (w *simulation) releaseQuarantined() {
	var ids []store.ID
	if err := w.checks.read(func(tx *store.Tx) error {
		for q, err := range store.QuarantinedItems(tx) {
			if err != nil {
				return err
			}
			ids = append(ids, q.ID)
		}
		return nil
	}); err != nil {
		w.violated("the store is not consistent: %v", err)
	}
	for _, id := range ids {
		w.note("user", "releases task %s", id)
		if err := w.do(func() error { return w.process.engine.Release(id, "me", "") }); err != nil {
			w.violated("task %s cannot be released: %v", id, err)
		}
	}
}

// play simulates the plan p. It returns the story and the number of simulated days. The argument keep says what the
// story records.
func play(t *testing.T, p plan, keep detail) (s *story, days float64) {
	t.Helper()
	dir := t.TempDir()
	writeFiles(t, dir)
	rand.Seed(int64(p.seed)) //nolint:gosec,staticcheck // the backoff of watches and of client-go uses the global source of random numbers
	inBubble(t, func() {
		w := newSimulation(p.seed, dir, keep)
		s = w.story
		w.parallel, w.continues, w.startup = p.parallel, p.continues, p.startup
		w.restart()
		for _, r := range p.rounds {
			w.play(r)
			if w.wrong() != "" {
				break
			}
		}
		days = time.Since(w.begun).Hours() / 24
		w.end()
	})
	return s, days
}

func (w *simulation) play(r round) {
	for _, a := range r.actions {
		w.live(a.at)
		if w.wrong() != "" {
			return
		}
		w.happen(a)
	}
	w.calmDown()
	if w.wrong() == "" {
		w.checks.calm()
	}
	w.quiet(r.quiet)
}

// quiet simulates days in which nothing happens except schedule ticks, and checks that each tick is delivered exactly
// once.
func (w *simulation) quiet(days int) {
	if days == 0 || w.wrong() != "" {
		return
	}
	w.term = longTerm
	w.stop()
	defer func() { w.term = shortTerm; w.stop() }()
	now := time.Now().UTC()
	w.live(now.Truncate(time.Hour).Add(2*time.Hour - 15*time.Minute).Sub(now))
	from, before := time.Now().UTC(), w.hooks.tickCounts()
	w.checks.every = checkEveryQuiet
	defer func() { w.checks.every = checkEvery }()
	w.live(time.Duration(days) * 24 * time.Hour)
	if w.wrong() != "" {
		return
	}
	after := w.hooks.tickCounts()
	for h, crontab := range crontabs {
		want := 0
		if h.module == "" || w.enabled[h.module] {
			want = due(crontab, from, time.Now().UTC())
		}
		if got := after[h] - before[h]; got != want {
			w.violated("quiet: hook %s had %d ticks in %d days, want %d", h, got, days, want)
		}
	}
	w.checks.calm()
}

var crontabs = map[hookName]string{
	{"alpha", "hooks/watch"}: "7 * * * *", {"beta", "hooks/turn"}: "0 */6 * * *", {"", "fleet"}: "30 3 * * *",
}

// due returns the number of ticks of crontab that are later than from and not later than to.
func due(crontab string, from, to time.Time) (n int) {
	schedule, err := cron.ParseStandard(crontab)
	if err != nil {
		panic(err)
	}
	for at := schedule.Next(from); !at.After(to); at = schedule.Next(at) {
		n++
	}
	return n
}

func (hs *hooks) tickCounts() map[hookName]int {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return maps.Clone(hs.ticks)
}

func number(name string, absent int) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return absent
	}
	return n
}

// Sizes of the plans in TestSimulatedOperatorKeepsItsPromises: the number of rounds of each plan, the maximum numbers
// of actions and quiet days of each round, and the number of simulated days after which the test begins no further
// plan.
const (
	roundsOfHistory  = 2
	actionsOfRound   = 25
	quietDaysOfRound = 60
	daysOfTest       = 2000
)

func TestSimulatedOperatorKeepsItsPromises(t *testing.T) {
	first, days := number("SIMULATE_SEED", 1), number("SIMULATE_DAYS", daysOfTest)
	if os.Getenv("SIMULATE_SEED") != "" {
		days = number("SIMULATE_DAYS", 1) // by default, one history
	}
	if testing.Short() {
		days /= 10
	}
	passed, began, seed := 0.0, cputime.Used(), first
	for ; passed < float64(days); seed++ {
		p := newPlan(uint64(seed), roundsOfHistory, actionsOfRound, quietDaysOfRound) //nolint:gosec // seeds are positive
		if kept := os.Getenv("SIMULATE_ACTIONS"); kept != "" {
			p = p.with(kept)
		}
		s, days := play(t, p, digest)
		if passed += days; s.violation != "" {
			// Print the violation before the function tell searches for a shorter history, because a user may interrupt
			// the search.
			fmt.Fprintf(os.Stderr, "SIMULATE_SEED=%d violates: %s\n", seed, s.violation)
			if os.Getenv("SIMULATE_SHORTEST") == "no" {
				t.Errorf("seed %d: %s", seed, s.violation)
			} else {
				tell(t, p)
			}
			break
		}
	}
	used := cputime.Used() - began
	t.Logf("%.0f simulated days in %d histories from seed %d, in %s of CPU time: %.0f days a CPU minute",
		passed, seed-first, first, used.Round(time.Second), passed/used.Minutes())
}

func TestCallThatAViolationEndsNamesTheViolation(t *testing.T) {
	w := &simulation{story: &story{begun: time.Now(), digest: sha256.New()}}
	w.violated("an event is lost")
	if err := w.do(func() error { return nil }); err == nil || !strings.Contains(err.Error(), "an event is lost") {
		t.Errorf("got the error %v", err)
	}
}

// mostPlays is the maximum number of simulations of one plan. Two of them must have the same history. Equal plans can
// have different histories on a loaded machine: if the system delays the process for 10 ms, the Go runtime preempts the
// running goroutine, and another goroutine runs first. No setting turns this off.
const mostPlays = 100

func TestHistoriesOfOneSeedAreEqual(t *testing.T) {
	for seed := range uint64(number("SIMULATE_PAIRS", 10)) { //nolint:gosec // the number is positive
		p := newPlan(seed+1, roundsOfHistory, actionsOfRound, 3)
		first, _ := play(t, p, gates)
		sums, other := map[string]bool{first.sum(): true}, first // other is the first history that differs from the history first, if there is one
		for equal := false; !equal; {
			if len(sums) == mostPlays {
				t.Errorf("seed %d has %d histories. The first two differ%s", p.seed, mostPlays, firstDifference(first.lines, other.lines))
				break
			}
			next, _ := play(t, p, gates)
			if equal = sums[next.sum()]; !equal && len(sums) == 1 {
				other = next
			}
			sums[next.sum()] = true
		}
		if len(sums) > 1 {
			t.Logf("seed %d: %d histories before two were equal; the first two differ%s", p.seed, len(sums), firstDifference(first.lines, other.lines))
		}
	}
}

// firstDifference returns the number of the first line in which two histories differ, and the lines around it in each.
func firstDifference(one, other []string) string {
	same := 0
	for same < min(len(one), len(other)) && one[same] == other[same] {
		same++
	}
	around := func(lines []string) string { return strings.Join(lines[max(0, same-10):min(len(lines), same+5)], "\n") }
	return fmt.Sprintf(" from line %d on:\n%s\nand\n%s", same+1, around(one), around(other))
}
