package crash_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/e2e/operator"
	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// An end is the state of an environment after a converge, when its operator has stopped.
type end struct {
	Told       map[string]int               // number of deliveries, by hook and element of a binding context
	Releases   map[string]string            // status of Helm releases, by name and revision
	ConfigMaps map[string]map[string]string // data by name
	Values     map[string]string            // patches of hooks, by section
	Modules    map[string]store.Module
}

// A killing says when the operator is killed in a converge: either at the given failpoint, or after a time. The field
// after has this time, as a fraction of the duration of the converge without kills.
type killing struct {
	failpoint string
	after     float64
	// again is the age at which the next process is also killed, as a fraction of the same duration; if it is 0, the
	// next process is not killed.
	again float64
}

func (k killing) String() string {
	text := k.failpoint
	if text == "" {
		text = fmt.Sprintf("after %.3f", k.after)
	}
	if k.again > 0 {
		text += fmt.Sprintf(" and after %.3f", k.again)
	}
	return text
}

// writtenAt matches the time of an operation in a stored values patch.
var writtenAt = regexp.MustCompile(`,"at":"[^"]*"`)

// TestKilledConvergeEndsAsUndisturbed kills the operator within a converge, in each round at another moment: at an
// attempt of one of the steps 1 to 8, or at a random time. In some rounds it also kills the process that resumes the
// converge. At the end, the deliveries, releases and objects must be the same as without kills. The environment
// variable KILLS sets the number of rounds with one kill. KILLS_SEED repeats the rounds of the test that has logged
// this seed.
func TestKilledConvergeEndsAsUndisturbed(t *testing.T) {
	t.Parallel()
	killedConverge(t, false, 12)
}

// TestKilledConvergeOfAFailingModuleEndsAsUndisturbed does the same as [TestKilledConvergeEndsAsUndisturbed] with
// --on-module-failure=continue and a module that fails in two of its steps. This module is retried in a queue of its
// own while the other modules run.
func TestKilledConvergeOfAFailingModuleEndsAsUndisturbed(t *testing.T) {
	t.Parallel()
	killedConverge(t, true, 8)
}

// killedConverge kills operators in converges, each round in an environment of its own: first in the converges of
// [killedInChains], then once in each of the given number of rounds, and twice in a tenth as many further rounds. If
// the environment variable KILLS is set, its value replaces the number of rounds. If continues is set, the operator
// continues with the other modules when one fails.
func killedConverge(t *testing.T, continues bool, rounds int) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("KILLS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("KILLS_SEED: %v", err)
		}
	}
	t.Logf("KILLS_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	w := newEnvironment(t)
	w.continues = continues
	w.prepare(t, 0)
	prepared := total(deliveries(w.runs(t)))
	w.lay(t, w.after())
	p := w.start(t)
	w.quiet(t, p, 0)
	want := w.end(t)
	runs := w.runs(t)
	if wrong := w.repeated(runs, 0); len(wrong) > 0 {
		t.Fatalf("undisturbed: %s", wrong)
	}
	span := w.span(t, p)
	t.Logf("undisturbed: %d deliveries in %s, %d of them in the converge before", total(want.Told), span, prepared)
	w.wholeEnd(t, want)

	all := killings(random, w.attempts(t))
	t.Run("chains", func(t *testing.T) { killedInChains(t, rand.New(rand.NewPCG(seed, 1)), continues, prepared, want) })
	kills := chosen(t, all, rounds)
	for range max(1, len(kills)/10) {
		k := all[random.IntN(len(all))]
		k.again = 0.3 * random.Float64()
		kills = append(kills, k)
	}
	for _, k := range kills {
		t.Run(k.String(), func(t *testing.T) {
			t.Parallel()
			for !round(t, k, continues, prepared, span, want) {
				k.after, k.again = 0.8*k.after, 0.8*k.again
				t.Logf("the converge ended before the kill; trying again with a kill %s", k)
			}
		})
	}
}

// attempts has the number of attempts at a node, and the number of successful ones.
type attempts struct{ all, done int }

// killings returns 50 moments. The argument counts has the numbers of attempts of a converge without kills, by node.
// For each node with a successful attempt, one moment is the claim of a random attempt, and one is the end of a random
// successful attempt. The other moments are times distributed over the converge.
func killings(random *rand.Rand, counts map[graph.NodeID]attempts) []killing {
	var all []killing
	for _, n := range lifecycle.Graph.Nodes {
		if made := counts[n.ID]; made.done > 0 {
			all = append(all,
				killing{failpoint: fmt.Sprintf("%s:claimed:%d", n.ID, 1+random.IntN(made.all))},
				killing{failpoint: fmt.Sprintf("%s:done:%d", n.ID, 1+random.IntN(made.done))})
		}
	}
	const rounds = 50
	timed := rounds - len(all)
	for i := range timed {
		all = append(all, killing{after: (float64(i) + random.Float64()) / float64(timed)})
	}
	return all
}

// chosen returns n elements of a list, evenly distributed. If the environment variable KILLS is set, its value replaces
// n. If the list has fewer than n elements, they are repeated.
func chosen(t *testing.T, all []killing, n int) []killing {
	t.Helper()
	if text := os.Getenv("KILLS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			t.Fatalf("KILLS=%q is no number of rounds", text)
		}
	}
	var out []killing
	for i := range n {
		out = append(out, all[i*max(len(all), n)/n%len(all)])
	}
	return out
}

// prepare runs the first converge, without kills, and waits for deliveries to hooks as quiet does.
func (w *environment) prepare(t *testing.T, want int) {
	t.Helper()
	w.lay(t, before())
	w.quiet(t, w.start(t), want)
}

// round kills the operator as k says, waits until the next process has converged, and compares the end state with want.
// round returns false if the converge had ended before one of the kills.
func round(t *testing.T, k killing, continues bool, prepared int, span time.Duration, want end) bool {
	t.Helper()
	w := newEnvironment(t)
	w.continues = continues
	w.prepare(t, prepared)
	w.lay(t, w.after())
	if k.failpoint != "" {
		w.killAt(t, k.failpoint)
	} else if !w.killAfter(t, time.Duration(k.after*float64(span))) {
		return false
	}
	kills := 1
	if k.again > 0 {
		if !w.killAfter(t, time.Duration(k.again*float64(span))) {
			return false
		}
		kills++
	}
	w.endsAs(t, w.start(t), want, kills)
	return true
}

// endsAs waits until p has converged, and compares the end state with want, the end state of a converge without kills.
// kills is the number of kills before p.
func (w *environment) endsAs(t *testing.T, p *operator.Process, want end, kills int) {
	t.Helper()
	w.quiet(t, p, total(want.Told))
	w.isAs(t, want, kills)
}

// isAs compares the end state of a stopped operator with want, the end state of a converge without kills. kills is the
// number of kills.
func (w *environment) isAs(t *testing.T, want end, kills int) {
	t.Helper()
	for _, wrong := range w.repeated(w.runs(t), kills) {
		t.Error(wrong)
	}
	got := w.end(t)
	for what := range maps.Keys(merge(want.Told, got.Told)) {
		if want.Told[what] != got.Told[what] {
			t.Errorf("delivered %d times, undisturbed %d times: %s", got.Told[what], want.Told[what], what)
		}
	}
	want.Told = got.Told // compared above
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the state differs from the undisturbed one (-want +got):\n%s", diff)
	}
}

// merge returns a map with the entries of a and b. If both have a key, the value of b is used.
func merge(a, b map[string]int) map[string]int {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// killAt starts an operator that kills itself at a failpoint, and waits for the end of the process.
func (w *environment) killAt(t *testing.T, failpoint string) {
	t.Helper()
	p := w.start(t, "ADDON_OPERATOR_FAILPOINT="+failpoint)
	select {
	case <-p.Ended():
	case <-time.After(2 * time.Minute):
		t.Fatal("the failpoint was not reached")
	}
	if !p.Killed() {
		t.Fatal("the operator ended by itself")
	}
}

// killAfter starts the operator and kills its process at the given age. If the start run had ended before the kill,
// killAfter returns false, because the next process would begin another start run.
func (w *environment) killAfter(t *testing.T, age time.Duration) (within bool) {
	t.Helper()
	p := w.start(t)
	time.Sleep(age)
	p.Kill()
	return w.isWithinStart(t)
}

// isWithinStart reports whether the last process of the operator ended before its start run ended.
func (w *environment) isWithinStart(t *testing.T) (within bool) {
	t.Helper()
	w.inStore(t, func(tx *store.Tx) error {
		startup, _, err := store.Load[store.Startup](tx, store.StartupKey())
		within = startup.Epoch < 2 || startup.Converged < startup.StartRun
		return err
	})
	return within
}

// runsAlone describes the task that two crashes have interrupted, or returns "" if there is none. The next process
// runs this task while no other task runs. Another crash would put the task in quarantine. That is correct, but the
// converge would end without the task, and could not be compared.
func (w *environment) runsAlone(t *testing.T) (work string) {
	t.Helper()
	w.inStore(t, func(tx *store.Tx) error {
		for task, err := range store.AllTasks(tx) {
			if err != nil {
				return err
			}
			if c := task.Claim; c != nil && c.Epoch != 0 && c.Crashes > 0 {
				work = task.Node + " " + task.Subject.String()
			}
		}
		return nil
	})
	return work
}

// end returns the state of the environment when its operator has stopped. end fails the test if tasks are pending.
func (w *environment) end(t *testing.T) end {
	t.Helper()
	e := end{
		Told: deliveries(w.runs(t)), Releases: map[string]string{}, ConfigMaps: map[string]map[string]string{},
		Values: map[string]string{}, Modules: map[string]store.Module{},
	}
	secrets, err := w.client.CoreV1().Secrets(w.operator.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range secrets.Items {
		e.Releases[s.Labels["name"]+" "+s.Labels["version"]] = s.Labels["status"]
	}
	configMaps, err := w.client.CoreV1().ConfigMaps(w.operator.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range configMaps.Items {
		if c.Name != "kube-root-ca.crt" {
			e.ConfigMaps[c.Name] = c.Data
		}
	}
	w.inStore(t, func(tx *store.Tx) error {
		for task, err := range store.AllTasks(tx) {
			if err != nil {
				return err
			}
			t.Errorf("task %s at node %s (%v) is still pending", task.ID, task.Node, task.Subject)
		}
		for key, text := range tx.Range(store.At(store.Values)) {
			e.Values[key.String()] = string(writtenAt.ReplaceAll(text, nil)) // without the times, which differ in each round
		}
		for key := range tx.Range(store.At(store.Modules)) {
			m, _, err := store.Load[store.Module](tx, key)
			if err != nil {
				return err
			}
			// The numbers of runs are reduced to 0 or 1, and the times of runs are dropped, because a restart can begin
			// a further run.
			m.RanInStart, m.DefinedIn, m.RanIn, m.RanAt = min(m.RanInStart, 1), min(m.DefinedIn, 1), min(m.RanIn, 1), time.Time{}
			m.DecidedIn, m.DecidedAt = min(m.DecidedIn, 1), time.Time{}
			m.Why = strings.ReplaceAll(m.Why, w.operator.Dir, "")
			e.Modules[key.String()] = m
		}
		return nil
	})
	return e
}

// wholeEnd fails the test if e, the end of a converge without kills, lacks an effect that a kill could prevent. The
// comparison with e can only find the loss of effects that e has.
func (w *environment) wholeEnd(t *testing.T, e end) {
	t.Helper()
	revisions := slices.Sorted(maps.Keys(e.Releases))
	want := []string{"m01 1", "m01 2"}
	if w.continues {
		want = append([]string{failing + " 1"}, want...)
		w.inRetryQueue(t)
	}
	for i := 1; i < modules; i++ {
		name := fmt.Sprintf("m%02d", i+1)
		want = append(want, name+" 1")
		if name == "m05" {
			want = append(want, name+" 2")
		}
	}
	if diff := cmp.Diff(want, revisions); diff != "" {
		t.Errorf("revisions of an undisturbed converge (-want +got):\n%s", diff)
	}
	for _, what := range []string{"old/all: beforeDeleteHelm", "old/all: afterDeleteHelm", "global/all: afterAll", "m10/all: afterHelm"} {
		if e.Told[what] == 0 {
			t.Errorf("no hook received %q", what)
		}
	}
	if told := e.ConfigMaps["addon-operator"]; !strings.Contains(told["m03"]+told["global"], "told") {
		t.Errorf("the ConfigMap has %v, want the writes of hooks", told)
	}
}

// inRetryQueue fails the test unless m01, the next module, ran before the run of the failing module ended, and that run
// ended before the last run of the afterAll hooks. It does not check the later modules: on a slow machine, ten modules
// take longer than the two retry delays, so the failing module can end before them.
func (w *environment) inRetryQueue(t *testing.T) {
	t.Helper()
	last := map[string]int{}
	for i, r := range w.runs(t) {
		for _, e := range r.elements {
			last[r.hook+" "+e.Binding] = i
		}
	}
	if at := last[failing+"/all afterHelm"]; last["m01/all beforeHelm"] > at || last["global/all afterAll"] < at {
		t.Errorf("last lines of the record: %v; want those of module %s between beforeHelm of m01 and afterAll", last, failing)
	}
}

// attempts counts the attempts in the last start run, at each node of steps 1 to 8. attempts fails the test if a node
// has no successful attempt, unless JoinsRunning is set for the node.
func (w *environment) attempts(t *testing.T) map[graph.NodeID]attempts {
	t.Helper()
	of := map[graph.NodeID]attempts{}
	w.lastStartRun(t, func(r store.Record) {
		n, _ := lifecycle.Graph.Node(graph.NodeID(r.Node))
		if number, _ := strconv.Atoi(strings.TrimRight(n.Number, "abcdef")); number > 8 {
			return
		}
		made := of[n.ID]
		switch r.State {
		case store.Done:
			made.all++
			made.done++
		case store.Failed, store.Allowed:
			made.all++
		default: // not an attempt
		}
		of[n.ID] = made
	})
	for _, n := range lifecycle.Graph.Nodes {
		number, _ := strconv.Atoi(strings.TrimRight(n.Number, "abcdef"))
		if number <= 8 && !n.JoinsRunning && of[n.ID].done == 0 {
			t.Errorf("the converge does not reach node %s", n.ID)
		}
	}
	return of
}

// span returns the time from the start of the process p to the end of the last start run.
func (w *environment) span(t *testing.T, p *operator.Process) time.Duration {
	t.Helper()
	var ended time.Time
	w.lastStartRun(t, func(r store.Record) { ended = r.Ended })
	return ended.Sub(p.Started)
}

// lastStartRun calls fn for each history record of the last start run, in order.
func (w *environment) lastStartRun(t *testing.T, fn func(store.Record)) {
	t.Helper()
	w.inStore(t, func(tx *store.Tx) error {
		startup, _, err := store.Load[store.Startup](tx, store.StartupKey())
		if err != nil {
			return err
		}
		for r, err := range store.RecordsOf(tx, startup.StartRun) {
			if err != nil {
				return err
			}
			fn(r)
		}
		return nil
	})
}
