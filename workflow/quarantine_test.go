package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// crash ends this epoch as a SIGKILL does, and opens the next epoch with an engine that is not
// started. crash also discards the notes.
func (w *fixture) crash() {
	w.t.Helper()
	w.mem.Before = func(int) error { return errKilled }
	w.e.Stop()
	if err := w.db.Close(); err != nil {
		w.t.Error(err)
	}
	w.mem.Before = nil
	w.open()
	w.took()
}

// inQuarantine returns the items in quarantine and the pauses, as "node subject", and their ids.
func (w *fixture) inQuarantine() (out []string, ids []store.ID) {
	w.t.Helper()
	w.view(func(tx *store.Tx) error {
		for q, err := range store.QuarantinedItems(tx) {
			if err != nil {
				return err
			}
			out, ids = append(out, name(q.Node, q.Subject)), append(ids, q.ID)
		}
		return nil
	})
	return out, ids
}

// held returns the held tasks.
func (w *fixture) held() (tasks []*store.Task) {
	w.t.Helper()
	w.view(func(tx *store.Tx) error {
		for t, err := range store.AllHeldTasks(tx) {
			if err != nil {
				return err
			}
			tasks = append(tasks, t)
		}
		return nil
	})
	return tasks
}

// expectHeld compares the held tasks, as "node subject" and sorted, with want.
func (w *fixture) expectHeld(want ...string) {
	w.t.Helper()
	var got []string
	for _, t := range w.held() {
		got = append(got, name(t.Node, t.Subject))
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("held tasks (-want +got):\n%s", diff)
	}
}

func (w *fixture) expectQuarantined(want ...string) []store.ID {
	w.t.Helper()
	got, ids := w.inQuarantine()
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("quarantine (-want +got):\n%s", diff)
	}
	return ids
}

func TestCrashingTaskRunsAloneAndIsThenQuarantined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		observed := 0
		w.quarantined = func(q store.QuarantinedItem) { observed++ }
		kills, innocent := event("kills", "b", "1", false), in("q2", on("event", "n", "innocent", "b"))
		w.gate("event m/kills b")
		w.gate("event n/innocent b")
		w.start(kills, event("kills", "b", "2", false), event("other", "b", "3", false), innocent)
		w.crash()
		w.start()
		w.expectAny("event m/kills b", "event n/innocent b")
		w.crash()
		// Both tasks were running at two unclean exits, so each must run exclusively.
		w.start()
		w.raise(in("q3", on("event", "n", "free", "b")))
		w.expect("event m/kills b")
		w.expectQuarantined()
		w.crash()
		innocents := w.gate("event n/innocent b")
		w.start()
		w.expect("event n/innocent b")
		ids := w.expectQuarantined("event m/kills b")
		if observed != 1 {
			t.Errorf("the observer was called %d times for a quarantined task, want once", observed)
		}
		innocents(workflow.Outcome{}, nil)
		w.expect("event n/free b")
		w.expectPending("q") // all other work of the module is held
		w.raise(event("more", "b", "z", false), in("q4", on("event", "n", "h", "b")))
		w.expect("event n/h b")
		if err := w.e.Retry(ids[0], "me", ""); !errors.Is(err, workflow.ErrQuarantined) {
			t.Errorf("retry of a task in quarantine: %v", err)
		}
		if err := w.e.Cancel(t.Context(), ids[0], workflow.Cancellation{}); !errors.Is(err, workflow.ErrQuarantined) {
			t.Errorf("cancel of a task in quarantine: %v", err)
		}
		held := w.held()[0].ID
		for name, err := range map[string]error{"retry": w.e.Retry(held, "me", ""), "release": w.e.Release(held, "me", "")} {
			if !errors.Is(err, workflow.ErrHeld) || !strings.HasSuffix(err.Error(), "run addon-operator task release "+ids[0].String()) {
				t.Errorf("%s of a held task: %v", name, err)
			}
		}
		if err := w.e.Cancel(t.Context(), held, workflow.Cancellation{}); !errors.Is(err, workflow.ErrNotRunning) {
			t.Errorf("cancel of a held task: %v", err)
		}
		w.set("event m/kills b", returns(workflow.Outcome{}))
		if err := w.e.Release(ids[0], "me", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.expectRanges([]string{"1", "2"}, []string{"3"}, []string{"z"})
		w.expectQuarantined()
		if got := w.actions(); len(got) != 1 || !strings.HasPrefix(got[0], "task release m in ") {
			t.Errorf("stored actions: %q", got)
		}
		if err := w.e.Release(ids[0], "me", ""); !errors.Is(err, workflow.ErrNoTask) {
			t.Errorf("a second release returned %v", err)
		}
		w.expectAllEnded()
	})
}

func TestEndOfASuspectClearsIt(t *testing.T) {
	for _, end := range []error{nil, errors.New("no")} {
		synctest.Test(t, func(t *testing.T) {
			w := newFixture(t, eventGraph())
			w.gate("event m/h b")
			w.start(event("h", "b", "1", false))
			w.crash()
			w.start()
			w.crash()
			open := w.gate("event m/h b")
			w.start()
			w.raise(in("q2", event("other", "b", "2", false)))
			w.expect("event m/h b")
			open(workflow.Outcome{}, end)
			w.expect("event m/other b")
			w.raise(event("h", "b", "3", false))
			w.sleep(10 * time.Second)
			w.crash()
			w.start(in("q2", event("other", "b", "4", false)))
			w.expectAny("event m/h b", "event m/other b")
		})
	}
}

func TestACrashWhileAFailedSuspectWaitsForItsRetryIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.gate("event m/h b")
		w.start(event("h", "b", "1", false))
		w.crash()
		w.start()
		w.crash()
		open := w.gate("event m/h b")
		w.start()
		w.expect("event m/h b")
		open(workflow.Outcome{}, errors.New("no"))
		w.took()
		w.crash()
		w.gate("event m/other b")
		w.start(in("q2", event("other", "b", "2", false)))
		w.expect("event m/other b")
		w.sleep(10 * time.Second)
		w.expect("event m/h b") // the two tasks run in parallel
		w.expectQuarantined()
	})
}

func TestASuspectWaitsForTasksThatRunAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.gate("event m/h b")
		w.start(event("h", "b", "1", false))
		w.crash()
		w.start()
		w.crash()
		w.took()
		end := w.gate("event n/other b")
		w.start(in("a", on("event", "n", "other", "b"))) // the task of queue a is claimed before the task of queue q
		w.expect("event n/other b")
		end(workflow.Outcome{}, nil)
		w.expect("event m/h b")
	})
}

func TestASuspectStartsWhenTheLastOtherTaskEndsInAPausedQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.gate("event m/h b")
		w.start(event("h", "b", "1", false))
		w.crash()
		w.start()
		w.crash()
		end := w.gate("event n/other b")
		w.start(in("a", on("event", "n", "other", "b")), in("a", on("event", "n", "next", "b")))
		w.expect("event n/other b")
		w.pause(workflow.PauseTarget{Queue: "a"})
		end(workflow.Outcome{}, nil)
		w.expect("event m/h b")
		w.expectPending("a", "event n/next b")
	})
}

func TestDeliberateEndIsNoCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.gate("event m/h b")
		w.start(event("h", "b", "1", false))
		for range 5 {
			w.restart()
			w.took()
			w.start(in("q2", event("other", "b", "2", false)))
			w.expectAny("event m/h b", "event m/other b")
		}
		w.expectQuarantined()
	})
}

// crashThreeTimes crashes and restarts the engine until the running task is quarantined.
func (w *fixture) crashThreeTimes() {
	w.t.Helper()
	for range 3 {
		w.crash()
		w.start()
	}
	w.took()
}

func TestFanOutContinuesAfterItsModuleRunIsQuarantined(t *testing.T) {
	for _, width := range []int{1, 2} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				w.discovers(group("10", width, "bad", "good"), nil, nil)
				w.lists(lifecycle.GlobalAfterAll, hooks("z")...)
				w.items[lifecycle.ModuleBeforeHelm] = func(_ *store.Tx, t workflow.Task) ([]graph.Item, error) {
					if t.Subject.Module != "bad" {
						return nil, nil
					}
					return []graph.Item{{Subject: graph.Subject{Module: "bad", Hook: "h"}}, {Subject: graph.Subject{Module: "bad", Hook: "i"}}}, nil
				}
				w.gate("module-beforehelm bad/h")
				w.start(on(lifecycle.OnStart), on(lifecycle.OnResourcesAbsent, "other"))
				for range 3 {
					w.crash()
					w.raise(in("q", on(lifecycle.OnModuleKubeEvent, "bad", "h", "b")))
					w.start()
				}
				ids := w.expectQuarantined("module-beforehelm bad/h")
				ran := w.ran()
				for _, want := range []string{"global-afterall z", "module-run other"} {
					if !slices.Contains(ran, want) {
						t.Errorf("%s did not run: %q", want, ran)
					}
				}
				if slices.Contains(ran, "module-beforehelm bad/i") {
					t.Error("the run continued")
				}
				w.expectPending("main")
				w.expectPending("q")
				w.raise(on(lifecycle.OnResourcesAbsent, "bad"))
				w.expect()
				w.expectHeld("module-kubernetes-event bad/h b", "module-run bad")
				w.lists(lifecycle.ModuleBeforeHelm)
				delete(w.do, "module-beforehelm bad/h")
				if err := w.e.Release(ids[0], "me", ""); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				w.expectAny("module-run bad", "release-check bad", "module-kubernetes-event bad/h b")
				w.expectHeld()
				w.expectAllEnded()
			})
		})
	}
}

func TestQuarantinedGlobalHookIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.lists(lifecycle.GlobalBeforeAll, hooks("a", "bad", "c")...)
		w.discovers(modules("m"), nil, nil)
		w.gate("global-beforeall bad")
		w.start(on(lifecycle.OnStart))
		w.raise(in("q", on(lifecycle.OnGlobalSchedule, "", "fine")))
		w.crash()
		w.start()
		w.crash()
		w.start()
		w.crash()
		w.start()
		ids := w.expectQuarantined("global-beforeall bad")
		w.expect("global-beforeall c", "discover-modules", "module-run m", "release-check m")
		w.reports("global-schedule-event fine", lifecycle.GlobalChanged)
		w.raise(in("q", on(lifecycle.OnGlobalSchedule, "", "fine")), in("q", on(lifecycle.OnGlobalSchedule, "", "bad")))
		ran := w.ran()
		if slices.Contains(ran, "global-beforeall bad") || slices.Contains(ran, "global-schedule-event bad") || !slices.Contains(ran, "global-beforeall c") {
			t.Errorf("while bad was in quarantine, these ran: %q", ran)
		}
		delete(w.do, "global-beforeall bad")
		if err := w.e.Release(ids[0], "me", ""); err != nil {
			t.Fatal(err)
		}
		w.expectAny("global-beforeall a", "global-beforeall bad", "global-beforeall c", "discover-modules", "module-run m", "release-check m",
			"global-schedule-event bad")
		w.expectPending("main")
	})
}

func TestSkipDeletesAnItemFromQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.gate("event m/h b")
		w.start(event("h", "b", "1", false))
		w.crashThreeTimes()
		ids := w.expectQuarantined("event m/h b")
		if err := w.e.Skip(ids[0], "me", "no need"); err != nil {
			t.Fatal(err)
		}
		w.expectQuarantined()
		history := w.history(1)
		if last := history[len(history)-1]; last != "skipped event m/h b" {
			t.Errorf("history ends with %q", last)
		}
		delete(w.do, "event m/h b")
		w.raise(event("h", "b", "2", false))
		w.expectRanges([]string{"2"})
	})
}

func TestSkipOfAStepInQuarantineLetsItsRunGoOnWithoutTheStep(t *testing.T) {
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint(waits), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				w.lists(lifecycle.ModuleBeforeHelm, []graph.Item{{Subject: graph.Subject{Module: "m", Hook: "h"}}, {Subject: graph.Subject{Module: "m", Hook: "i"}}}...)
				w.gate("module-beforehelm m/h")
				w.start(on(lifecycle.OnResourcesAbsent, "m"))
				w.crashThreeTimes()
				ids := w.expectQuarantined("module-beforehelm m/h")
				if waits {
					w.raise(on(lifecycle.OnResourcesAbsent, "m"))
					w.expectHeld("module-run m")
				}
				if err := w.e.Skip(ids[0], "ann", "known"); err != nil {
					t.Fatal(err)
				}
				w.expect("module-run m", "module-beforehelm m/i", "release-check m")
				w.expectHeld()
				w.expectAllEnded()
			})
		})
	}
}

func TestSkipOfAFirstStepInQuarantineKeepsALaterRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.gate("configmap-changed")
		w.start(on(lifecycle.OnConfigMap))
		w.crashThreeTimes()
		ids := w.expectQuarantined("configmap-changed")
		w.took()
		w.set("configmap-changed", returns(workflow.Outcome{}))
		w.raise(on(lifecycle.OnConfigMap))
		if err := w.e.Skip(ids[0], "ann", "known"); err != nil {
			t.Fatal(err)
		}
		w.expect("configmap-changed")
		w.expectAllEnded()
	})
}

func TestWhatIsPutBeforeASuspectMayNeedOtherQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.gate("module-kubernetes-event m/h b")
		w.start(in("main", on(lifecycle.OnModuleKubeEvent, "m", "h", "b")))
		w.crash()
		w.start()
		w.crash()
		// The task must run exclusively. A start run is in front of it in queue main, and waits for an item in queue q.
		w.lists(lifecycle.GlobalSynchronization, graph.Item{Subject: graph.Subject{Hook: "far"}, Queue: "q", Wait: true})
		w.start(on(lifecycle.OnStart))
		w.expect("global-kubernetes-synchronization far", "discover-modules", "module-kubernetes-event m/h b")
	})
}

func TestCutLetsOthersGoOnWhenItTakesASuspectAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(modules("m"), nil, nil)
		w.gate("release-check m")
		w.gate("module-schedule-event long/h")
		w.start(on(lifecycle.OnStart), in("long", on(lifecycle.OnModuleSchedule, "long", "h")))
		w.crash()
		w.start()
		w.crash()
		long := w.gate("module-schedule-event long/h")
		w.start() // one of the two tasks runs exclusively, and the other task waits
		w.ran()
		w.reports(string(lifecycle.ConfigMapChanged), lifecycle.GlobalChanged)
		delete(w.do, "release-check m")
		w.raise(on(lifecycle.OnConfigMap), in("q", on(lifecycle.OnModuleSchedule, "x", "h")))
		long(workflow.Outcome{}, nil)
		w.sleep(time.Minute)
		if ran := strings.Join(w.ran(), ", "); !strings.Contains(ran, "module-schedule-event x/h") || !strings.Contains(ran, "release-check m") {
			t.Errorf("after the rewind, these ran: %s", ran)
		}
		w.expectPending("main")
	})
}

func TestReleaseBringsBackWhatIsDoneByItself(t *testing.T) {
	for _, journal := range []bool{false, true} {
		t.Run(fmt.Sprint(journal), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, eventGraph())
				legacy := event("h", "b", "1", false)
				legacy.NoBatch = !journal
				legacy.Object = &store.ObjectRef{Event: "Deleted", Name: "x"}
				w.gate("event m/h b")
				if journal {
					w.set("event m/h b", returns(effects("one")))
					w.effect = func(ctx context.Context, _ workflow.Task, _ workflow.Effect) error {
						<-ctx.Done()
						return ctx.Err()
					}
				}
				w.start(legacy)
				w.crashThreeTimes()
				ids := w.expectQuarantined("event m/h b")
				w.effect = nil
				w.set("event m/h b", func(_ context.Context, t workflow.Task) (workflow.Outcome, error) {
					if t.Object == nil || t.Object.Name != "x" {
						return workflow.Outcome{Dropped: "it is about nothing"}, nil
					}
					return workflow.Outcome{}, nil
				})
				if err := w.e.Release(ids[0], "me", ""); err != nil {
					t.Fatal(err)
				}
				w.expectRanges([]string{"1"})
				if h := w.history(1); h[len(h)-1] != "done event m/h b" {
					t.Errorf("history ends with %q", h)
				}
			})
		})
	}
}

func TestReleasedSynchronizationRunsInItsQueueWithTheOthersOfItsHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.lists(lifecycle.GlobalSynchronization, bindings("h", "q", "a", "b", "c")...)
		w.gate("global-kubernetes-synchronization h a")
		w.start(on(lifecycle.OnStart))
		w.crashThreeTimes()
		ids := w.expectQuarantined("global-kubernetes-synchronization h a")
		w.set("global-kubernetes-synchronization h a", returns(workflow.Outcome{}))
		if err := w.e.Release(ids[0], "me", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var ran []string
		for _, n := range w.took() {
			ran = append(ran, n.task.Queue+": "+n.what)
		}
		slices.Sort(ran)
		want := []string{"q: global-kubernetes-synchronization h a", "q: global-kubernetes-synchronization h b", "q: global-kubernetes-synchronization h c"}
		if diff := cmp.Diff(want, ran); diff != "" {
			t.Errorf("what ran (-want +got):\n%s", diff)
		}
		w.expectAllEnded()
	})
}

func TestAReleasedItemMayFailIfItsBindingAllowsFailures(t *testing.T) {
	for where, queue := range map[string]string{"in the queue of the fan-out": "", "in its own queue": "q"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				w.lists(lifecycle.GlobalSynchronization,
					graph.Item{Subject: graph.Subject{Hook: "h", Binding: "a"}, Queue: queue, Wait: true, AllowFailure: true})
				w.gate("global-kubernetes-synchronization h a")
				w.start(on(lifecycle.OnStart))
				w.crashThreeTimes()
				ids := w.expectQuarantined("global-kubernetes-synchronization h a")
				w.fails("global-kubernetes-synchronization h a", 1)
				if err := w.e.Release(ids[0], "me", ""); err != nil {
					t.Fatal(err)
				}
				w.sleep(time.Minute)
				w.expect("global-kubernetes-synchronization h a")
				w.expectAllEnded()
			})
		})
	}
}

func TestReleasedSynchronizationThatNoRunAwaitsRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, open := newUnawaited(t)
		w.gate("module-kubernetes-synchronization m/h a")
		open()
		w.crashThreeTimes()
		ids := w.expectQuarantined("module-kubernetes-synchronization m/h a")
		w.set("module-kubernetes-synchronization m/h a", returns(workflow.Outcome{}))
		if err := w.e.Release(ids[0], "me", ""); err != nil {
			t.Fatal(err)
		}
		w.expect("module-kubernetes-synchronization m/h a")
		w.expectAllEnded()
	})
}

func TestReleasedPartOfAReloadIsDoneByAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(nil, nil, modules("old"))
		w.gate("module-purge old")
		w.start(on(lifecycle.OnStart))
		w.crashThreeTimes()
		ids := w.expectQuarantined("module-purge old")
		w.set("module-purge old", returns(workflow.Outcome{}))
		if err := w.e.Release(ids[0], "me", ""); err != nil {
			t.Fatal(err)
		}
		w.expect("discover-modules", "module-purge old")
		w.expectPending("main")
	})
}

func TestRunningTaskEndsWhenItsModuleIsQuarantined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.gate("release-check m")
		w.start(on(lifecycle.OnResourcesAbsent, "m"))
		w.crash()
		w.start()
		w.crash()
		w.start()
		w.raise(in("q", on(lifecycle.OnModuleKubeEvent, "m", "h", "b")), in("q", on(lifecycle.OnModuleKubeEvent, "m", "h2", "b")))
		w.crash()
		// The task of the ConfigMap comes before the crashing task. Meanwhile a hook of the module runs.
		configMap, hook := w.gate("configmap-changed"), w.gate("module-kubernetes-event m/h b")
		w.start(on(lifecycle.OnConfigMap))
		w.expectAny("configmap-changed", "module-kubernetes-event m/h b")
		configMap(workflow.Outcome{}, nil)
		w.expectQuarantined("release-check m")
		w.expectPending("q", "module-kubernetes-event m/h b", "module-kubernetes-event m/h2 b")
		hook(workflow.Outcome{}, nil)
		w.expectPending("q")
		w.expectHeld("module-kubernetes-event m/h2 b")
		if h := w.history(2); h[len(h)-1] != "done module-kubernetes-event m/h b" {
			t.Errorf("the history of the hook that was running is %q", h)
		}
	})
}

func TestWithdrawLeavesWhatWasInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.gate("event m/h b")
		w.gate("event n/h b")
		w.start(about(in("a", on("event", "m", "h", "b")), "o"), in("b", on("event", "n", "h", "b")))
		w.crash()
		w.start()
		w.crash()
		// Each of the two tasks must run exclusively, after the running tasks have ended.
		runs := w.gate("event x/h b")
		w.set("event m/h b", returns(workflow.Outcome{}))
		w.set("event n/h b", returns(workflow.Outcome{}))
		w.start(in("z", on("event", "x", "h", "b")))
		w.expect("event x/h b")
		w.withdraw("a", "m", "h", nil)
		runs(workflow.Outcome{}, nil)
		w.expect("event m/h b", "event n/h b")
	})
}

func TestReleasedTaskWaitsForOtherQuarantinedTasksOfItsModule(t *testing.T) {
	for _, order := range []string{"first, second", "second, first", "first, skip second"} {
		t.Run(order, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, eventGraph())
				w.set("event m/a b", returns(effects("one")))
				w.set("event m/c b", returns(effects("one")))
				w.effect = func(ctx context.Context, _ workflow.Task, _ workflow.Effect) error {
					<-ctx.Done()
					return ctx.Err()
				}
				w.start(in("q1", event("a", "b", "1", false)), in("q2", event("c", "b", "2", false)))
				for range 5 { // the quarantine of one task does not hold the other task, because its effects have begun
					w.crash()
					w.start()
				}
				ids := w.expectQuarantined("event m/a b", "event m/c b")
				w.effect = nil
				w.set("event m/a b", returns(workflow.Outcome{}))
				w.set("event m/c b", returns(workflow.Outcome{}))
				w.took()
				want := [][]string{{"1"}, {"2"}}
				if order == "second, first" {
					slices.Reverse(ids)
				}
				if err := w.e.Release(ids[0], "me", ""); err != nil {
					t.Fatal(err)
				}
				w.expectRanges()
				if _, left := w.inQuarantine(); !slices.Equal(left, ids[1:]) {
					t.Fatalf("these items are in quarantine: %v, want %v", left, ids[1:])
				}
				var err error
				if order == "first, skip second" {
					want = want[:1]
					err = w.e.Skip(ids[1], "me", "no need")
				} else {
					err = w.e.Release(ids[1], "me", "")
				}
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				ranges := w.ranges()
				slices.SortFunc(ranges, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
				if diff := cmp.Diff(want, ranges); diff != "" {
					t.Error(diff)
				}
				w.expectQuarantined()
				w.expectPending("q1")
				w.expectPending("q2")
			})
		})
	}
}

func TestAStopOnAFullDiskIsNoCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.fragile = true
		w.gate("event m/h b")
		w.start(event("h", "b", "1", false))
		for range 4 {
			w.mem.Before = func(int) error { return store.ErrFull }
			w.e.Stop()
			if err := w.db.Close(); err != nil {
				t.Fatal(err)
			}
			w.mem.Before = nil
			w.open()
			// A process that ends before it starts tasks does not change the record of the end of
			// the previous process.
			if err := w.db.Close(); err != nil {
				t.Fatal(err)
			}
			w.open()
			w.start()
		}
		w.expectQuarantined()
		w.view(func(tx *store.Tx) error {
			ends, _, err := store.Load[store.Ends](tx, store.EndsKey())
			if len(ends.Unclean) > 0 {
				t.Errorf("the ends of epochs %v count as crashes", ends.Unclean)
			}
			return err
		})
	})
}

func TestStartOnAFullDiskWaitsForRoomUntilItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "n"}))
		var full atomic.Bool
		full.Store(true)
		w.mem.Before = func(int) error {
			if full.Load() {
				return store.ErrFull
			}
			return nil
		}
		started := make(chan error, 1)
		start := func() {
			started <- w.e.Start(func(*store.Tx) ([]workflow.Event, error) { return []workflow.Event{on("go")}, nil })
		}
		go start()
		w.sleep(time.Minute)
		w.expect()
		full.Store(false)
		w.sleep(10 * time.Second)
		w.expect("n")
		if err := <-started; err != nil {
			t.Errorf("start: %v", err)
		}
		w.restart()
		w.mem.Before = func(int) error { return store.ErrFull }
		go start()
		w.sleep(time.Minute)
		w.e.Stop()
		if err := <-started; !errors.Is(err, store.ErrFull) || !errors.Is(err, context.Canceled) {
			t.Errorf("a start that was stopped returned %v", err)
		}
		w.mem.Before = nil
	})
}
