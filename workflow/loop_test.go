package workflow_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

func TestRunThatChangesItselfIsDelayedFromTheThirdTimeInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.lists(lifecycle.ModuleAfterHelm, hooks("h")...)
		changes := 0
		w.end = func(_ *store.Tx, t workflow.Task, _ []graph.Fact) ([]graph.Fact, error) {
			if t.Node == string(lifecycle.ModuleAfterHelm) && changes > 0 {
				changes--
				return []graph.Fact{lifecycle.ModuleChanged}, nil
			}
			return nil, nil
		}
		changes = 5
		w.start(on(lifecycle.OnResourcesAbsent, "m"))
		w.expectAt("0 module-run m", "0 release-check m", "0 module-afterhelm h",
			"0 module-run m", "0 release-check m", "0 module-afterhelm h",
			"0 module-run m", "0 release-check m", "0 module-afterhelm h")
		w.expectPending("main")
		if run := w.runs()[0]; run.Open != 1 {
			t.Errorf("a run with one deferred task counts %d tasks", run.Open)
		}
		w.sleep(time.Minute)
		w.expectAt("5 module-run m", "5 release-check m", "5 module-afterhelm h",
			"15 module-run m", "15 release-check m", "15 module-afterhelm h",
			"35 module-run m", "35 release-check m", "35 module-afterhelm h")
		// The next run has its own count of passes. Its two repetitions are not delayed.
		changes = 2
		w.raise(on(lifecycle.OnResourcesAbsent, "m"))
		w.expectAt("60 module-run m", "60 release-check m", "60 module-afterhelm h",
			"60 module-run m", "60 release-check m", "60 module-afterhelm h",
			"60 module-run m", "60 release-check m", "60 module-afterhelm h")
	})
}

func TestWhatIsDueLaterByAClockThatWasWrongIsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		ahead.Store(int64(time.Hour))
		g := newGraph([]graph.Node{{ID: "n"}, {ID: "again"}},
			graph.Edge{On: "go", To: "n", Place: graph.Tail}, graph.Edge{From: "n", To: "again"}, graph.Edge{From: "again", To: "n", Loop: true})
		w := newFixture(t, g)
		w.close()
		w.mem.After = nil
		clock := store.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }}
		var err error
		if w.db, err = store.OpenMemory(w.mem, clock); err != nil {
			t.Fatal(err)
		}
		w.e = w.engine()
		w.start(on("go"))
		if n := len(w.ran()); n != 6 {
			t.Fatalf("%d steps ran before the delay", n)
		}
		w.close()
		ahead.Store(0)
		if w.db, err = store.OpenMemory(w.mem, clock); err != nil {
			t.Fatal(err)
		}
		w.e = w.engine()
		w.start()
		w.expect("n", "again")
	})
}

func TestCirclesAreCountedEachForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "outer"}, {ID: "inner"}, {ID: "end"}},
			graph.Edge{On: "go", To: "outer", Place: graph.Tail}, graph.Edge{From: "outer", To: "inner"},
			graph.Edge{From: "inner", To: "inner", When: "again", Loop: true}, graph.Edge{From: "inner", To: "end", Unless: "again"},
			graph.Edge{From: "end", To: "outer", When: "again", Loop: true})
		w := newFixture(t, g)
		inner, outer := 0, 0
		w.apply = func(_ *store.Tx, t workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
			switch t.Node {
			case "inner":
				if inner++; inner%3 != 0 {
					return []graph.Fact{"again"}, nil
				}
			case "end":
				if outer++; outer < 3 {
					return []graph.Fact{"again"}, nil
				}
			}
			return nil, nil
		}
		w.start(on("go"))
		round := []string{"0 outer", "0 inner", "0 inner", "0 inner", "0 end"}
		w.expectAt(slices.Concat(round, round, round)...)
	})
}

func TestReloadThatChangesItselfGoesToTheTailAndIsDelayedFromTheThirdTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.end = func(_ *store.Tx, t workflow.Task, _ []graph.Fact) ([]graph.Fact, error) {
			if t.Node == string(lifecycle.GlobalAfterAll) {
				return []graph.Fact{lifecycle.GlobalChanged}, nil
			}
			return nil, nil
		}
		looped := 0
		w.looped = func(t store.Task) {
			looped++
			if t.Loop.N != 3 || t.Node != string(lifecycle.GlobalBeforeAll) {
				w.t.Errorf("the observer was called for %s after %d times", t.Node, t.Loop.N)
			}
		}
		w.reports("module-run m")
		w.start(on(lifecycle.OnStart), on(lifecycle.OnResourcesAbsent, "m"))
		w.expectAt("0 discover-modules", "0 module-run m", "0 discover-modules", "0 discover-modules")
		if looped != 1 {
			t.Errorf("the observer was called %d times", looped)
		}
		// Deferred tasks also return to their queues in the next epoch.
		w.looped = nil
		w.restart()
		w.sleep(4 * time.Second)
		w.start()
		w.sleep(time.Second)
		w.expectAt("5 discover-modules")
	})
}
