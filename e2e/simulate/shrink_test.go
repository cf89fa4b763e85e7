package simulate_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// shrinkTries bounds the histories that are played to find a shorter one.
const shrinkTries = 300

// with returns p with only the actions of these numbers, joined by commas, and without its quiet days. An empty
// list is "none".
func (p plan) with(numbers string) plan {
	var kept []int
	for text := range strings.SplitSeq(numbers, ",") {
		if n, err := strconv.Atoi(text); err == nil {
			kept = append(kept, n)
		}
	}
	return p.only(kept)
}

// only returns p with the actions of these numbers. Rounds without actions are left out, but for one.
func (p plan) only(numbers []int) plan {
	out := p
	out.rounds = nil
	for _, r := range p.rounds {
		kept := round{quiet: min(r.quiet, 2)}
		pause := time.Duration(0)
		for _, a := range r.actions {
			if !slices.Contains(numbers, a.number) {
				pause += a.at // the other actions happen when they did
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

// shrink returns the fewest actions of p it finds with which something is wrong: it leaves out halves, then
// quarters, and at last single actions, as long as that changes anything.
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

// tell fails the test with the shortest history in which the seed of p violates something.
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
	t.Errorf("%s\nTo repeat it: %s go test -count=1 -run Promises ./e2e/simulate\nThe story of %d actions:\n%s%s",
		s.violation, variables, len(p.numbers()), omitted, strings.Join(lines, "\n"))
}
