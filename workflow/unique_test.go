package workflow_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

func onceGraph() *graph.Graph {
	return newGraph([]graph.Node{{ID: "block"}, {ID: "once", Scope: graph.ScopeModule, Unique: true}},
		graph.Edge{On: "hold", To: "block", Place: graph.BindingQueue}, graph.Edge{On: "go", To: "once", Place: graph.BindingQueue},
		graph.Edge{On: "now", To: "once", Place: graph.Front})
}

func TestOfEqualWaitingTasksTheNearerToTheHeadStays(t *testing.T) {
	for _, c := range []struct {
		second  string
		stays   int // index of the run whose task stays
		pending []string
	}{
		{"go", 1, []string{"block", "once m", "once other"}},
		{"now", 2, []string{"once m", "block", "once other"}},
	} {
		t.Run(c.second, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, onceGraph())
				block := w.gate("block")
				w.start(on("hold"), on("go", "m"))
				w.raise(on(graph.Trigger(c.second), "m"), on("go", "other"))
				w.expectPending("main", c.pending...)
				runs := w.runs()
				stays, gone := runs[c.stays], runs[3-c.stays]
				if stays.Open != 1 || gone.Open != 0 || gone.Joined != stays.ID {
					t.Errorf("the run whose task stays is %+v, the other run is %+v", stays, gone)
				}
				if r := w.records(gone.ID); len(r) != 1 || r[0].State != store.Joined || r[0].Into == "" {
					t.Errorf("history of the dropped task %+v", r)
				}
				block(workflow.Outcome{}, nil)
			})
		})
	}
}

func TestSuccessorGivesWayToAnEqualTaskBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "a"}, {ID: "once", Unique: true}},
			graph.Edge{On: "go", To: "a", Place: graph.Tail}, graph.Edge{From: "a", To: "once"}, graph.Edge{On: "now", To: "once", Place: graph.Front})
		w := newFixture(t, g)
		open := w.gate("a")
		w.start(on("go"))
		w.raise(on("now"))
		open(workflow.Outcome{}, nil)
		w.expect("a", "once")
		if run := w.runs()[0]; run.Open != 0 || run.Joined != 2 {
			t.Errorf("the run whose task gave way is %+v", run)
		}
	})
}

func TestTasksOfOtherQueuesOrSubjectsAreNotEqual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, onceGraph())
		w.gate("block")
		w.start(on("hold"), in("q", on("hold")), on("go", "m"), on("go", "n"), in("q", on("go", "m")))
		w.expectPending("main", "block", "once m", "once n")
		w.expectPending("q", "block", "once m")
	})
}

func TestTaskThatWasBegunDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, onceGraph())
		w.gate("once m")
		w.start(on("go", "m"))
		w.raise(on("go", "m"))
		w.raise(on("go", "m"))
		w.expectPending("main", "once m", "once m")
		w.restart()
		w.raise(on("go", "m"))
		w.expectPending("main", "once m", "once m")
		open := w.gate("once m")
		w.start()
		w.raise(on("go", "m"))
		w.expectPending("main", "once m", "once m")
		open(workflow.Outcome{}, nil)
		open(workflow.Outcome{}, nil)
		w.expect("once m", "once m", "once m")
	})
}

func TestOneOfTwoListsGoesOnWhenTheirMembersBecomeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Two fan-outs in different queues add equal tasks to a third queue, and wait for them.
		g := newGraph([]graph.Node{{ID: "block"}, {ID: "find"}, {ID: "once", Scope: graph.ScopeModule, Unique: true}, {ID: "last", Scope: graph.ScopeModule}},
			graph.Edge{On: "hold", To: "block", Place: graph.BindingQueue}, graph.Edge{On: "go", To: "find", Place: graph.BindingQueue},
			graph.Edge{On: "now", To: "once", Place: graph.Front},
			graph.Edge{From: "find", To: "once", ForEach: "all"}, graph.Edge{From: "find", To: "last"})
		w := newFixture(t, g)
		block := w.gate("block")
		item := graph.Item{Subject: graph.Subject{Module: "m"}, Queue: "q", Wait: true}
		w.set("find", returns(workflow.Outcome{Items: map[graph.FanOut][]graph.Item{"all": {item}}}))
		w.start(in("q", on("hold")), in("one", on("go")))
		w.expectAny("block", "find")
		w.raise(in("two", on("go")))
		w.expect("find", "last")
		w.expectPending("one", "once", "last")
		w.expectPending("two")
		w.expectPending("q", "block", "once m")
		block(workflow.Outcome{}, nil)
		w.expect("once m", "last")
		if diff := cmp.Diff([]string(nil), w.queues()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestListWhoseMemberGivesWayToAnEqualOneGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Both fan-outs wait for a task at the node "once". The two tasks are equal, so one joins the
		// other.
		g := newGraph([]graph.Node{{ID: "block"}, {ID: "find"}, {ID: "pre", Scope: graph.ScopeModule}, {ID: "once", Scope: graph.ScopeModule, Unique: true}, {ID: "last", Scope: graph.ScopeModule}},
			graph.Edge{On: "hold", To: "block", Place: graph.BindingQueue}, graph.Edge{On: "go", To: "find", Place: graph.BindingQueue},
			graph.Edge{From: "find", To: "pre", ForEach: "by way of pre"}, graph.Edge{From: "find", To: "once", ForEach: "at once"}, graph.Edge{From: "find", To: "last"},
			graph.Edge{From: "pre", To: "once"})
		w := newFixture(t, g)
		block, finds, once := w.gate("block"), w.gate("find"), w.gate("once m")
		to := func(list graph.FanOut) workflow.Outcome {
			return workflow.Outcome{Items: map[graph.FanOut][]graph.Item{list: {{Subject: graph.Subject{Module: "m"}, Queue: "q", Wait: true}}}}
		}
		w.start(in("q", on("hold")), in("one", on("go")))
		finds(to("by way of pre"), nil)
		w.raise(in("two", on("go")))
		finds(to("at once"), nil)
		w.expectPending("q", "block", "pre m", "once m")
		w.expectAny("block", "find", "find")
		block(workflow.Outcome{}, nil)
		w.expectAny("pre m", "once m", "last")
		once(workflow.Outcome{}, nil)
		w.expect("last")
	})
}
