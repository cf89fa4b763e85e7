package webui

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

// hookSteps returns one step for each element of states. The steps run the hooks a, b, c and so on of the module web.
func hookSteps(states ...inspect.State) (steps []inspect.Step) {
	for i, state := range states {
		steps = append(steps, inspect.Step{Node: "hook-run", State: state, Subject: graph.Subject{Module: "web", Hook: string(rune('a' + i))}})
	}
	return steps
}

// outline returns the titles of rows as an indented text, which also says which rows are open and which steps are
// omitted.
func outline(rows []treeRow, indent string) string {
	var out strings.Builder
	for _, r := range rows {
		out.WriteString(indent + strings.TrimSpace(r.Title))
		if r.Badge.Word != "" {
			out.WriteString(" " + r.Badge.Word)
		}
		if r.Open {
			out.WriteString(", open")
		}
		if r.Closed != "" {
			out.WriteString(", without " + r.Closed)
		}
		out.WriteString("\n" + outline(r.Rows, indent+"  "))
	}
	return out.String()
}

func TestManyAdjacentStepsOfOneStateAreBelowOneRow(t *testing.T) {
	t.Parallel()
	const (
		done, waiting, running, skipped = inspect.Done, inspect.Waiting, inspect.Running, inspect.Skipped
	)
	for name, c := range map[string]struct {
		steps []inspect.Step
		all   bool
		want  string
	}{
		"three steps": {hookSteps(done, done, done), false, "a done\nb done\nc done\n"},
		"four steps":  {hookSteps(done, done, done, done), false, "4 steps done\n  a done\n  b done\n  c done\n  d done\n"},
		"all steps":   {hookSteps(done, done, done, done), true, "a done\nb done\nc done\nd done\n"},
		"a running one between them": {
			hookSteps(done, done, running, done, done, done, done), false,
			"a done\nb done\nc running, open\n4 steps done\n  d done\n  e done\n  f done\n  g done\n",
		},
		"waiting steps":          {hookSteps(waiting, waiting, waiting, waiting), false, "4 steps waiting\n  a waiting, open\n  b waiting, open\n  c waiting, open\n  d waiting, open\n"},
		"steps that need a look": {hookSteps(skipped, skipped, skipped, skipped), false, "a skipped, open\nb skipped, open\nc skipped, open\nd skipped, open\n"},
		"steps of two states":    {hookSteps(done, done, waiting, waiting), false, "a done\nb done\nc waiting, open\nd waiting, open\n"},
		"a warning among them splits": {
			append(hookSteps(done, done, done), inspect.Step{Node: "hook-run", State: done, Subject: graph.Subject{Hook: "w"}, Warning: "slow"}), false,
			"a done\nb done\nc done\nw done, open\n",
		},
	} {
		for i := range c.steps {
			c.steps[i].Number, c.steps[i].Node = "", c.steps[i].Subject.Hook
			c.steps[i].Subject = graph.Subject{}
		}
		b := &treeBuilder{frame: new(frame), run: new(inspect.Run), all: c.all}
		if diff := cmp.Diff(c.want, outline(b.rows(nil, c.steps, nil), "")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestMergedRowsAreNamedForWhatTheyMerge(t *testing.T) {
	t.Parallel()
	hooks := inspect.Step{Node: "module-onstartup", State: inspect.Running, Subject: graph.Subject{Module: "web"}, Steps: hookSteps(inspect.Done, inspect.Done, inspect.Done, inspect.Done, inspect.Running)}
	modules := inspect.Step{Node: "module-run", State: inspect.Running}
	for _, name := range []string{"one", "two", "three", "four"} {
		modules.Steps = append(modules.Steps, inspect.Step{Node: "module-run", State: inspect.Done, Subject: graph.Subject{Module: name}})
	}
	b := &treeBuilder{frame: new(frame), run: new(inspect.Run)}
	for _, c := range []struct {
		parent *inspect.Step
		want   string
	}{
		{&hooks, "4 hooks done\n  a done\n  b done\n  c done\n  d done\ne running, open\n"},
		{&modules, "4 modules done\n  one done\n  two done\n  three done\n  four done\n"},
	} {
		if diff := cmp.Diff(c.want, outline(b.rows(c.parent, c.parent.Steps, nil), "")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.parent.Node, diff)
		}
	}
}

func TestStepsBelowAStepThatEndedWellAreLeftOut(t *testing.T) {
	t.Parallel()
	module := func(name string, states ...inspect.State) inspect.Step {
		s := inspect.Step{Node: "module-run", State: states[0], Subject: graph.Subject{Module: name}, Steps: hookSteps(states...)}
		return s
	}
	top := []inspect.Step{{Node: "module-run", State: inspect.Running, Steps: []inspect.Step{module("web", inspect.Done, inspect.Done), module("db", inspect.Done, inspect.Failing)}}}
	for _, c := range []struct {
		all  bool
		want string
	}{
		{false, "module-run running, open\n  web done, without 2 hooks\n  db done, open\n    a done\n    b failing, open\n"},
		{true, "module-run running, open\n  web done\n    a done\n    b done\n  db done, open\n    a done\n    b failing, open\n"},
	} {
		b := &treeBuilder{frame: new(frame), run: new(inspect.Run), all: c.all}
		if diff := cmp.Diff(c.want, outline(b.rows(nil, top, nil), "")); diff != "" {
			t.Errorf("all %t (-want +got):\n%s", c.all, diff)
		}
	}
}

func TestNodesThatMayFollowAreTheLastRow(t *testing.T) {
	t.Parallel()
	b := &treeBuilder{frame: new(frame), run: new(inspect.Run)}
	rows := b.rows(nil, []inspect.Step{{Node: "one", State: inspect.Done}}, []inspect.Ahead{{Number: "9", Node: "two"}, {Node: "three", If: "changed"}})
	if want := "one done\nthen 9 two, three (if changed)\n"; outline(rows, "") != want {
		t.Errorf("the rows are\n%swant\n%s", outline(rows, ""), want)
	}
}

func TestARowLeadsToItsHookOrModuleAndToItsPendingTask(t *testing.T) {
	t.Parallel()
	task, at := store.ID{Epoch: 2, N: 9}, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	run := &inspect.Run{At: at.Add(12 * time.Second)}
	for name, c := range map[string]struct {
		step inspect.Step
		want treeRow
	}{
		"a running hook": {
			inspect.Step{Node: "n", State: inspect.Running, Subject: graph.Subject{Module: "web", Hook: "hooks/a b.sh", Binding: "pods"}, Task: task, Began: at, Try: 2},
			treeRow{URL: "/hook/web/hooks/a%20b.sh", Task: &taskLink{"2-9", "/task/2-9"}, Took: "12s", Try: 2, Open: true},
		},
		"a global hook that has ended": {
			inspect.Step{Node: "n", State: inspect.Done, Subject: graph.Subject{Hook: "g.sh"}, Task: task, Began: at, Ended: at.Add(3 * time.Second), Try: 1},
			treeRow{URL: "/hook/g.sh", Took: "3.0s", Try: 1},
		},
		"a module that waits": {
			inspect.Step{Node: "n", State: inspect.Waiting, Subject: graph.Subject{Module: "web"}, Task: task},
			treeRow{URL: "/module/web", Task: &taskLink{"2-9", "/task/2-9"}, Open: true},
		},
		"a step of the operator": {inspect.Step{Node: "n", State: inspect.Done}, treeRow{}},
		"a step between two attempts shows the failed one": {
			inspect.Step{Node: "n", State: inspect.Backoff, Try: 4, Failures: 3}, treeRow{Try: 3, Open: true},
		},
		"a step before its second attempt": {inspect.Step{Node: "n", State: inspect.Backoff, Try: 2, Failures: 1}, treeRow{Try: 2, Open: true}},
		"a step with steps below it has no task of its own": {
			inspect.Step{Node: "n", State: inspect.Running, Task: task, Steps: []inspect.Step{{Node: "m", State: inspect.Done}}},
			treeRow{Open: true, Rows: []treeRow{{Badge: (*frame)(nil).Badge(inspect.Done), Title: "m"}}},
		},
	} {
		c.want.Badge, c.want.Title = (*frame)(nil).Badge(c.step.State), strings.TrimSpace("n  "+c.step.Subject.String())
		b := &treeBuilder{frame: new(frame), run: run}
		got := b.row(nil, &c.step)
		got.Title = strings.TrimSpace(got.Title)
		for i := range got.Rows {
			got.Rows[i].Title = strings.TrimSpace(got.Rows[i].Title)
		}
		got.Notes = nil
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNotesOfAStepAreShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	b := &treeBuilder{frame: new(frame), run: new(inspect.Run)}
	row := b.row(nil, &inspect.Step{Node: "n", State: inspect.Done, Failures: 2, LastError: "wrong password=hunter2"})
	if diff := cmp.Diff([]string{"failed 2 times before, last error: wrong password=(redacted)"}, row.Notes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
