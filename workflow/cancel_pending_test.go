package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// kubeEvent returns a Kubernetes event for a hook of the given module, in a queue named after the hook.
func kubeEvent(module, hook string) workflow.Event {
	return in("q-"+hook, on(lifecycle.OnModuleKubeEvent, module, hook, "b"))
}

// deletion starts a reload in which module m is disabled, so that m is deleted.
func (w *fixture) deletion() {
	w.t.Helper()
	w.discovers(nil, modules("m"), nil)
	w.reports("global-schedule-event h", lifecycle.GlobalChanged)
	w.raise(in("cron", on(lifecycle.OnGlobalSchedule, "", "h")))
}

func TestDeletionTakesTheModulesWaitingTasksOutOfEveryQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.fails("module-kubernetes-event m/fails b", 9)
		m, other := w.gate("module-kubernetes-event m/runs b"), w.gate("module-kubernetes-event other/runs b")
		w.start(kubeEvent("m", "runs"), kubeEvent("other", "runs"), kubeEvent("m", "fails"), kubeEvent("other", "fails"))
		w.raise(kubeEvent("m", "runs"), kubeEvent("other", "runs"))
		open := w.gate("module-run x")
		w.raise(on(lifecycle.OnResourcesAbsent, "x"))
		w.deletion()
		w.raise(on(lifecycle.OnResourcesAbsent, "m"), on(lifecycle.OnResourcesAbsent, "y"))
		w.ran()
		applied := 0
		w.locked(func() {
			w.apply = func(_ *store.Tx, t workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
				if t.Node == string(lifecycle.ModuleKubernetesEvent) && t.Subject.Module == "m" {
					applied++
				}
				return nil, nil
			}
		})
		open(workflow.Outcome{}, nil)
		// The deletion waits for the running task of m; no other task of m is left.
		w.expectAny("discover-modules", "module-delete m", "module-kubernetes-event other/fails b")
		w.expectPending("q-fails")
		w.expectPending("q-runs", "module-kubernetes-event m/runs b", "module-kubernetes-event other/runs b", "module-kubernetes-event other/runs b")
		w.expectPending("main", "module-retire m", "module-delete", "global-afterall", "module-run y")
		m(workflow.Outcome{Facts: []graph.Fact{lifecycle.ModuleChanged}}, nil)
		w.expectAny("module-kubernetes-event other/runs b", "release-delete m", "module-run y", "release-check y")
		other(workflow.Outcome{}, nil)
		if applied != 0 {
			t.Errorf("Apply was called %d times for the deleted module's task", applied)
		}
		if diff := cmp.Diff([]string{"dropped module-kubernetes-event m/runs b"}, w.history(1)); diff != "" {
			t.Error(diff)
		}
		w.expectPending("main")
	})
}

func TestEffectsOfADeletedModuleThatAreNotBegunAreNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		runs := w.gate("module-kubernetes-event m/runs b")
		w.set("module-kubernetes-event m/begun b", returns(effects("begun")))
		w.set("module-kubernetes-event m/failed b", returns(effects("failed")))
		ends := map[string]chan error{"begun": make(chan error), "failed": make(chan error)}
		var done []string
		w.effect = func(ctx context.Context, t workflow.Task, e workflow.Effect) error {
			w.locked(func() { done = append(done, e.Kind) })
			select {
			case err := <-ends[e.Kind]:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		// One hook runs, one executes its effects, and one waits for the retry of its effects.
		w.start(kubeEvent("m", "runs"), kubeEvent("m", "begun"), kubeEvent("m", "failed"))
		ends["failed"] <- errors.New("503")
		synctest.Wait()
		w.ran()
		w.deletion()
		w.expectAny("global-schedule-event h", "discover-modules", "module-delete m")
		runs(effects("not begun"), nil)
		ends["begun"] <- errors.New("503")
		synctest.Wait()
		w.expectPending("q-begun")
		if task := w.pending("q-failed")[0]; !task.Journal || !task.Abandoned {
			t.Errorf("an effect that has begun was not continued: %+v", task)
		}
		w.sleep(5 * time.Second)
		w.expect()
		ends["failed"] <- nil
		w.expect("release-delete m")
		slices.Sort(done)
		if diff := cmp.Diff([]string{"begun", "failed", "failed"}, done); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFailingEffectsOfADeletedModuleEndBeforeItsRelease(t *testing.T) {
	for _, c := range []struct {
		queue       string
		interrupted bool
		want        []string
	}{
		{workflow.Main, false, []string{"failed", "release-delete m"}},
		{workflow.Main, true, []string{"failed", "failed", "release-delete m"}},
		{"q", false, []string{"failed", "failed", "release-delete m"}},
	} {
		t.Run(fmt.Sprintf("queue %s, interrupted %t", c.queue, c.interrupted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				w.set("module-kubernetes-event m/h b", returns(effects("failed")))
				var order []string
				w.effect = func(ctx context.Context, _ workflow.Task, e workflow.Effect) error {
					w.locked(func() { order = append(order, e.Kind) })
					if c.interrupted && len(order) == 1 {
						<-ctx.Done()
						return ctx.Err()
					}
					return errors.New("500")
				}
				w.set("release-delete m", func(context.Context, workflow.Task) (workflow.Outcome, error) {
					w.locked(func() { order = append(order, "release-delete m") })
					return workflow.Outcome{}, nil
				})
				event := in(c.queue, on(lifecycle.OnModuleKubeEvent, "m", "h", "b"))
				w.start(event, event, on(lifecycle.OnResourcesAbsent, "x"), event)
				if c.interrupted {
					w.restart()
					w.set(string(lifecycle.ConfigMapChanged), returns(workflow.Outcome{Items: map[graph.FanOut][]graph.Item{lifecycle.SwitchedOff: modules("m")}}))
					w.start(on(lifecycle.OnConfigMap))
				} else {
					w.appliesConfig(map[graph.FanOut][]graph.Item{lifecycle.SwitchedOff: modules("m")})
				}
				w.sleep(time.Hour)
				if diff := cmp.Diff(c.want, order); diff != "" {
					t.Errorf("effects and the deletion (-want +got):\n%s", diff)
				}
				if left := w.queues(); len(left) > 0 {
					t.Errorf("tasks are left in %q", left)
				}
				w.expectAllEnded()
			})
		})
	}
}

func TestOfSeveralEffectsOfADeletedModuleOnlyTheOneUnderWayIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.set("module-kubernetes-event m/runs b", returns(effects("one", "two", "three")))
		end := make(chan error)
		var done []string
		w.effect = func(_ context.Context, _ workflow.Task, e workflow.Effect) error {
			w.locked(func() { done = append(done, e.Kind) })
			if e.Kind == "two" {
				return <-end
			}
			return nil
		}
		w.start(kubeEvent("m", "runs"))
		synctest.Wait()
		w.deletion()
		w.expectAny("module-kubernetes-event m/runs b", "global-schedule-event h", "discover-modules", "module-delete m")
		end <- nil
		w.expect("release-delete m")
		if diff := cmp.Diff([]string{"one", "two"}, done); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"dropped module-kubernetes-event m/runs b"}, w.history(1)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOnlyTheFirstEffectOfADeletedModuleIsRepeated(t *testing.T) {
	// If abandoned is set, the task is abandoned before the deletion, as if its run had started over.
	for _, abandoned := range []bool{false, true} {
		t.Run(fmt.Sprintf("abandoned %t", abandoned), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				w.set("module-kubernetes-event m/runs b", returns(effects("one", "two", "three")))
				done := w.doEffects(map[string]error{"two": errors.New("503")})
				event := kubeEvent("m", "runs")
				w.start(event)
				if err := w.db.Update(func(tx *store.Tx) error {
					task := w.pending(event.Queue)[0]
					task.Abandoned = abandoned
					return store.Save(tx, task.Key(), task)
				}); err != nil {
					t.Fatal(err)
				}
				w.deletion()
				w.sleep(5 * time.Second)
				w.expectAny("module-kubernetes-event m/runs b", "global-schedule-event h", "discover-modules", "module-delete m", "release-delete m")
				if diff := cmp.Diff([]string{"one", "two", "one"}, *done); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestDeletionTakesARunningTaskOverFromAListThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A fan-out without a module, in another queue, waits for a hook of the module.
		g := newGraph([]graph.Node{
			{ID: "all", ForEach: "some", Scope: graph.ScopeAll},
			{ID: "after"},
			{ID: "delete", Scope: graph.ScopeModule},
			{ID: "retire", Scope: graph.ScopeModule, ForEach: "running", JoinsRunning: true},
			{ID: "gone", Scope: graph.ScopeModule},
		},
			graph.Edge{On: "all", To: "all", Place: graph.BindingQueue}, graph.Edge{From: "all", To: "after"},
			graph.Edge{On: "delete", To: "delete", Place: graph.Tail}, graph.Edge{From: "delete", To: "retire", CancelsPending: true}, graph.Edge{From: "retire", To: "gone"})
		w := newFixture(t, g)
		w.lists("all", graph.Item{Subject: graph.Subject{Module: "m", Hook: "h"}, Queue: "far", Wait: true})
		open := w.gate("all m/h")
		w.start(in("q", on("all")))
		w.raise(on("delete", "m"))
		w.expect("all m/h", "delete m", "after")
		open(workflow.Outcome{}, nil)
		w.expect("gone m")
	})
}

func TestClearingSparesTheStackItIsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "a", Scope: graph.ScopeModule}, {ID: "top", Scope: graph.ScopeModule}, {ID: "below", Scope: graph.ScopeModule}, {ID: "next", Scope: graph.ScopeModule}},
			graph.Edge{On: "go", To: "a", Place: graph.Tail}, graph.Edge{From: "a", To: "top"}, graph.Edge{From: "a", To: "below"},
			graph.Edge{From: "top", To: "next", CancelsPending: true})
		w := newFixture(t, g)
		w.start(on("go", "m"), on("go", "m"), on("go", "n"))
		w.expect("a m", "top m", "next m", "below m", "a n", "top n", "next n", "below n")
	})
}

func TestRangeOfADeletedModuleEndsWholeEvenIfItFails(t *testing.T) {
	for _, err := range []error{nil, errors.New("no")} {
		synctest.Test(t, func(t *testing.T) {
			w := newLifecycle(t)
			runs := w.gate("module-kubernetes-event m/runs b")
			w.start(kubeEvent("m", "runs"), kubeEvent("m", "runs"))
			w.deletion()
			w.expectAny("module-kubernetes-event m/runs b", "global-schedule-event h", "discover-modules", "module-delete m")
			w.expectPending("q-runs", "module-kubernetes-event m/runs b", "module-kubernetes-event m/runs b")
			runs(workflow.Outcome{}, err)
			w.expectAt("0 release-delete m")
			w.expectPending("q-runs")
		})
	}
}

func TestDeletionTakesAwayWhatIsDueLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.end = func(_ *store.Tx, t workflow.Task, _ []graph.Fact) ([]graph.Fact, error) {
			if t.Node == string(lifecycle.ModuleAfterHelm) {
				return []graph.Fact{lifecycle.ModuleChanged}, nil
			}
			return nil, nil
		}
		w.start(on(lifecycle.OnResourcesAbsent, "m"), on(lifecycle.OnResourcesAbsent, "other"))
		w.deletion()
		w.ran()
		w.sleep(5 * time.Second)
		w.expect("module-run other", "release-check other")
	})
}

func TestInterruptedTaskOfADeletedModuleEndsAtItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.gate("module-kubernetes-event m/runs b")
		w.start(kubeEvent("m", "runs"))
		w.deletion()
		w.restart()
		w.ran()
		w.start()
		w.expect("release-delete m")
		w.expectPending("q-runs")
	})
}

// manyEvents returns n events of module m for the given queues. Adjacent events of a queue have different hooks, so that
// each attempt processes only one event.
func manyEvents(n int, queues ...string) (events []workflow.Event) {
	for i := range n {
		round := i / len(queues)
		events = append(events, in(queues[i%len(queues)], kubeEvent("m", fmt.Sprint("h", round%2))))
	}
	return events
}

func TestDeletionInPiecesBeginsNothingOfTheModuleMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		check := w.mem.After
		w.mem.After = nil
		w.raise(append(manyEvents(8000, "q1", "q2", "q3", "q4"), in("q1", kubeEvent("other", "a")))...)

		// The running hooks end as soon as the first tasks are removed.
		var release atomic.Bool
		end := make(chan struct{})
		w.mem.After = func(n int) error {
			if release.CompareAndSwap(true, false) {
				close(end)
			}
			return check(n)
		}
		w.set(string(lifecycle.ModuleKubernetesEvent), func(ctx context.Context, _ workflow.Task) (workflow.Outcome, error) {
			select {
			case <-end:
			case <-ctx.Done():
			}
			return workflow.Outcome{}, ctx.Err()
		})
		applied := 0
		w.apply = func(_ *store.Tx, t workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
			if t.Node == string(lifecycle.ModuleDelete) {
				release.Store(true)
			}
			if t.Node == string(lifecycle.ModuleKubernetesEvent) && t.Subject.Module == "m" {
				applied++
			}
			return nil, nil
		}
		w.start()
		running := len(w.took())
		if running != 4 {
			t.Fatalf("%d hooks run, want one of each queue", running)
		}
		w.deletion()
		w.expectAny("global-schedule-event h", "discover-modules", "module-delete m", "release-delete m", "module-kubernetes-event other/a b")
		if applied != 0 {
			t.Errorf("Apply was called %d times for hooks of the deleted module", applied)
		}
		if left := w.queues(); len(left) > 0 {
			t.Errorf("tasks are left in %q", left)
		}
	})
}

// killedDeletion returns a fixture in which the process was killed after the first part of a deletion of module m, which
// has many events in queue q1.
func killedDeletion(t *testing.T) *fixture {
	t.Helper()
	w := newLifecycle(t)
	check := w.mem.After
	w.mem.After = nil
	w.raise(append(manyEvents(4000, "q1"), in("q1", kubeEvent("other", "a")))...)
	w.mem.After = check
	w.gate("module-kubernetes-event m/h0 b")
	deletes := w.gate("module-delete m")
	w.start()
	w.deletion()
	w.fragile = true
	w.ran()
	w.mem.After = func(int) error { return errors.New("the process is killed after the first part") }
	deletes(workflow.Outcome{Facts: []graph.Fact{lifecycle.Unwanted}}, nil)
	w.restart()
	return w
}

// expectDeletionInPieces checks that the deletion at the head of queue main has tasks left to remove.
func (w *fixture) expectDeletionInPieces() {
	w.t.Helper()
	if head := w.pending("main")[0]; head.Node != "module-retire" || !head.CancelsPending {
		w.t.Fatalf("the deletion has removed all tasks in one transaction: %+v", head)
	}
}

func TestDeletionInPiecesGoesOnAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := killedDeletion(t)
		if n := len(w.pending("q1")); n <= 1 || n > 1000 {
			t.Fatalf("%d tasks are left after the first piece", n)
		}
		w.raise(on(lifecycle.OnResourcesAbsent, "m")) // the module is enabled again
		w.expectDeletionInPieces()
		w.start()
		w.expectAny("release-delete m", "module-kubernetes-event other/a b", "module-run m", "release-check m")
		if left := w.queues(); len(left) > 0 {
			t.Errorf("tasks are left in %q", left)
		}
	})
}

func TestDeletionInPiecesGoesOnAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := killedDeletion(t)
		w.expectDeletionInPieces()
		w.reports("module-delete m", lifecycle.Unwanted)
		w.reports("module-kubernetes-event m/h0 b")
		w.raise(on(lifecycle.OnResourcesAbsent, "x"))
		x := w.gate("module-run x")
		w.unchecked() // because the many events that are left run after the pause
		w.pause(module("m"))
		w.start()
		w.expectAny("module-kubernetes-event other/a b", "module-run x")
		w.resume(module("m"))
		w.raise(on(lifecycle.OnResourcesAbsent, "y")) // so that the deletion gets another slot than before the pause
		x(workflow.Outcome{}, nil)
		if ran := w.ran(); !slices.Contains(ran, "release-delete m") {
			t.Errorf("the release was not deleted: %q", ran)
		}
		if left := w.queues(); len(left) > 0 {
			t.Errorf("tasks are left in %q", left)
		}
		w.expectHeld()
		w.expectAllEnded()
	})
}
