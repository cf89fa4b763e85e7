package workflow_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// newLifecycle returns a fixture of the lifecycle graph. In this fixture, every module has started
// before, and no deleted module is wanted again.
func newLifecycle(t *testing.T) *fixture {
	t.Helper()
	w := newFixture(t, lifecycle.Graph)
	w.reports(string(lifecycle.ModuleRun), lifecycle.AlreadyStarted)
	w.reports(string(lifecycle.ModuleDelete), lifecycle.Unwanted)
	return w
}

// discovers makes step 4 find these modules.
func (w *fixture) discovers(enabled, disabled, unknown []graph.Item) {
	w.set(string(lifecycle.DiscoverModules), returns(workflow.Outcome{Items: map[graph.FanOut][]graph.Item{
		lifecycle.Enabled: enabled, lifecycle.Disabled: disabled, lifecycle.Unknown: unknown,
	}}))
}

func TestStartRunsStepsOneToEightInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.lists(lifecycle.GlobalOnStartup, hooks("a", "b")...)
		w.lists(lifecycle.ModuleBeforeHelm, hooks("h")...)
		w.lists(lifecycle.GlobalAfterAll, hooks("z")...)
		w.discovers(modules("one", "two"), modules("off"), modules("gone"))
		w.start(on(lifecycle.OnStart), on(lifecycle.OnConfigMap))
		w.expectAt(
			"0 configmap-changed", "0 global-onstartup a", "0 global-onstartup b", "0 discover-modules",
			"0 module-run one", "0 module-beforehelm h", "0 release-check one",
			"0 module-run two", "0 module-beforehelm h", "0 release-check two",
			"0 module-delete off", "0 release-delete off", "0 module-purge gone", "0 global-afterall z",
		)
		w.expectAllEnded()
	})
}

func TestFailedModuleRunStartsOverWithGrowingDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.fails("release-check m", 5)
		w.start(on(lifecycle.OnResourcesAbsent, "m"))
		w.sleep(5 * time.Minute)
		w.expectAt(
			"0 module-run m", "0 release-check m",
			"5 module-run m", "5 release-check m",
			"15 module-run m", "15 release-check m",
			"35 module-run m", "35 release-check m",
			"65 module-run m", "65 release-check m",
			"95 module-run m", "95 release-check m",
		)
	})
}

func TestTwoGraphsShareQueuesAndNoTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newGraph([]graph.Node{{ID: "n", Scope: graph.ScopeModule, Unique: true}, {ID: "m", Scope: graph.ScopeModule}},
			graph.Edge{On: "first", To: "n", Place: graph.Tail}, graph.Edge{From: "n", To: "m"})
		two := newGraph([]graph.Node{{ID: "n", Scope: graph.ScopeModule, Unique: true}, {ID: "m", Scope: graph.ScopeModule}},
			graph.Edge{On: "second", To: "n", Place: graph.Tail}, graph.Edge{From: "n", To: "m"})
		two.Name = "other"
		w := newFixture(t, one, two)
		block := w.gate("n x")
		w.start(on("first", "x"), on("first", "a"), on("second", "a"))
		w.expectPending("main", "n x", "n a", "n a")
		block(workflow.Outcome{}, nil)
		w.expect("n x", "m x", "n a", "m a", "n a", "m a")
		if runs := w.runs(); runs[1].Graph != "test" || runs[2].Graph != "other" || runs[2].Joined != 0 {
			t.Errorf("runs of one graph joined runs of the other graph: %+v", runs)
		}
	})
}

func TestGraphsThatCannotBeToldApartAreRefused(t *testing.T) {
	g := newGraph([]graph.Node{{ID: "n"}}, graph.Edge{On: "go", To: "n", Place: graph.Tail})
	same := *g
	other := *g
	other.Name = "other"
	steps := map[graph.NodeID]workflow.Step{"n": step{}}
	for what, second := range map[string]*graph.Graph{"name": &same, "trigger": &other} {
		_, err := workflow.New(nil, workflow.Observer{}, workflow.Implementation{Graph: g, Steps: steps}, workflow.Implementation{Graph: second, Steps: steps})
		if err == nil {
			t.Errorf("two graphs with the same %s are accepted", what)
		}
	}
}

func TestBindingNeedsAStepForEachNodeAndANodeForEachStep(t *testing.T) {
	g := newGraph([]graph.Node{{ID: "n"}, {ID: "l", ForEach: "some"}},
		graph.Edge{On: "go", To: "n", Place: graph.Tail}, graph.Edge{From: "n", To: "l"})
	whole := map[graph.NodeID]workflow.Step{"n": step{}, "l": step{}}
	for what, steps := range map[string]map[graph.NodeID]workflow.Step{
		"a node without a step":      {"l": step{}},
		"a step without a node":      {"n": step{}, "l": step{}, "x": step{}},
		"a step that cannot fan out": {"n": step{}, "l": bare{}},
	} {
		if _, err := workflow.New(nil, workflow.Observer{}, workflow.Implementation{Graph: g, Steps: steps}); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	if _, err := workflow.New(nil, workflow.Observer{}, workflow.Implementation{Graph: g, Steps: whole}); err != nil {
		t.Error(err)
	}
}

// A bare is a step that has only the method Do.
type bare struct{}

func (bare) Do(context.Context, workflow.Task) (workflow.Outcome, error) {
	return workflow.Outcome{}, nil
}

func TestTaskOfANodeThatIsGoneIsDroppedWithALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "old"}, {ID: "new"}},
			graph.Edge{On: "go", To: "old", Place: graph.Tail}, graph.Edge{On: "go on", To: "new", Place: graph.Tail})
		w := newFixture(t, g)
		w.gate("old")
		w.start(on("go"), on("go on"))
		w.close()
		w.steps = nil
		newer := newGraph([]graph.Node{{ID: "new"}}, graph.Edge{On: "go on", To: "new", Place: graph.Tail})
		w.steps = []workflow.Implementation{{Graph: newer, Steps: map[graph.NodeID]workflow.Step{"new": step{w, "new"}}}}
		w.open()
		w.start()
		w.expect("old", "new")
		if got := w.history(1); len(got) != 1 || got[0] != "dropped old" {
			t.Errorf("history of the dropped task's run is %q", got)
		}
		w.expectPending("main")
	})
}

// queues returns the queues with tasks.
func (w *fixture) queues() (queues []string) {
	w.t.Helper()
	w.view(func(tx *store.Tx) error {
		for q, err := range store.AllQueues(tx) {
			if err != nil {
				return err
			}
			queues = append(queues, q)
		}
		return nil
	})
	return queues
}

func TestHistorySaysWhatWasDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.set("module-run m", returns(workflow.Outcome{Dropped: "it is gone"}))
		w.start(on(lifecycle.OnResourcesAbsent, "m"))
		records := w.records(1)
		if len(records) != 1 || records[0].State != store.Dropped || records[0].Detail != "it is gone" {
			t.Errorf("history is %+v", records)
		}
	})
}
