package workflow_test

import (
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
		if walk := w.walks()[0]; walk.Open != 1 {
			t.Errorf("a walk with a task that is due later counts %d", walk.Open)
		}
		w.sleep(time.Minute)
		w.expectAt("5 module-run m", "5 release-check m", "5 module-afterhelm h",
			"15 module-run m", "15 release-check m", "15 module-afterhelm h",
			"35 module-run m", "35 release-check m", "35 module-afterhelm h")
		// The last run changed nothing: the count has ended.
		changes = 2
		w.raise(on(lifecycle.OnResourcesAbsent, "m"))
		w.expectAt("60 module-run m", "60 release-check m", "60 module-afterhelm h",
			"60 module-run m", "60 release-check m", "60 module-afterhelm h",
			"60 module-run m", "60 release-check m", "60 module-afterhelm h")
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
				w.t.Errorf("the observer was told of %s after %d times", t.Node, t.Loop.N)
			}
		}
		w.says("module-run m")
		w.start(on(lifecycle.OnStart), on(lifecycle.OnResourcesAbsent, "m"))
		w.expectAt("0 discover-modules", "0 module-run m", "0 discover-modules", "0 discover-modules")
		if looped != 1 {
			t.Errorf("the observer was told %d times", looped)
		}
		// What is due later comes back in the next life as well.
		w.looped = nil
		w.restart()
		w.sleep(4 * time.Second)
		w.start()
		w.sleep(time.Second)
		w.expectAt("5 discover-modules")
	})
}
