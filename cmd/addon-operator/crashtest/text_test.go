package crashtest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

func TestReportGroupsFindingsByHookAndFitsTheTerminal(t *testing.T) {
	t.Parallel()
	one, two := "1", "2"
	target := func(hook string, nth int) Target {
		return Target{Node: lifecycle.ModuleBeforeHelm, Subject: graph.Subject{Module: "shop", Hook: hook}, At: workflow.AtEnded, Nth: nth}
	}
	finding := func(hook string, nth int) Finding {
		at := target(hook, nth)
		return Finding{Doer: doer(at.Node, at.Subject), Target: at, Moment: at.String(), Files: "/tmp/w/round-1"}
	}
	count, create, again := finding("hooks/count.sh", 1), finding("hooks/create.sh", 1), finding("hooks/count.sh", 2)
	count.Differences = []Difference{{Of: "ConfigMap shop/counter", Field: "data.count", Want: &one, Got: &two}}
	create.Failures = []Failure{{Doer: create.Doer, Error: "exit status 1: Error from server (AlreadyExists): configmaps \"made\" already exists"}}
	again.Unfinished = "the operator still has work: context deadline exceeded"
	for range shownDifferences + 2 {
		again.Differences = append(again.Differences, Difference{Of: "Role shop/made", Got: &one})
	}
	r := Report{Targets: 9, Rounds: 4, NotReached: []string{"before module-run shop"}, Findings: []Finding{count, create, again}, Ignored: []string{"global values: id"}, Seconds: 75.4}
	want := `
hook hooks/count.sh of module shop does not tolerate a crash:
  killed after module-beforehelm shop/hooks/count.sh
    ConfigMap shop/counter: data.count: 1 → 2
    log: /tmp/w/round-1/log
  killed after module-beforehelm shop/hooks/count.sh (occurrence 2)
` + strings.Repeat("    Role shop/made: does not exist → 1\n", shownDifferences) + `    and 2 more; -o json has all
    the operator still has work: context deadline exceeded
    log: /tmp/w/round-1/log

hook hooks/create.sh of module shop does not tolerate a crash:
  killed after module-beforehelm shop/hooks/create.sh
    hook hooks/create.sh of module shop failed: exit status 1: Error from server
      (AlreadyExists): configmaps "made" already exists
    log: /tmp/w/round-1/log

Not compared, because these differ between two undisturbed runs:
  global values: id

Not tested, because the round did not reach these moments:
  before module-run shop

3 kills in 1m15s, of 9 moments of an undisturbed run.
3 rounds had other results than the undisturbed runs.
A hook runs again after a crash: it must check the state before it acts.
See docs/writing-hooks.md#failures
`
	if diff := cmp.Diff(want, r.Text()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	for line := range strings.Lines(want) {
		if len([]rune(line)) > width+1 {
			t.Errorf("a line is longer than %d columns: %s", width, line)
		}
	}
}
