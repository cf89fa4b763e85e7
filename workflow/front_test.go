package workflow_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// appliesConfig makes step 16 report facts and items, and raises a change of the ConfigMap.
func (w *fixture) appliesConfig(lists map[graph.FanOut][]graph.Item, facts ...graph.Fact) {
	w.t.Helper()
	w.set(string(lifecycle.ConfigMapChanged), returns(workflow.Outcome{Facts: facts, Items: lists}))
	w.raise(on(lifecycle.OnConfigMap))
}

func TestChangedSectionOfAHealthyModuleIsAppliedBeforeAFailingModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(modules("a", "b", "c"), nil, nil)
		w.fails("release-check b", 1000)
		w.start(on(lifecycle.OnStart))
		w.sleep(2 * time.Second)
		w.ran()
		// This run of module a waits behind module b. When the change of the ConfigMap adds a run of a at the front,
		// the waiting run joins that run.
		w.raise(on(lifecycle.OnResourcesAbsent, "a"))
		w.appliesConfig(map[graph.FanOut][]graph.Item{lifecycle.Changed: modules("a", "x")}, lifecycle.ModuleChanged)
		w.expect("configmap-changed",
			"module-run a", "release-check a", "module-run x", "release-check x",
			"module-run b", "release-check b")
		w.reports("release-check b")
		w.sleep(time.Minute)
		w.expect("module-run b", "release-check b", "module-run c", "release-check c")
		w.expectAllEnded()
	})
}

func TestModulesSwitchedOffAreDeletedBeforeAFailingModuleAndTheReloadDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(modules("a", "b", "c"), nil, nil)
		w.fails("release-check b", 1000)
		w.start(on(lifecycle.OnStart))
		w.ran()
		w.discovers(modules("a", "b"), nil, nil)
		w.appliesConfig(map[graph.FanOut][]graph.Item{
			lifecycle.SwitchedOff: modules("d", "c"), lifecycle.Changed: modules("a"),
		}, lifecycle.FlagsChanged)
		w.expect("configmap-changed",
			"module-delete d", "release-delete d", "module-delete c", "release-delete c",
			"module-run a", "release-check a",
			"discover-modules", "module-run a", "release-check a", "module-run b", "release-check b")
	})
}

func TestNewerChangeOvertakesTheRunsOfAnOlderOneThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.fails("release-check a", 2)
		w.start()
		changed := func(names ...string) map[graph.FanOut][]graph.Item {
			return map[graph.FanOut][]graph.Item{lifecycle.Changed: modules(names...)}
		}
		w.appliesConfig(changed("a", "x"), lifecycle.ModuleChanged)
		w.expect("configmap-changed", "module-run a", "release-check a")
		w.appliesConfig(changed("y"), lifecycle.ModuleChanged)
		w.expect("configmap-changed", "module-run y", "release-check y", "module-run a", "release-check a")
		w.sleep(time.Minute)
		w.expect("module-run a", "release-check a", "module-run x", "release-check x")
		w.expectAllEnded()
	})
}

func TestRunOfAChangedModuleGoesBehindItsRunInARetryQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(group("10", 2, "a", "b"), nil, nil)
		a, b := w.gate("release-check a"), w.gate("release-check b")
		w.start(on(lifecycle.OnStart))
		w.expectAny("discover-modules", "module-run a", "release-check a", "module-run b", "release-check b")
		w.appliesConfig(map[graph.FanOut][]graph.Item{lifecycle.Changed: modules("a")}, lifecycle.ModuleChanged)
		w.expect("configmap-changed")
		a(workflow.Outcome{}, nil)
		w.expect("module-run a", "release-check a")
		a(workflow.Outcome{}, nil)
		b(workflow.Outcome{}, nil)
		w.expect()
		w.expectAllEnded()
	})
}

func TestARequestedReloadRewindsAConvergeWhoseFirstStepsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(modules("a"), nil, nil)
		discover := w.gate("discover-modules")
		w.start(on(lifecycle.OnStart))
		w.expect("discover-modules")
		w.raise(on(lifecycle.OnReloadRequest))
		discover(workflow.Outcome{}, nil)
		w.expect("discover-modules")
		discover(workflow.Outcome{}, errors.New("no"))
		w.raise(on(lifecycle.OnReloadRequest))
		w.expect("discover-modules")
		w.raise(on(lifecycle.OnReloadRequest))
		discover(workflow.Outcome{}, errors.New("no"))
		w.expect("discover-modules")
		discover(workflow.Outcome{Items: map[graph.FanOut][]graph.Item{lifecycle.Enabled: modules("a")}}, nil)
		w.expect("module-run a", "release-check a")
		w.expectAllEnded()
	})
}
