package workflow_test

import (
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

// expectBlocked checks the reasons why the first tasks of all queues, the deferred tasks and the
// held tasks do not start. expectBlocked reads the reasons from a copy of the store without an
// engine.
func (w *fixture) expectBlocked(want ...string) {
	w.t.Helper()
	db, err := store.OpenMemory(w.mem.Clone(), store.Options{Clock: w.clock})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var got []string
	add := func(tx *store.Tx, t *store.Task) error {
		reason, err := workflow.BlockedBy(tx, t)
		if err != nil {
			return err
		}
		line := name(t.Node, t.Subject) + ": "
		if reason == nil {
			got = append(got, line+"free")
			return nil
		}
		line += fmt.Sprintf("[%s] %s", reason.Kind, reason)
		if !reason.Until.IsZero() {
			line += fmt.Sprintf(", until %v", reason.Until.Sub(w.begun).Seconds())
		}
		got = append(got, line)
		return nil
	}
	if err := db.View(func(tx *store.Tx) error {
		for queue, err := range store.AllQueues(tx) {
			if err != nil {
				return err
			}
			head, _, err := store.Head(tx, queue)
			if err != nil {
				return err
			}
			if err := add(tx, head); err != nil {
				return err
			}
		}
		for t, err := range store.DeferredTasks(tx) {
			if err != nil {
				return err
			}
			if err := add(tx, t); err != nil {
				return err
			}
		}
		for t, err := range store.AllHeldTasks(tx) {
			if err != nil {
				return err
			}
			if err := add(tx, t); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		w.t.Error(err)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("reasons that block tasks (-want +got):\n%s", diff)
	}
}

func TestEveryReasonThatBlocksATaskIsReadFromTheStoreAlone(t *testing.T) {
	for about, story := range map[string]func(*testing.T){
		"a start": func(t *testing.T) {
			t.Helper()
			w := newGated(t)
			w.shut("h")
			w.start(hookEvent("h", "1"))
			w.expectBlocked("event m/h b: [start] held: h has yet to be made ready")
			w.raise(on("ready", "m"))
			w.expectBlocked()
		},
		"quarantine": func(t *testing.T) {
			t.Helper()
			w := newFixture(t, eventGraph())
			w.gate("event m/kills b")
			w.start(event("kills", "b", "1", false), event("other", "b", "2", false))
			for range 3 {
				w.crash()
				w.start()
			}
			id := w.expectQuarantined("event m/kills b")[0]
			held := fmt.Sprintf("[quarantine] held: module m is in quarantine (task %s)", id)
			w.expectBlocked("event m/kills b: "+held, "event m/other b: "+held)
		},
		"a rate limit": func(t *testing.T) {
			t.Helper()
			w, _ := newLimited(t, workflow.RateLimit{Every: 10 * time.Second})
			w.start(hookEvent("h", "1"))
			w.raise(hookEvent("h", "2"))
			w.expectBlocked("event m/h b: [rate limit] deferred: its hook may run once in 10s, until 10")
			w.sleep(10 * time.Second)
			w.expectBlocked()
		},
		"a loop": func(t *testing.T) {
			t.Helper()
			w := newLifecycle(t)
			w.lists(lifecycle.ModuleAfterHelm, hooks("h")...)
			w.end = func(_ *store.Tx, t workflow.Task, _ []graph.Fact) ([]graph.Fact, error) {
				if t.Node == string(lifecycle.ModuleAfterHelm) {
					return []graph.Fact{lifecycle.ModuleChanged}, nil
				}
				return nil, nil
			}
			w.start(on(lifecycle.OnResourcesAbsent, "m"))
			w.expectBlocked("module-run m: [delay] deferred: its run changes values repeatedly, until 5")
		},
		"a retry": func(t *testing.T) {
			t.Helper()
			w := newGated(t)
			w.fails("event m/h b", 2)
			w.start(hookEvent("h", "1"))
			w.sleep(6 * time.Second)
			w.expectBlocked("event m/h b: [retry] waits for its retry after failure 2, until 15")
		},
		"a task that runs exclusively": func(t *testing.T) {
			t.Helper()
			w := newFixture(t, eventGraph())
			w.gate("event m/kills b")
			w.start(event("kills", "b", "1", false))
			for range 2 {
				w.crash()
				w.start()
			}
			w.raise(in("aside", on("event", "n", "free", "b")))
			w.expectBlocked("event n/free b: [exclusive] waits for task 1-1 (event m/kills b), which must run while no other task runs, because the operator has died at least twice while that task ran",
				"event m/kills b: free")
		},
		"items in other queues and failing modules": func(t *testing.T) {
			t.Helper()
			w := newContinuing(t)
			w.reports("module-run b", lifecycle.JustEnabled)
			w.discovers(modules("b", "c"), nil, nil)
			w.lists(lifecycle.ModuleSynchronization, graph.Item{Subject: graph.Subject{Module: "b", Hook: "h"}, Queue: "q", Wait: true})
			end := w.gate("module-kubernetes-synchronization b/h")
			w.start(on(lifecycle.OnStart))
			w.expectBlocked("module-kubernetes-synchronization b: [items] waits for 1 task in another queue",
				"module-kubernetes-synchronization b/h: free")
			end(workflow.Outcome{}, errors.New("it fails"))
			w.expectBlocked("global-afterall: [modules] waits until these failing modules have succeeded: b",
				"module-kubernetes-synchronization b: [items] waits for 1 task in another queue",
				"module-kubernetes-synchronization b/h: [retry] waits for its retry after failure 1, until 5")
		},
	} {
		t.Run(about, func(t *testing.T) { synctest.Test(t, story) })
	}
}
