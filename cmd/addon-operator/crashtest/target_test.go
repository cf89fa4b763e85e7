package crashtest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

func TestTargetsAreTheMomentsAtWhichACrashDiffers(t *testing.T) {
	t.Parallel()
	hook := graph.Subject{Module: "web", Hook: "hooks/a.sh"}
	reach := func(node graph.NodeID, s graph.Subject, moments ...workflow.Moment) (out []message) {
		for _, at := range moments {
			out = append(out, message{Node: node, Subject: s, At: at})
		}
		return out
	}
	var all []message
	all = append(all, reach(lifecycle.ModuleBeforeHelm, hook, workflow.AtClaimed, workflow.AtEnded, workflow.AtDone)...)
	all = append(all, reach(lifecycle.ModuleScheduleEvent, hook, workflow.AtClaimed, workflow.AtEnded, workflow.AtDone)...)
	all = append(all, reach(lifecycle.ModuleBeforeHelm, hook, workflow.AtClaimed, workflow.AtEnded, workflow.AtEffect, workflow.AtEffect, workflow.AtDone)...)
	all = append(all, reach(lifecycle.ModuleBeforeHelm, hook, workflow.AtClaimed, workflow.AtEnded, workflow.AtDone)...)
	r := newRecorder()
	var texts []string
	for _, m := range all {
		if target := r.record(m); target != (Target{}) {
			texts = append(texts, target.String())
		}
	}
	want := []string{
		"before module-beforehelm web/hooks/a.sh", "after module-beforehelm web/hooks/a.sh",
		"before module-beforehelm web/hooks/a.sh (occurrence 2)", "after module-beforehelm web/hooks/a.sh (occurrence 2)",
		"after the effects of module-beforehelm web/hooks/a.sh",
		"before module-beforehelm web/hooks/a.sh (occurrence 3)", "after module-beforehelm web/hooks/a.sh (occurrence 3)",
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	if got := (Target{Node: lifecycle.ConfigMapChanged, At: workflow.AtClaimed, Nth: 1}).String(); got != "before configmap-changed" {
		t.Errorf("a target without a subject is %q", got)
	}
	if len(r.targets) != len(want) {
		t.Errorf("recorded %d targets", len(r.targets))
	}
}

func TestSelectionSpreadsRoundsOverTheRun(t *testing.T) {
	t.Parallel()
	var all []Target
	for i := range 10 {
		module := "web"
		if i%2 == 1 {
			module = "shop"
		}
		all = append(all, Target{Node: lifecycle.ModuleRun, Subject: graph.Subject{Module: module}, At: workflow.AtClaimed, Nth: i})
	}
	for name, test := range map[string]struct {
		selection selection
		want      []int
	}{
		"all":       {selection{}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		"most":      {selection{most: 3}, []int{0, 4, 6}},
		"half":      {selection{most: 5}, []int{0, 3, 4, 7, 8}},
		"almost":    {selection{most: 9}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}},
		"module":    {selection{modules: []string{"shop"}}, []int{1, 3, 5, 7, 9}},
		"both":      {selection{modules: []string{"shop"}, most: 2}, []int{1, 7}},
		"steps":     {selection{steps: []string{"module-run"}, most: 1}, []int{0}},
		"none":      {selection{steps: []string{"release-check"}}, nil},
		"more room": {selection{modules: []string{"shop"}, most: 20}, []int{1, 3, 5, 7, 9}},
	} {
		var got []int
		for _, target := range test.selection.choose(all) {
			got = append(got, target.Nth)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFindingsNameTheCodeOfTheUser(t *testing.T) {
	t.Parallel()
	for want, test := range map[string]struct {
		node    graph.NodeID
		subject graph.Subject
	}{
		"hook hooks/a.sh of module web": {lifecycle.ModuleBeforeHelm, graph.Subject{Module: "web", Hook: "hooks/a.sh"}},
		"global hook a.sh":              {lifecycle.GlobalOnStartup, graph.Subject{Hook: "a.sh"}},
		"chart of module web":           {lifecycle.ReleaseUpgrade, graph.Subject{Module: "web"}},
		"module web, step module-run":   {lifecycle.ModuleRun, graph.Subject{Module: "web"}},
		"step discover-modules":         {lifecycle.DiscoverModules, graph.Subject{}},
	} {
		if got := doer(test.node, test.subject); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
