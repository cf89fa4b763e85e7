package simulate_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// shrinkTries is the maximum number of simulations in shrink.
const shrinkTries = 300

// with returns the result of [plan.only] for the numbers in a text, which are separated by commas. "none" means no
// numbers.
func (p plan) with(numbers string) plan {
	var kept []int
	for text := range strings.SplitSeq(numbers, ",") {
		if n, err := strconv.Atoi(text); err == nil {
			kept = append(kept, n)
		}
	}
	return p.only(kept)
}

// only selects actions. It returns a copy of p that has the actions with these numbers, no other actions, and at most
// two quiet days after each round. Rounds without actions are removed. If no round is left, the copy has one round
// without actions.
func (p plan) only(numbers []int) plan {
	out := p
	out.rounds = nil
	for _, r := range p.rounds {
		kept := round{quiet: min(r.quiet, 2)}
		pause := time.Duration(0)
		for _, a := range r.actions {
			if !slices.Contains(numbers, a.number) {
				pause += a.at // the other actions keep their times in the round
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

// shrink searches for the fewest actions of p with which the simulation still has a violation, and returns their
// numbers. It tries to omit half of the actions, then quarters, and at last single actions, until it can omit no
// further action. If the simulation of all actions has no violation, the second result is false.
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

// tell fails the test. It prints the events of the simulation with the fewest actions of p that still has a violation,
// and the command that repeats this simulation.
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
