package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

// failingHook returns the problem of a failing hook of the given module. The error of the hook is the given text. The
// parameter n is the minute of the first failure, and the number of failures.
func failingHook(n int, module, text string) inspect.Problem {
	at := time.Date(2000, 1, 1, 0, n, 0, 0, time.UTC)
	return inspect.Problem{
		Kind: inspect.KindFailing, Run: uint64(10 - n), Task: store.ID{Epoch: 1, N: uint64(n)}, Queue: module, Node: "module-run",
		Subject: graph.Subject{Module: module, Hook: "hooks/sync.sh"}, Try: n, Since: at, At: at, Error: text,
	}
}

func TestStatusShowsFailingStepsWithTheSameCauseAsOne(t *testing.T) {
	t.Parallel()
	const unreachable = "exit status 1: cannot reach the server"
	problems := func(texts ...string) (all []inspect.Problem) {
		for i, text := range texts {
			all = append(all, failingHook(i+1, fmt.Sprintf("m%d", i+1), text))
		}
		return all
	}
	known := func(p inspect.Problem, what string) inspect.Problem {
		p.Meaning = &inspect.Meaning{What: what}
		return p
	}
	behind := func(p inspect.Problem, queue string, run, tasks int) inspect.Problem {
		p.Behind = &inspect.Behind{Queue: queue, Run: run, Tasks: tasks}
		return p
	}
	leaving := func(p inspect.Problem, text string) inspect.Problem {
		p.Leaves = text
		return p
	}
	tests := map[string]struct {
		problems []inspect.Problem
		want     string
	}{
		"the same text": {
			problems(unreachable, unreachable, "exit status 1: no space"), `
✖ 2 steps fail with the same error since 00:01:00Z: exit status 1: cannot reach
  the server
  of:    m1/hooks/sync.sh, m2/hooks/sync.sh
  next:  addon-operator why m1/hooks/sync.sh
✖ module-run m3/hooks/sync.sh failed 3 times since 00:03:00Z: exit status 1: no
  space
  next:  addon-operator why m3/hooks/sync.sh
`,
		},
		"errors with only an exit code": {
			problems("exit status 1", "exit status 1"), `
✖ module-run m1/hooks/sync.sh failed at 00:01:00Z: exit status 1
  next:  addon-operator why m1/hooks/sync.sh
✖ module-run m2/hooks/sync.sh failed 2 times since 00:02:00Z: exit status 1
  next:  addon-operator why m2/hooks/sync.sh
`,
		},
		"different texts with the same meaning": {
			[]inspect.Problem{known(failingHook(2, "b", "x of b"), "the CRD is missing"), known(failingHook(1, "a", "x of a"), "the CRD is missing")}, `
✖ 2 steps fail for the same reason since 00:01:00Z: x of b
  means: the CRD is missing
  of:    b/hooks/sync.sh, a/hooks/sync.sh
  next:  addon-operator why b/hooks/sync.sh
`,
		},
		"the same text with different meanings": {
			[]inspect.Problem{known(failingHook(1, "a", "x"), "the CRD is missing"), known(failingHook(1, "b", "x"), "the quota is used up")}, `
✖ module-run a/hooks/sync.sh failed at 00:01:00Z: x
  means: the CRD is missing
  next:  addon-operator why a/hooks/sync.sh
✖ module-run b/hooks/sync.sh failed at 00:01:00Z: x
  means: the quota is used up
  next:  addon-operator why b/hooks/sync.sh
`,
		},
		"one hook in two queues": {
			[]inspect.Problem{failingHook(1, "a", unreachable), failingHook(2, "a", unreachable)}, `
✖ 2 steps fail with the same error since 00:01:00Z: exit status 1: cannot reach
  the server
  of:    a/hooks/sync.sh
  next:  addon-operator why a/hooks/sync.sh
`,
		},
		"the work behind the steps, once for each queue": {
			[]inspect.Problem{
				behind(failingHook(1, "a", unreachable), "main", 2, 5), behind(failingHook(2, "b", unreachable), "main", 0, 4),
				behind(failingHook(3, "c", unreachable), "other", 0, 10),
			}, `
✖ 3 steps fail with the same error since 00:01:00Z: exit status 1: cannot reach
  the server
  of:    a/hooks/sync.sh, b/hooks/sync.sh, c/hooks/sync.sh
  waits: 17 steps behind them in 2 queues
  next:  addon-operator why a/hooks/sync.sh
`,
		},
		"what all of the steps leave": {
			[]inspect.Problem{leaving(failingHook(1, "a", unreachable), "half"), leaving(failingHook(1, "b", unreachable), "half")}, `
✖ 2 steps fail with the same error since 00:01:00Z: exit status 1: cannot reach
  the server
  of:    a/hooks/sync.sh, b/hooks/sync.sh
  state: half
  next:  addon-operator why a/hooks/sync.sh
`,
		},
		"what only one of the steps leaves": {
			[]inspect.Problem{leaving(failingHook(1, "a", unreachable), "half"), failingHook(1, "b", unreachable)}, `
✖ 2 steps fail with the same error since 00:01:00Z: exit status 1: cannot reach
  the server
  of:    a/hooks/sync.sh, b/hooks/sync.sh
  next:  addon-operator why a/hooks/sync.sh
`,
		},
		"more steps than are named": {
			problems(unreachable, unreachable, unreachable, unreachable, unreachable), `
✖ 5 steps fail with the same error since 00:01:00Z: exit status 1: cannot reach
  the server
  of:    m1/hooks/sync.sh, m2/hooks/sync.sh, m3/hooks/sync.sh, and 2 more
  next:  addon-operator why m1/hooks/sync.sh
`,
		},
		"two modules that cannot be loaded": {
			[]inspect.Problem{{Kind: inspect.KindBroken, Node: "a", Error: "x"}, {Kind: inspect.KindBroken, Node: "b", Error: "x"}}, `
✖ module a cannot be loaded: x
  fix:   correct the files of the module; the operator then loads it by itself
✖ module b cannot be loaded: x
  fix:   correct the files of the module; the operator then loads it by itself
`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &inspect.Status{Live: true, Attention: true, At: time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC), Problems: test.problems}
			_, text, _ := strings.Cut(inspect.StatusText(s, layout), "\n\n")
			text, _, _ = strings.Cut(text, "\n\n")
			if want := strings.Trim(test.want, "\n"); text != want {
				t.Errorf("the problems are\n%s\nwant\n%s", text, want)
			}
		})
	}
}

func TestStatusCountsTheOmittedProblemsNotTheirGroups(t *testing.T) {
	t.Parallel()
	s := &inspect.Status{Live: true, Attention: true}
	for i := range 30 {
		s.Problems = append(s.Problems, failingHook(1, "a", fmt.Sprintf("exit status 1: error %d", i%15)))
	}
	text := inspect.StatusText(s, layout)
	shown := 2 * strings.Count(text, "2 steps fail with the same error")
	if want := fmt.Sprintf("… and %d more problems;", 30-shown); shown == 0 || !strings.Contains(text, want) {
		t.Errorf("of 30 problems the status shows %d, and says\n%s", shown, text)
	}
}
