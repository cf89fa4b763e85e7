package workflow_test

import (
	"context"
	"errors"
	"fmt"
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

func (w *fixture) pause(target workflow.PauseTarget) {
	w.t.Helper()
	if err := w.e.Pause(lifecycle.Graph.Name, target, "mia", "an incident"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) resume(target workflow.PauseTarget) {
	w.t.Helper()
	if err := w.e.Resume(target, "mia", ""); err != nil {
		w.t.Fatal(err)
	}
}

func module(name string) workflow.PauseTarget {
	return workflow.PauseTarget{Subject: graph.Subject{Module: name}}
}

func TestWhileAllWorkIsPausedEventsAreRecordedAndNothingStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(modules("m"), nil, nil)
		open := w.gate("discover-modules")
		w.start(on(lifecycle.OnStart))
		w.expect("discover-modules")
		w.pause(workflow.PauseTarget{})
		w.raise(in("q", on(lifecycle.OnModuleSchedule, "m", "h", "tick")))
		open(workflow.Outcome{}, nil) // the running attempt ends
		w.expect()
		w.sleep(time.Hour)
		w.crash()
		w.start()
		w.raise(in("r", on(lifecycle.OnModuleSchedule, "n", "h", "tick")))
		w.sleep(time.Hour)
		w.expect()
		w.resume(workflow.PauseTarget{})
		synctest.Wait()
		ran := w.ran()
		for _, want := range []string{"module-schedule-event m/h tick", "module-schedule-event n/h tick"} {
			if !slices.Contains(ran, want) {
				t.Errorf("after Resume, %q ran, but not %s", ran, want)
			}
		}
		w.expectPending("main")
		w.expectPending("q")
	})
}

func TestPausedQueueStandsStillAndOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.start()
		w.pause(workflow.PauseTarget{Queue: "q"})
		w.raise(
			in("q", on(lifecycle.OnModuleSchedule, "m", "h", "tick")), in("q", on(lifecycle.OnGlobalSchedule, "", "g")),
			in("r", on(lifecycle.OnModuleSchedule, "m", "h", "tock")),
		)
		w.expect("module-schedule-event m/h tock")
		w.resume(workflow.PauseTarget{Queue: "q"})
		w.expect("module-schedule-event m/h tick", "global-schedule-event g")
	})
}

func TestPausedModuleIsHeldAndRunsOnceAfterItsResumption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(modules("a", "b"), nil, nil)
		w.start()
		w.pause(module("a"))
		w.raise(on(lifecycle.OnStart), in("q", on(lifecycle.OnModuleSchedule, "a", "h", "tick")))
		w.expect("discover-modules", "module-run b", "release-check b")
		w.expectPending("main")
		w.expectHeld("module-run a", "module-schedule-event a/h tick")
		w.crash()
		w.start()
		w.expect()
		w.resume(module("a"))
		w.expectAny("module-run a", "release-check a", "module-schedule-event a/h tick")
		w.expectHeld()
		w.expectPending("main")
	})
}

func TestRunOfAModuleThatIsPausedStartsOverAfterTheResumption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		open := w.gate("release-check a")
		w.start(on(lifecycle.OnResourcesAbsent, "a"))
		w.expect("module-run a", "release-check a")
		w.pause(module("a"))
		w.reports("release-check a", lifecycle.Outdated)
		open(workflow.Outcome{Facts: []graph.Fact{lifecycle.Outdated}}, nil)
		w.expect()
		w.reports("release-check a")
		w.resume(module("a"))
		w.expect("module-run a", "release-check a")
		w.expectAllEnded()
	})
}

// TestOutputOfAStartupHookThatRunsAloneIsNotTheOutcomeOfAPreparation pauses or quarantines global onStartup hooks.
// After the resumption or the release, such a hook runs as a task without a fan-out. The outcome of this task must be
// that of the hook, and not that of a preparation.
func TestOutputOfAStartupHookThatRunsAloneIsNotTheOutcomeOfAPreparation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.bind(lifecycle.Graph, lifecycle.GlobalOnStartup, preparing{step{w, lifecycle.GlobalOnStartup}})
		w.prepare = func(context.Context, workflow.Task) (workflow.Outcome, error) {
			return workflow.Outcome{Detail: "prepared"}, nil
		}
		var applied []string
		w.applyPrepared = func(_ *store.Tx, _ workflow.Task, out workflow.Outcome) error {
			applied = append(applied, "preparation: "+out.Detail)
			return nil
		}
		w.apply = func(_ *store.Tx, t workflow.Task, out workflow.Outcome) ([]graph.Fact, error) {
			if t.Node == string(lifecycle.GlobalOnStartup) {
				applied = append(applied, t.Subject.Hook+": "+out.Detail)
			}
			return nil, nil
		}
		w.lists(lifecycle.GlobalOnStartup, hooks("a", "b", "c")...)
		w.set("global-onstartup", returns(workflow.Outcome{Detail: "output"}))
		w.gate("global-onstartup b")
		w.start()
		w.pause(workflow.PauseTarget{Subject: graph.Subject{Hook: "a"}})
		w.raise(on(lifecycle.OnStart))
		for range 3 {
			w.crash()
			w.start()
		}
		ids := w.expectQuarantined("a", "global-onstartup b")
		w.resume(workflow.PauseTarget{Subject: graph.Subject{Hook: "a"}})
		w.set("global-onstartup b", returns(workflow.Outcome{Detail: "output"}))
		if err := w.e.Release(ids[1], "me", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"preparation: prepared", "c: output", "a: output", "b: output"}, applied); diff != "" {
			t.Errorf("applied outcomes (-want +got):\n%s", diff)
		}
		w.expectAllEnded()
	})
}

func TestAFanOutDoesNotWaitForTheNextRunOfAModuleThatIsPausedDuringItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.lists(lifecycle.GlobalAfterAll, hooks("z")...)
		w.discovers(group("10", 2, "a", "b"), nil, nil)
		open := w.gate("release-check a")
		w.start(on(lifecycle.OnStart))
		w.appliesConfig(map[graph.FanOut][]graph.Item{lifecycle.Changed: modules("a")}, lifecycle.ModuleChanged)
		w.expectPending("parallel-0", "release-check a", "module-run a")
		w.ran()
		w.pause(module("a"))
		open(workflow.Outcome{}, nil)
		w.expect("global-afterall z")
		w.expectHeld("module-run a")
		w.reports("release-check a")
		w.resume(module("a"))
		w.expect("module-run a", "release-check a")
		w.expectAllEnded()
	})
}

func TestAModuleThatIsPausedDuringItsSynchronizationsAwaitsThemAfterItsResumption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.reports("module-run m", lifecycle.JustEnabled)
		w.lists(lifecycle.ModuleSynchronization,
			graph.Item{Subject: graph.Subject{Module: "m", Hook: "h"}, Queue: "q", Wait: true}, graph.Item{Subject: graph.Subject{Module: "m", Hook: "i"}, Queue: "r", Wait: true})
		h, i := w.gate("module-kubernetes-synchronization m/h"), w.gate("module-kubernetes-synchronization m/i")
		w.start(on(lifecycle.OnResourcesAbsent, "m"))
		w.expectAny("module-run m", "module-kubernetes-synchronization m/h", "module-kubernetes-synchronization m/i")
		w.pause(module("m"))
		i(workflow.Outcome{}, nil)
		w.expectHeld("module-run m")
		w.expectPending("q", "module-kubernetes-synchronization m/h")
		w.reports("module-kubernetes-synchronization m/i")
		w.resume(module("m"))
		w.expect("module-run m", "module-kubernetes-synchronization m/i")
		h(workflow.Outcome{}, nil)
		w.expect("release-check m")
		w.expectAllEnded()
	})
}

func TestARunThatContinuesAfterAShortPauseMissesNoSynchronization(t *testing.T) {
	for _, fails := range []bool{false, true} { // whether the run waits for a retry during the pause; otherwise its attempt is running
		t.Run(fmt.Sprint("fails ", fails), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				w.reports("module-run m", lifecycle.JustEnabled)
				w.lists(lifecycle.ModuleSynchronization,
					graph.Item{Subject: graph.Subject{Module: "m", Hook: "h"}, Queue: "q", Wait: true}, graph.Item{Subject: graph.Subject{Module: "m", Hook: "i"}})
				block, open := w.gate("module-schedule-event x/h"), w.gate("module-kubernetes-synchronization m/i")
				w.start(in("q", on(lifecycle.OnModuleSchedule, "x", "h")), on(lifecycle.OnResourcesAbsent, "m"))
				w.expectAny("module-schedule-event x/h", "module-run m", "module-kubernetes-synchronization m/i")
				if fails {
					open(workflow.Outcome{}, errors.New("503"))
				}
				w.pause(module("m"))
				block(workflow.Outcome{}, nil)
				w.expectPending("q")
				w.reports("module-run m", lifecycle.AlreadyStarted) // for the run after the pause
				w.resume(module("m"))
				w.reports("module-kubernetes-synchronization m/i")
				if !fails {
					open(workflow.Outcome{}, nil)
				}
				w.sleep(time.Minute)
				if ran := w.ran(); !slices.Contains(ran, "module-kubernetes-synchronization m/h") {
					t.Errorf("after the pause, only these steps ran: %q", ran)
				}
				w.expectAllEnded()
			})
		})
	}
}

func TestPausedHookOfAModuleMissesNoEventAndItsModuleRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		hook := workflow.PauseTarget{Subject: graph.Subject{Module: "a", Hook: "h"}}
		w.lists(lifecycle.ModuleBeforeHelm, graph.Item{Subject: graph.Subject{Module: "a", Hook: "h"}})
		w.start()
		w.pause(hook)
		w.raise(
			in("q", on(lifecycle.OnModuleSchedule, "a", "h", "tick")), in("q", on(lifecycle.OnModuleSchedule, "a", "i", "tick")),
			on(lifecycle.OnResourcesAbsent, "a"),
		)
		w.expectAny("module-schedule-event a/i tick", "module-run a", "module-beforehelm a/h", "release-check a")
		w.resume(hook)
		w.expect("module-schedule-event a/h tick")
	})
}

func TestAllSynchronizationsOfAPausedGlobalHookRunAfterItsResumption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		hook := workflow.PauseTarget{Subject: graph.Subject{Hook: "h"}}
		w.lists(lifecycle.GlobalSynchronization, bindings("h", "q", "a", "b", "c")...)
		w.start()
		w.pause(hook)
		w.raise(on(lifecycle.OnStart))
		w.expect("discover-modules")
		w.expectHeld("global-kubernetes-synchronization h a", "global-kubernetes-synchronization h b", "global-kubernetes-synchronization h c")
		w.resume(hook)
		w.expect("global-kubernetes-synchronization h a", "global-kubernetes-synchronization h b", "global-kubernetes-synchronization h c")
		w.expectAllEnded()
	})
}

func TestAPausedGlobalHookThatAConvergePassedOverRunsInANewRunAfterItsResumption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		hook := workflow.PauseTarget{Subject: graph.Subject{Hook: "h"}}
		w.lists(lifecycle.GlobalBeforeAll, hooks("a", "h")...)
		w.start()
		w.pause(hook)
		w.raise(on(lifecycle.OnStart))
		w.expect("global-beforeall a", "discover-modules")
		w.expectAllEnded()
		passed := w.runs()
		w.resume(hook)
		w.expect("global-beforeall a", "global-beforeall h", "discover-modules")
		w.expectAllEnded()
		runs := w.runs()
		if len(runs) != len(passed)+1 {
			t.Fatalf("there are %d runs after %d", len(runs), len(passed))
		}
		last, again := passed[len(passed)-1], runs[len(runs)-1]
		if again.ID != last.ID+1 || again.Trigger != last.Trigger || again.Graph != last.Graph || again.Began.IsZero() {
			t.Errorf("after run %+v, the hook ran in run %+v", last, again)
		}
	})
}

func TestARunOfAModuleSynchronizesItsPausedHookInAnyQueue(t *testing.T) {
	for _, queue := range []string{"", "q"} {
		t.Run("queue "+queue, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				hook := workflow.PauseTarget{Subject: graph.Subject{Module: "m", Hook: "h"}}
				w.start()
				w.pause(hook)
				w.reports("module-run m", lifecycle.JustEnabled)
				w.lists(lifecycle.ModuleSynchronization, graph.Item{Subject: graph.Subject{Module: "m", Hook: "h", Binding: "a"}, Queue: queue, Wait: true})
				w.raise(on(lifecycle.OnResourcesAbsent, "m"), in("q", on(lifecycle.OnModuleKubeEvent, "m", "h", "a")))
				w.expect("module-run m", "module-kubernetes-synchronization m/h a", "release-check m")
				w.resume(hook)
				w.expect("module-kubernetes-event m/h a")
				w.expectAllEnded()
			})
		})
	}
}

// newUnawaited returns a fixture in which the Synchronization of module m waits in queue q behind
// a step that runs until open is called. The run of m has not waited for the Synchronization, and
// has ended.
func newUnawaited(t *testing.T) (w *fixture, open func()) {
	t.Helper()
	w = newLifecycle(t)
	end := w.gate("module-schedule-event x/h")
	w.lists(lifecycle.ModuleSynchronization, graph.Item{Subject: graph.Subject{Module: "m", Hook: "h", Binding: "a"}, Queue: "q"})
	w.reports("module-run m", lifecycle.JustEnabled)
	w.start(in("q", on(lifecycle.OnModuleSchedule, "x", "h")))
	w.raise(on(lifecycle.OnResourcesAbsent, "m"))
	w.expect("module-schedule-event x/h", "module-run m", "release-check m")
	w.reports("module-run m", lifecycle.AlreadyStarted)
	return w, func() { end(workflow.Outcome{}, nil) }
}

func TestASynchronizationThatNoRunAwaitsRunsAfterThePauseOfItsModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, open := newUnawaited(t)
		w.pause(module("m"))
		open()
		w.expectHeld("module-kubernetes-synchronization m/h a")
		w.raise(on(lifecycle.OnResourcesAbsent, "m"))
		w.crash()
		w.start()
		w.expectHeld("module-kubernetes-synchronization m/h a", "module-run m")
		w.resume(module("m"))
		w.expectAny("module-run m", "release-check m", "module-kubernetes-synchronization m/h a")
		w.expectAllEnded()
	})
}

func TestARunAwaitsTheSynchronizationThatReturnsToItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, open := newUnawaited(t)
		w.pause(module("m"))
		open()
		w.raise(in("q", on(lifecycle.OnModuleSchedule, "x", "h")))
		w.expect("module-schedule-event x/h")
		w.resume(module("m"))
		w.reports("module-run m", lifecycle.JustEnabled)
		w.lists(lifecycle.ModuleSynchronization, graph.Item{Subject: graph.Subject{Module: "m", Hook: "h", Binding: "a"}, Queue: "q", Wait: true})
		w.raise(on(lifecycle.OnResourcesAbsent, "m"))
		w.expect("module-run m")
		open()
		w.expect("module-kubernetes-synchronization m/h a", "release-check m")
		w.expectAllEnded()
	})
}

func TestAPausedModuleIsHeldThoughItsHookWasPausedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		block := w.gate("module-schedule-event x/h")
		w.reports("module-run m", lifecycle.JustEnabled)
		w.lists(lifecycle.ModuleSynchronization, graph.Item{Subject: graph.Subject{Module: "m", Hook: "h", Binding: "a"}, Queue: "q", Wait: true})
		w.start(in("q", on(lifecycle.OnModuleSchedule, "x", "h")), on(lifecycle.OnResourcesAbsent, "m"))
		w.expectAny("module-schedule-event x/h", "module-run m")
		w.pause(workflow.PauseTarget{Subject: graph.Subject{Module: "m", Hook: "h"}})
		w.pause(module("m"))
		block(workflow.Outcome{}, nil)
		w.expect()
		w.resume(module("m"))
		w.expect("module-run m", "module-kubernetes-synchronization m/h a", "release-check m")
		w.expectAllEnded()
	})
}

func TestPauseThatIsNoneIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.start()
		if err := w.e.Resume(module("a"), "mia", ""); !errors.Is(err, workflow.ErrNotPaused) {
			t.Errorf("resume: %v", err)
		}
		w.pause(module("a"))
		if err := w.e.Pause(lifecycle.Graph.Name, module("a"), "tom", "again"); !errors.Is(err, workflow.ErrPaused) {
			t.Errorf("pause: %v", err)
		}
		var id store.ID
		w.view(func(tx *store.Tx) error {
			for q, err := range store.QuarantinedItems(tx) {
				if err != nil {
					return err
				}
				id = q.ID
			}
			return nil
		})
		if err := w.e.Release(id, "me", ""); !errors.Is(err, workflow.ErrNoTask) {
			t.Errorf("release: %v", err)
		}
		if err := w.e.Skip(id, "mia", "no"); !errors.Is(err, workflow.ErrNoTask) {
			t.Errorf("skip: %v", err)
		}
	})
}

func TestReloadFollowsTheResumptionOfAGlobalHookThatOneHasPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		hook := workflow.PauseTarget{Subject: graph.Subject{Hook: "b"}}
		w.lists(lifecycle.GlobalBeforeAll, hooks("a", "b", "c")...)
		w.start(on(lifecycle.OnStart))
		w.expect("global-beforeall a", "global-beforeall b", "global-beforeall c", "discover-modules")
		w.pause(hook)
		w.raise(on(lifecycle.OnReloadRequest))
		w.expect("global-beforeall a", "global-beforeall c", "discover-modules")
		w.resume(hook)
		w.expect("global-beforeall a", "global-beforeall b", "global-beforeall c", "discover-modules")
		w.expectAllEnded()
	})
}
