package workflow_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// newContinuing returns a fixture of the lifecycle whose engine has ContinueOnFailure set. Step 8 runs
// hook z.
func newContinuing(t *testing.T) *fixture {
	t.Helper()
	w := newLifecycle(t)
	w.e.ContinueOnFailure = true
	w.lists(lifecycle.GlobalAfterAll, hooks("z")...)
	return w
}

func TestModulesAfterAFailingOneRunAndAfterAllWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.discovers(modules("a", "b", "c"), modules("off"), modules("gone"))
		w.fails("release-check b", 3)
		w.start(on(lifecycle.OnStart))
		w.expect("discover-modules", "module-run a", "release-check a", "module-run b", "release-check b",
			"module-run c", "release-check c", "module-delete off", "release-delete off", "module-purge gone")
		w.expectPending("parallel-module-b", "module-run b")
		w.expectPending("after failing modules", "global-afterall")
		w.expectPending("main")
		w.raise(on(lifecycle.OnResourcesAbsent, "c"))
		w.expect("module-run c", "release-check c")
		w.sleep(16 * time.Second)
		w.expect("module-run b", "release-check b", "module-run b", "release-check b")
		w.sleep(time.Minute)
		w.expect("module-run b", "release-check b", "global-afterall z")
		w.expectAllEnded()
	})
}

func TestFailingModuleRunsAgainInItsRetryQueueOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.reports("module-run b", lifecycle.JustEnabled)
		w.discovers(modules("b", "c"), nil, nil)
		w.lists(lifecycle.ModuleSynchronization, graph.Item{Subject: graph.Subject{Module: "b", Hook: "h"}})
		w.fails("module-kubernetes-synchronization b/h", 1)
		w.start(on(lifecycle.OnStart))
		w.expect("discover-modules", "module-run b", "module-kubernetes-synchronization b/h", "module-run c", "release-check c")
		// Another run of b is requested while the first run of b is in its retry queue, at the Synchronization.
		w.raise(on(lifecycle.OnResourcesAbsent, "b"))
		w.expect()
		w.expectPending("parallel-module-b", "module-kubernetes-synchronization b", "module-run b")
		w.reports("module-run b", lifecycle.AlreadyStarted)
		w.sleep(5 * time.Second)
		w.expectAny("module-kubernetes-synchronization b/h", "release-check b", "module-run b", "release-check b", "global-afterall z")
		w.expectAllEnded()
	})
}

func TestSynchronizationThatFailsInItsOwnQueueHoldsUpItsModuleOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.reports("module-run b", lifecycle.JustEnabled)
		w.discovers(modules("b", "c"), nil, nil)
		w.lists(lifecycle.ModuleSynchronization, graph.Item{Subject: graph.Subject{Module: "b", Hook: "h"}, Queue: "q", Wait: true})
		w.fails("module-kubernetes-synchronization b/h", 1)
		w.start(on(lifecycle.OnStart))
		w.expect("discover-modules", "module-run b", "module-kubernetes-synchronization b/h", "module-run c", "release-check c")
		w.sleep(5 * time.Second)
		w.expect("module-kubernetes-synchronization b/h", "release-check b", "global-afterall z")
		w.expectAllEnded()
	})
}

func TestARunDoesNotMoveWhileItSynchronizesAnotherHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.reports("module-run b", lifecycle.JustEnabled)
		w.discovers(modules("b", "c"), nil, nil)
		w.lists(lifecycle.ModuleSynchronization,
			graph.Item{Subject: graph.Subject{Module: "b", Hook: "h"}, Queue: "q", Wait: true}, graph.Item{Subject: graph.Subject{Module: "b", Hook: "i"}})
		w.fails("module-kubernetes-synchronization b/h", 2)
		open := w.gate("module-kubernetes-synchronization b/i")
		w.start(on(lifecycle.OnStart))
		w.expectAny("discover-modules", "module-run b", "module-kubernetes-synchronization b/h", "module-kubernetes-synchronization b/i")
		open(workflow.Outcome{}, nil)
		w.sleep(5 * time.Second)
		w.expect("module-kubernetes-synchronization b/h", "module-run c", "release-check c")
		w.sleep(10 * time.Second)
		w.expect("module-kubernetes-synchronization b/h", "release-check b", "global-afterall z")
		w.expectAllEnded()
	})
}

func TestNewConvergeReplacesTheStepThatWaitsForFailingModules(t *testing.T) {
	for _, how := range []string{"by a change of the ConfigMap", "by a hook", "by a restart"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newContinuing(t)
				w.discovers(modules("a", "b", "c"), nil, nil)
				w.fails("release-check b", 3)
				w.start(on(lifecycle.OnStart))
				w.ran()
				switch how {
				case "by a change of the ConfigMap":
					w.changeConfig()
				case "by a hook":
					w.reports("global-schedule-event h", lifecycle.GlobalChanged)
					w.raise(in("q", on(lifecycle.OnGlobalSchedule, "", "h")))
				case "by a restart":
					w.restart()
					w.e.ContinueOnFailure = true
					again := on(lifecycle.OnStart)
					again.Supersedes = lifecycle.GlobalBeforeAll
					w.start(again)
				}
				w.sleep(time.Minute)
				n := 0
				for _, what := range w.ran() {
					if what == "global-afterall z" {
						n++
					}
				}
				if n != 1 {
					t.Errorf("afterAll ran %d times, want 1", n)
				}
				w.expectAllEnded()
			})
		})
	}
}

func TestAfterAllWaitsForAFailingModuleWhoseSectionChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.discovers(modules("a", "b", "c"), nil, nil)
		w.fails("release-check b", 1000)
		w.start(on(lifecycle.OnStart))
		w.ran()
		w.expectPending("after failing modules", "global-afterall")
		w.appliesConfig(map[graph.FanOut][]graph.Item{lifecycle.Changed: modules("b")}, lifecycle.ModuleChanged)
		w.sleep(10 * time.Minute)
		if ran := w.ran(); slices.Contains(ran, "global-afterall z") {
			t.Errorf("afterAll ran, although module b has not succeeded: %q", ran)
		}
		w.expectPending("after failing modules", "global-afterall")
		w.reports("release-check b")
		w.sleep(time.Minute)
		w.ran()
		w.expectAllEnded()
	})
}

func TestANewConvergePassesAModuleWhoseRunFails(t *testing.T) {
	for how, fail := range map[string]func(w *fixture){
		"and starts over":                    func(w *fixture) { w.fails("release-check b", 1000) },
		"at a Synchronization in main":       func(w *fixture) { w.failsToSynchronize("") },
		"at a Synchronization in its queue":  func(w *fixture) { w.failsToSynchronize("q") },
		"at an effect that is tried forever": func(w *fixture) { w.failsToPatch() },
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newContinuing(t)
				w.discovers(modules("a", "b", "c"), nil, nil)
				fail(w)
				w.start(on(lifecycle.OnStart))
				w.sleep(66 * time.Second) // b fails at 0, 5, 15, 35 and 65 s
				w.ran()
				w.raise(on(lifecycle.OnReloadRequest))
				if ran := w.ran(); !slices.Contains(ran, "release-check a") || !slices.Contains(ran, "release-check c") {
					t.Errorf("after the reload, only these steps ran: %q", ran)
				}
				w.expectPending("after failing modules", "global-afterall")
				w.sleep(time.Hour)
				if ran := w.ran(); slices.Contains(ran, "global-afterall z") {
					t.Error("afterAll did not wait for module b")
				}
				w.succeeds()
				w.sleep(time.Minute)
				if ran := w.ran(); !slices.Contains(ran, "release-check b") || !slices.Contains(ran, "global-afterall z") {
					t.Errorf("after the cause was removed, only these steps ran: %q", ran)
				}
				w.expectAllEnded()
			})
		})
	}
}

func TestAFailingModuleOfAGroupDelaysNoOtherModuleOfTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.discovers(group("10", 2, "a", "b", "c"), nil, nil)
		w.failsToPatch()
		w.start(on(lifecycle.OnStart))
		w.ran()
		open := w.gate("release-check a")
		w.raise(on(lifecycle.OnReloadRequest))
		w.expectAny("discover-modules", "module-run a", "release-check a", "module-run c", "release-check c")
		w.succeeds()
		open(workflow.Outcome{}, nil)
		w.sleep(time.Minute)
		w.ran()
		w.expectAllEnded()
	})
}

// failsToSynchronize makes the Synchronization of module b, which runs in the given queue, fail
// until succeeds is called.
func (w *fixture) failsToSynchronize(queue string) {
	w.reports("module-run b", lifecycle.JustEnabled)
	w.items[lifecycle.ModuleSynchronization] = func(_ *store.Tx, t workflow.Task) ([]graph.Item, error) {
		return []graph.Item{{Subject: graph.Subject{Module: t.Subject.Module, Hook: "h"}, Queue: queue, Wait: true}}, nil
	}
	w.fails("module-kubernetes-synchronization b/h", 1000)
}

// failsToPatch makes an effect of module b fail until succeeds is called.
func (w *fixture) failsToPatch() {
	w.set("release-check b", returns(effects("patch")))
	w.doEffects(map[string]error{"patch": errors.New("500 Internal Server Error")})
}

// failsAgainInTheNextStart makes an effect of a Synchronization of module b fail, before and after a restart with a new
// start.
func (w *fixture) failsAgainInTheNextStart() {
	w.t.Helper()
	w.failsToSynchronize("q")
	w.set("module-kubernetes-synchronization b/h", returns(effects("patch")))
	w.doEffects(map[string]error{"patch": errors.New("500 Internal Server Error")})
	w.start(on(lifecycle.OnStart))
	w.ran()
	w.restart()
	w.e.ContinueOnFailure = true
	w.start(newStart())
}

// succeeds makes all steps and effects of module b succeed from now on.
func (w *fixture) succeeds() {
	w.reports("release-check b")
	w.reports("module-kubernetes-synchronization b/h")
	w.doEffects(nil)
}

func TestAChangedSectionOfAFailingModuleStopsNoOtherModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.discovers(modules("b", "c"), nil, nil)
		w.failsToPatch()
		w.start(on(lifecycle.OnStart))
		w.ran()
		w.appliesConfig(map[graph.FanOut][]graph.Item{lifecycle.Changed: modules("b", "c")}, lifecycle.ModuleChanged)
		w.expect("configmap-changed", "module-run c", "release-check c")
		w.expectPending("after failing modules", "global-afterall")
		w.succeeds()
		w.sleep(time.Minute)
		w.ran()
		w.expectAllEnded()
	})
}

func TestNoTaskWaitsForADeferredRunOfAFailingModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.discovers(modules("b", "c"), nil, nil)
		w.itemsOf(lifecycle.ModuleAfterHelm, "h")
		changes := 3
		w.end = func(_ *store.Tx, t workflow.Task, _ []graph.Fact) ([]graph.Fact, error) {
			if t.Node == string(lifecycle.ModuleAfterHelm) && t.Subject.Module == "b" && changes > 0 {
				changes--
				return []graph.Fact{lifecycle.ModuleChanged}, nil
			}
			return nil, nil
		}
		w.start(on(lifecycle.OnStart))
		deferred := w.later()
		if len(deferred) != 1 || !slices.Contains(w.ran(), "global-afterall z") {
			t.Fatalf("deferred: %q", deferred)
		}
		w.failsToPatch()
		w.raise(on(lifecycle.OnResourcesAbsent, "b")) // the run fails, and moves to the retry queue
		w.raise(on(lifecycle.OnResourcesAbsent, "b")) // the run moves behind the failing run
		w.ran()
		w.expectPending("parallel-module-b", "release-check b", "module-run b")
		w.raise(on(lifecycle.OnReloadRequest))
		w.ran()
		w.expectPending("parallel-module-b", "release-check b", "module-run b")
		w.expectPending("after failing modules", "global-afterall")
		if diff := cmp.Diff(deferred, w.later()); diff != "" {
			t.Errorf("deferred tasks (-want +got):\n%s", diff)
		}
		w.sleep(5 * time.Second) // the deferred run joins the waiting run
		w.ran()
		w.expectPending("parallel-module-b", "release-check b", "module-run b")
		w.succeeds()
		w.sleep(time.Minute)
		w.expect("module-afterhelm b/h", "module-run b", "release-check b", "module-afterhelm b/h", "global-afterall z")
		w.expectAllEnded()
	})
}

// TestAConvergeOfANewStartTakesOverTheRunOfAFailingModule restarts the operator while the run of module b fails. After
// the restart, this run waits in queue main, and still has its parent of the previous process. The item of the new
// converge replaces the run. The fan-out task must count this item exactly once.
func TestAConvergeOfANewStartTakesOverTheRunOfAFailingModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.discovers(group("10", 2, "b", "c"), nil, nil)
		w.failsAgainInTheNextStart()
		w.ran()
		w.succeeds()
		w.sleep(time.Minute)
		w.expect("module-kubernetes-synchronization b/h", "release-check b", "global-afterall z")
		w.expectAllEnded()
	})
}

// TestAnAbandonedSynchronizationThatFailsDoesNotHoldUpTheNextStart makes an effect of a
// Synchronization fail that an earlier start began. The new start must reach module c nevertheless.
func TestAnAbandonedSynchronizationThatFailsDoesNotHoldUpTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.discovers(modules("b", "c"), nil, nil)
		w.failsAgainInTheNextStart()
		w.sleep(time.Minute)
		if ran := w.ran(); !slices.Contains(ran, "release-check c") {
			t.Errorf("module c was not reached: %q", ran)
		}
		w.succeeds()
		w.sleep(time.Minute)
		w.expect("module-kubernetes-synchronization b/h", "release-check b", "global-afterall z")
		w.expectAllEnded()
	})
}

func TestFailingModuleThatIsDeletedNoLongerHoldsUpAfterAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.discovers(modules("a", "b"), nil, nil)
		w.fails("release-check b", 1000)
		w.start(on(lifecycle.OnStart))
		w.ran()
		w.appliesConfig(map[graph.FanOut][]graph.Item{lifecycle.SwitchedOff: modules("b")}, lifecycle.ModuleChanged)
		synctest.Wait()
		// The change wakes the failing run in its retry queue, while queue main processes the deletion. So the run may or
		// may not reach the release check before the deletion cancels it.
		ran := slices.DeleteFunc(w.ran(), func(what string) bool { return what == "release-check b" })
		slices.Sort(ran)
		want := []string{"configmap-changed", "global-afterall z", "module-delete b", "module-run b", "release-delete b"}
		if diff := cmp.Diff(want, ran); diff != "" {
			t.Errorf("what ran (-want +got):\n%s", diff)
		}
		w.expectAllEnded()
	})
}

func TestADeletionDoesNotTakeTheSlotOfTheStepThatWaitedForItsFailingModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, newGraph(
			[]graph.Node{
				{ID: "begin"},
				{ID: "last"},
				{ID: "run", Scope: graph.ScopeModule, Group: "run", Unique: true, RetryQueue: true},
				{ID: "delete", Scope: graph.ScopeModule, Group: "delete"},
				{ID: "purge", Scope: graph.ScopeModule, Group: "delete"},
			},
			graph.Edge{On: "go", To: "begin", Place: graph.Tail}, graph.Edge{From: "begin", To: "run", ForEach: "some"},
			graph.Edge{From: "begin", To: "last"}, graph.Edge{On: "off", To: "delete", Place: graph.Tail},
			graph.Edge{From: "delete", To: "purge", CancelsPending: true}))
		w.e.ContinueOnFailure = true
		w.set("begin", returns(workflow.Outcome{Items: map[graph.FanOut][]graph.Item{"some": modules("m")}}))
		w.fails("run m", 1)
		w.start(on("go"))
		w.expectPending("after failing modules", "last")
		w.raise(on("off", "m"))
		w.expect("begin", "run m", "delete m", "purge m", "last")
		w.expectAllEnded()
	})
}

func TestFailingModulesOfAGroupGoToRetryQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.discovers(append(group("10", 2, "a", "b", "c"), modules("last")...), nil, nil)
		w.fails("release-check a", 2)
		w.fails("release-check b", 1)
		w.start(on(lifecycle.OnStart))
		w.expectAny("discover-modules", "module-run a", "release-check a", "module-run b", "release-check b",
			"module-run c", "release-check c", "module-run last", "release-check last")
		w.sleep(time.Minute)
		w.expectAny("module-run a", "release-check a", "module-run a", "release-check a", "module-run b", "release-check b", "global-afterall z")
		w.expectAllEnded()
	})
}

func TestFailingRunOutsideOfAConvergeHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.fails("release-check a", 2)
		w.start(on(lifecycle.OnResourcesAbsent, "a"), on(lifecycle.OnResourcesAbsent, "b"))
		w.expect("module-run a", "release-check a", "module-run b", "release-check b")
		w.appliesConfig(map[graph.FanOut][]graph.Item{lifecycle.Changed: modules("a", "c")}, lifecycle.ModuleChanged)
		w.expectAny("configmap-changed", "module-run a", "release-check a", "module-run c", "release-check c")
		w.sleep(time.Minute)
		w.expect("module-run a", "release-check a")
		w.expectAllEnded()
	})
}

func TestRestartResumesRetryQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.discovers(modules("a", "b"), nil, nil)
		w.fails("release-check a", 1)
		w.start(on(lifecycle.OnStart))
		w.ran()
		w.restart()
		w.e.ContinueOnFailure = true
		w.start()
		w.sleep(time.Minute)
		w.expect("module-run a", "release-check a", "global-afterall z")
		w.expectAllEnded()
	})
}

// TestFailingModulesDoNotSlowDownTheNext compares the memory allocations in converges with 100 and with 400 failing
// modules, because reading a task from the store allocates memory. With 400 modules, each module must not need many
// more allocations.
func TestFailingModulesDoNotSlowDownTheNext(t *testing.T) {
	few, many := allocationsOfFailing(t, 100), allocationsOfFailing(t, 400)
	if each := float64(many) / float64(few) / 4; each > 1.5 {
		t.Errorf("with 400 failing modules, each needs %.1f times as many allocations as with 100 (%d and %d in total)", each, many, few)
	}
}

// allocationsOfFailing returns the number of memory allocations in a converge of n modules. Four of
// the modules run at a time, and all of them fail.
func allocationsOfFailing(t *testing.T, n int) (mallocs uint64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.unchecked() // a check reads the whole store
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprint("m", i)
			w.fails("release-check "+names[i], 1)
		}
		w.discovers(group("10", 4, names...), nil, nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w.start(on(lifecycle.OnStart))
		synctest.Wait()
		runtime.ReadMemStats(&after)
		mallocs = after.Mallocs - before.Mallocs
		w.expectPending("parallel-module-"+names[n-1], "module-run "+names[n-1])
	})
	return mallocs
}

func TestTheStepThatWaitsForAFailingModuleRunsIfTheTaskOfTheModuleCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.discovers(modules("b", "c", "d"), nil, nil)
		w.fails("release-check b", 3)
		w.fails("release-check d", 4)
		w.start(on(lifecycle.OnStart))
		w.expect("discover-modules", "module-run b", "release-check b", "module-run c", "release-check c", "module-run d", "release-check d")
		w.expectPending("after failing modules", "global-afterall")
		w.damage(w.pending("parallel-module-b")[0].Key())
		w.sleep(6 * time.Second)
		if n := len(w.damaged()); n != 1 {
			t.Errorf("%d damaged records, want 1", n)
		}
		w.expect("module-run d", "release-check d")
		w.expectPending("after failing modules", "global-afterall")
		w.sleep(time.Minute)
		w.expect("module-run d", "release-check d", "module-run d", "release-check d", "module-run d", "release-check d", "global-afterall z")
		w.expectAllEnded()
	})
}

func TestTheStepThatWaitsForAFailingModuleRunsAfterARestartIfTheTaskOfTheModuleCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.discovers(modules("b"), nil, nil)
		w.fails("release-check b", 3)
		w.start(on(lifecycle.OnStart))
		w.expect("discover-modules", "module-run b", "release-check b")
		w.expectPending("after failing modules", "global-afterall")
		w.damage(w.pending("parallel-module-b")[0].Key())
		w.crash()
		w.unchecked()
		w.start()
		w.sleep(time.Second)
		if n := len(w.damaged()); n != 1 {
			t.Errorf("%d damaged records, want 1", n)
		}
		w.expect("global-afterall z")
		w.expectAllEnded()
	})
}

func TestARunBehindAJournalInARetryQueueWaitsForTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.lists(lifecycle.GlobalOnStartup, hooks("g")...)
		w.discovers(modules("b", "c"), nil, nil)
		w.failsToPatch()
		w.start()
		w.raise(on(lifecycle.OnRunRequest, "b"))
		w.raise(on(lifecycle.OnRunRequest, "b"))
		w.expectPending("parallel-module-b", "release-check b", "module-run b")
		w.crash()
		w.e.ContinueOnFailure = true
		w.succeeds()
		open := w.gate("global-onstartup g")
		w.start(newStart())
		w.sleep(time.Minute)
		w.expect("global-onstartup g")
		open(workflow.Outcome{}, nil)
		w.expect("discover-modules", "module-run b", "release-check b", "module-run c", "release-check c", "global-afterall z")
		w.expectAllEnded()
	})
}

// TestAnInterruptedRunWaitsBehindTheRetriesOfAnotherRunOfItsModule interrupts a run of a module. In the new process, a
// change of the ConfigMap begins another run of the module before the interrupted run goes on. The other run fails.
func TestAnInterruptedRunWaitsBehindTheRetriesOfAnotherRunOfItsModule(t *testing.T) {
	for step, rest := range map[string][]string{
		"module-run b":    {"module-run b", "release-check b", "release-upgrade b"},
		"release-check b": {"release-check b", "release-upgrade b"},
	} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newContinuing(t)
				w.gate(step)
				w.start(on(lifecycle.OnRunRequest, "b"))
				w.crash()
				w.e.ContinueOnFailure = true
				w.reports("release-check b", lifecycle.Outdated)
				w.fails("module-run b", 1, lifecycle.AlreadyStarted)
				w.set(string(lifecycle.ConfigMapChanged), returns(workflow.Outcome{
					Facts: []graph.Fact{lifecycle.ModuleChanged}, Items: map[graph.FanOut][]graph.Item{lifecycle.Changed: modules("b")},
				}))
				w.start(on(lifecycle.OnConfigMap))
				w.expect("configmap-changed", "module-run b")
				w.sleep(time.Minute)
				w.expect(append([]string{"module-run b", "release-check b", "release-upgrade b"}, rest...)...)
				w.expectAllEnded()
			})
		})
	}
}

// TestARequestedRunWaitsBehindTheRetriesOfTheRunInAGroup requests a run of a module while another run of the module is
// in a parallel queue. Then an effect of a step of that run fails, and the run moves to the retry queue. There, it goes
// on with this step, and does not join the requested run.
func TestARequestedRunWaitsBehindTheRetriesOfTheRunInAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.discovers(group("10", 2, "a", "b"), nil, nil)
		w.failsToPatch()
		open := w.gate("release-check b")
		w.start(on(lifecycle.OnStart))
		w.expectAny("discover-modules", "module-run a", "release-check a", "module-run b", "release-check b")
		w.raise(on(lifecycle.OnRunRequest, "b"))
		open(effects("patch"), nil)
		w.expect()
		w.expectPending("parallel-module-b", "release-check b", "module-run b")
		w.succeeds()
		w.sleep(time.Minute)
		w.expectAny("module-run b", "release-check b", "global-afterall z")
		w.expectAllEnded()
	})
}

// TestARunWithAFailingSynchronizationWaitsForARequestedRunBeforeIt makes a Synchronization in a queue of its own fail.
// At this time, a requested run is running that was put before the run of the Synchronization.
func TestARunWithAFailingSynchronizationWaitsForARequestedRunBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newContinuing(t)
		w.discovers(modules("b", "c"), nil, nil)
		w.reports("module-run b", lifecycle.JustEnabled)
		w.items[lifecycle.ModuleSynchronization] = func(*store.Tx, workflow.Task) ([]graph.Item, error) {
			return []graph.Item{
				{Subject: graph.Subject{Module: "b", Hook: "h"}, Queue: "q", Wait: true},
				{Subject: graph.Subject{Module: "b", Hook: "i"}, Wait: true},
				{Subject: graph.Subject{Module: "b", Hook: "j"}, Wait: true},
			}, nil
		}
		fail := w.gate("module-kubernetes-synchronization b/h")
		next := w.gate("module-kubernetes-synchronization b/i")
		w.start(on(lifecycle.OnStart))
		w.ran()
		run := w.gate("module-run b")
		w.raise(on(lifecycle.OnRunRequest, "b"))
		next(workflow.Outcome{}, nil)
		w.expect("module-run b")
		fail(workflow.Outcome{}, errors.New("exit status 1"))
		w.expect()
		w.reports("module-kubernetes-synchronization b/h")
		w.reports("module-kubernetes-synchronization b/i")
		run(workflow.Outcome{Facts: []graph.Fact{lifecycle.AlreadyStarted}}, nil)
		w.sleep(time.Minute)
		w.ran()
		w.expectAllEnded()
	})
}
