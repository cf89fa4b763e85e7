package workflow_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/lifecycle"
)

// hangs makes a step run until its context ends, and then fail with the cause of the end. The
// argument what is the step: the name of a node, or a node and a subject as "node subject".
func (w *fixture) hangs(what string) {
	w.set(what, func(ctx context.Context, _ workflow.Task) (workflow.Outcome, error) {
		<-ctx.Done()
		return workflow.Outcome{}, context.Cause(ctx)
	})
}

// running returns the ids of the running tasks of the given queue.
func (w *fixture) running(queue string) (ids []store.ID) {
	for _, t := range w.pending(queue) {
		if t.Claim != nil && t.Claim.Epoch == w.db.Epoch() {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

func TestCanceledTaskFailsAndIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.hangs("release-check m")
		w.start(on(lifecycle.OnResourcesAbsent, "m"))
		w.sleep(time.Hour)
		w.expect("module-run m", "release-check m")
		if err := w.e.Cancel(t.Context(), w.running("main")[0], workflow.Cancellation{By: "mia", Reason: "it hangs"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		failed := w.pending("main")[0].Failed
		if failed == nil || failed.Error != "canceled by mia: it hangs" {
			t.Errorf("the failure is %+v", failed)
		}
		if got := w.actions(); len(got) != 1 || got[0] != "task cancel m in main by mia: it hangs" {
			t.Errorf("stored actions: %q", got)
		}
		w.reports("release-check m")
		w.sleep(5 * time.Second)
		w.expect("module-run m", "release-check m")
		w.expectAllEnded()
	})
}

// An unskippable step refuses to be skipped.
type unskippable struct{ step }

func (unskippable) Skipped(*store.Tx, workflow.Task) error { return errors.New("no skip") }

func TestATaskThatCannotBeSkippedAfterItsCancellationFailsAndIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.bind(lifecycle.Graph, lifecycle.ReleaseCheck, unskippable{step{w, lifecycle.ReleaseCheck}})
		w.e = w.engine()
		w.hangs("release-check m")
		w.start(on(lifecycle.OnResourcesAbsent, "m"))
		w.expect("module-run m", "release-check m")
		if err := w.e.Cancel(t.Context(), w.running("main")[0], workflow.Cancellation{By: "mia", Reason: "it hangs", Skip: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		failed := w.pending("main")[0].Failed
		if failed == nil || !strings.Contains(failed.Error, "no skip") || !strings.Contains(failed.Error, "canceled by mia: it hangs") {
			t.Errorf("the failure is %+v", failed)
		}
		w.reports("release-check m")
		w.sleep(5 * time.Second)
		w.expect("module-run m", "release-check m")
		w.expectAllEnded()
	})
}

func TestTaskCanceledWithSkipIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(modules("m"), nil, nil)
		w.lists(lifecycle.ModuleBeforeHelm, hooks("a", "b")...)
		w.hangs("module-beforehelm a")
		w.start(on(lifecycle.OnStart))
		w.expect("discover-modules", "module-run m", "module-beforehelm a")
		if err := w.e.Cancel(t.Context(), w.running("main")[0], workflow.Cancellation{By: "mia", Reason: "it hangs", Skip: true}); err != nil {
			t.Fatal(err)
		}
		w.expect("module-beforehelm b", "release-check m")
		w.expectAllEnded()
		if !strings.Contains(strings.Join(w.history(1), "\n"), "skipped module-beforehelm a") {
			t.Errorf("history is %q", w.history(1))
		}
	})
}

func TestCancelOfABatchPassesOverAllOfItsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.hangs("module-kubernetes-event m/h b")
		w.start(
			in("q", on(lifecycle.OnModuleKubeEvent, "m", "h", "b")), in("q", on(lifecycle.OnModuleKubeEvent, "m", "h", "b")),
			in("q", on(lifecycle.OnModuleKubeEvent, "m", "other", "b")))
		last := w.pending("q")[1].ID
		if err := w.e.Cancel(t.Context(), last, workflow.Cancellation{By: "mia", Reason: "it hangs", Skip: true}); err != nil {
			t.Fatal(err)
		}
		w.expect("module-kubernetes-event m/h b", "module-kubernetes-event m/other b")
		w.expectAllEnded()
	})
}

func TestACancellationOnAFullDiskActsAtOnceAndIsRecordedWhenThereIsRoom(t *testing.T) {
	for _, c := range []struct {
		full time.Duration
		want []string
	}{{5 * time.Second, []string{"task cancel m in main by mia: it hangs"}}, {time.Minute, nil}} {
		synctest.Test(t, func(t *testing.T) {
			w := newLifecycle(t)
			w.hangs("release-check m")
			w.start(on(lifecycle.OnResourcesAbsent, "m"))
			id := w.running("main")[0]
			var ended atomic.Bool
			w.set("release-check m", func(context.Context, workflow.Task) (workflow.Outcome, error) {
				ended.Store(true)
				return workflow.Outcome{}, nil
			})
			room := time.Now().Add(c.full)
			w.mem.Before = func(int) error {
				if time.Now().Before(room) {
					return store.ErrFull
				}
				return nil
			}
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			defer stop()
			err := w.e.Cancel(ctx, id, workflow.Cancellation{By: "mia", Reason: "it hangs"})
			if (err == nil) != (c.want != nil) || err != nil && (!errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), "is canceled")) {
				t.Errorf("the disk is full for %s: Cancel returned %v", c.full, err)
			}
			w.sleep(2 * time.Minute)
			if diff := cmp.Diff(c.want, w.actions()); diff != "" || !ended.Load() {
				t.Errorf("the disk is full for %s: stored actions (-want +got):\n%s", c.full, diff)
			}
			w.expectAllEnded()
		})
	}
}

func TestCancelSaysWhatCannotBeCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.fails("release-check m", 1)
		w.start(on(lifecycle.OnResourcesAbsent, "m"))
		id := w.pending("main")[0].ID
		if err := w.e.Cancel(t.Context(), id, workflow.Cancellation{}); !errors.Is(err, workflow.ErrNotRunning) {
			t.Errorf("canceling a task that waits for its retry returned %v", err)
		}
		if err := w.e.Cancel(t.Context(), store.ID{Epoch: 9, N: 9}, workflow.Cancellation{}); !errors.Is(err, workflow.ErrNoTask) {
			t.Errorf("canceling an unknown task returned %v", err)
		}
	})
}

func TestTasksOfAModuleThatIsDeletedCanBeCanceledAndTheDeletionGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.hangs("module-schedule-event m/h")
		w.start(in("q", on(lifecycle.OnModuleSchedule, "m", "h")))
		w.discovers(nil, modules("m"), nil)
		w.changeConfig()
		w.expect("module-schedule-event m/h", "configmap-changed", "discover-modules", "module-delete m")
		n := w.e.CancelWhere(func(t workflow.Task) bool { return t.Subject.Module == "m" }, workflow.Cancellation{By: "the operator"})
		if n != 1 {
			t.Errorf("%d attempts were canceled, want 1", n)
		}
		w.expect("release-delete m")
		w.expectAllEnded()
		if diff := cmp.Diff([]string{"dropped module-schedule-event m/h"}, w.history(1)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRestartAfterACancelInterruptsAsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.hangs("release-check m")
		w.start(on(lifecycle.OnResourcesAbsent, "m"))
		w.restart()
		w.reports("release-check m")
		w.ran()
		w.start()
		notes := w.took()
		if len(notes) != 1 || notes[0].task.Previous != workflow.Interrupted {
			t.Errorf("after the restart, these ran: %+v", notes)
		}
	})
}
