package simulate_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// shrinkTries is the maximum number of histories that are played to find the shortest history that
// fails.
const shrinkTries = 300

// with returns p with only the actions with these numbers, which are joined by commas; "none" means
// no actions. It shortens the quiet days.
func (p plan) with(numbers string) plan {
	var kept []int
	for text := range strings.SplitSeq(numbers, ",") {
		if n, err := strconv.Atoi(text); err == nil {
			kept = append(kept, n)
		}
	}
	return p.only(kept)
}

// only returns p with only the actions with these numbers, and with at most two quiet days after
// each round. Rounds without actions are removed. If no round is left, the result has one round
// without actions.
func (p plan) only(numbers []int) plan {
	out := p
	out.rounds = nil
	for _, r := range p.rounds {
		kept := round{quiet: min(r.quiet, 2)}
		pause := time.Duration(0)
		for _, a := range r.actions {
			if !slices.Contains(numbers, a.number) {
				pause += a.at // so that the other actions happen at the same times
				continue
			}
			a.at += pause
			pause = 0
			kept.actions = append(kept.actions, a)
		}
		if len(kept.actions) > 0 {
			out.rounds = append(out.rounds, kept)
		}
	}
	if len(out.rounds) == 0 {
		out.rounds = []round{{quiet: 2}}
	}
	return out
}

// numbers returns the numbers of the actions of p.
func (p plan) numbers() (out []int) {
	for _, r := range p.rounds {
		for _, a := range r.actions {
			out = append(out, a.number)
		}
	}
	return out
}

// shrink returns the numbers of the fewest actions of p that it finds to still cause a violation.
// It omits half of the actions, then quarters, and at last single actions, until it can omit no
// more. fails is false if p causes no violation.
func shrink(t *testing.T, p plan) (kept []int, fails bool) {
	t.Helper()
	kept = p.numbers()
	tries := 0
	wrong := func(numbers []int) bool {
		tries++
		s, _ := play(t, p.only(numbers), digest)
		return s.violation != ""
	}
	if !wrong(kept) {
		return nil, false
	}
	for size := max(1, len(kept)/2); tries < shrinkTries; {
		smaller := false
		for from := 0; from < len(kept) && tries < shrinkTries; {
			without := slices.Delete(slices.Clone(kept), from, min(from+size, len(kept)))
			if wrong(without) {
				kept, smaller = without, true
			} else {
				from += size
			}
		}
		if size == 1 && !smaller {
			break
		}
		if !smaller || size > 1 {
			size = max(1, size/2)
		}
	}
	return kept, true
}

// tell fails the test, and prints the shortest history of the seed of p that still has a violation.
func tell(t *testing.T, p plan) {
	t.Helper()
	kept, fails := shrink(t, p)
	variables := fmt.Sprintf("SIMULATE_SEED=%d", p.seed)
	if fails {
		p = p.only(kept)
		text := strings.Trim(strings.ReplaceAll(fmt.Sprint(kept), " ", ","), "[]")
		if text == "" {
			text = "none"
		}
		variables += " SIMULATE_ACTIONS=" + text
	}
	s, _ := play(t, p, lines)
	lines := s.lines
	const most = 400
	omitted := ""
	if len(lines) > most {
		omitted = fmt.Sprintf("(%d lines before)\n", len(lines)-most)
		lines = lines[len(lines)-most:]
	}
	t.Errorf("%s\nTo repeat it: %s go test -count=1 -run Promises ./e2e/simulate\nThe history of %d actions:\n%s%s",
		s.violation, variables, len(p.numbers()), omitted, strings.Join(lines, "\n"))
}
