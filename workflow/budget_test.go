package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// unchecked turns off the check of the store after each commit, until the store is opened again.
// Tests with many tasks and commits use unchecked, because a check reads the whole store. The store
// is still checked at the end of the test.
func (w *fixture) unchecked() { w.mem.After = nil }

// upgrade replaces the graphs of an engine that is not yet started.
func (w *fixture) upgrade(g *graph.Graph) {
	w.steps = []workflow.Implementation{{Graph: g, Steps: map[graph.NodeID]workflow.Step{}}}
	for _, n := range g.Nodes {
		if !n.Junction {
			w.bind(g, n.ID, step{w, n.ID})
		}
	}
	w.e = w.engine()
}

// fill adds n events to each of the given number of queues. Each queue has its own hook of the
// given module. One transaction adds at most 250 events.
func (w *fixture) fill(trigger graph.Trigger, module string, queues, n int, payload json.RawMessage) {
	w.t.Helper()
	for q := range queues {
		hook := fmt.Sprintf("h%02d", q)
		ev := in("q-"+hook, on(trigger, module, hook, "b"))
		ev.Payload = payload
		for left := n; left > 0; left -= 250 {
			w.raise(repeat(ev, min(left, 250))...)
		}
	}
}

func repeat(ev workflow.Event, n int) (events []workflow.Event) {
	for range n {
		events = append(events, ev)
	}
	return events
}

func TestAnInterruptedDeletionOfAModuleWithManyQueuesGoesOnAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.unchecked()
		w.fill(lifecycle.OnModuleKubeEvent, "m", 30, 300, nil)
		deletes := w.gate("module-delete m")
		for q := range 30 {
			w.gate(fmt.Sprintf("module-kubernetes-event m/h%02d b", q))
		}
		w.start()
		w.deletion()
		w.took()
		w.fragile = true
		pulled := errors.New("the process is killed after the first part")
		w.mem.After = func(int) error { return pulled }
		deletes(workflow.Outcome{Facts: []graph.Fact{lifecycle.Unwanted}}, nil)
		w.restart()
		w.unchecked()
		if n := w.count(store.Queues); n < 5000 {
			t.Fatalf("only %d tasks are left to cancel, want at least 5000", n)
		}
		w.start()
		w.sleep(time.Second)
		w.expect("release-delete m")
		if left := w.queues(); len(left) > 0 {
			t.Errorf("tasks are left in %q", left)
		}
	})
}

func TestADeletionAbandonsLargeRunningBatchesOfManyQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.unchecked()
		w.fill(lifecycle.OnModuleKubeEvent, "m", 22, 950, nil)
		var opens []func(workflow.Outcome, error)
		for q := range 22 {
			opens = append(opens, w.gate(fmt.Sprintf("module-kubernetes-event m/h%02d b", q)))
		}
		w.start()
		w.took()
		w.deletion()
		w.expectAny("global-schedule-event h", "discover-modules", "module-delete m")
		for _, open := range opens {
			open(workflow.Outcome{Facts: []graph.Fact{lifecycle.ModuleChanged}}, nil)
		}
		w.expect("release-delete m")
		if left := w.queues(); len(left) > 0 {
			t.Errorf("tasks are left in %q", left)
		}
	})
}

func TestAnUpgradeThatRemovesANodeDropsItsTasksOfManyQueuesAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.unchecked()
		for q := range 20 {
			w.gate(fmt.Sprintf("event m/h%02d b", q))
		}
		w.fill("event", "m", 20, 1200, json.RawMessage(`"`+strings.Repeat("x", store.InlinePayload)+`"`))
		w.took()
		w.restart()
		w.unchecked()
		g := newGraph([]graph.Node{{ID: "tick", Scope: graph.ScopeBinding}}, graph.Edge{On: "tick", To: "tick", Place: graph.BindingQueue})
		w.upgrade(g)
		w.start(on("tick", "m", "h", "b"))
		w.sleep(time.Second)
		w.expect("tick m/h b")
		if n := w.count(store.Queues); n != 0 {
			t.Errorf("%d tasks are left", n)
		}
		if h := w.history(1); len(h) != 1 || !strings.Contains(h[0], "dropped event m/h00 b") {
			t.Errorf("history of a dropped task: %q", h)
		}
	})
}

func TestAStartWithLargeHeadsInManyQueuesClaimsThemAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const queues = 3000
		w := newFixture(t, eventGraph())
		w.unchecked()
		w.fill("event", "m", queues, 1, json.RawMessage(`"`+strings.Repeat("x", store.InlinePayload-100)+`"`))
		long := strings.Repeat("why ", 1000)
		w.set("event", func(context.Context, workflow.Task) (workflow.Outcome, error) {
			return workflow.Outcome{}, errors.New(long)
		})
		w.start()
		w.sleep(time.Second)
		if n := len(w.took()); n != queues {
			t.Fatalf("%d hooks ran", n)
		}
		w.restart()
		w.unchecked()
		w.reports("event")
		time.Sleep(time.Minute) // all tasks become due while the operator is down
		w.start()
		w.sleep(time.Second)
		if n := len(w.took()); n != queues {
			t.Errorf("%d hooks ran", n)
		}
		if n := w.count(store.Queues); n != 0 {
			t.Errorf("%d tasks are left", n)
		}
	})
}

func TestATaskAtANodeThatBecameAJunctionIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.gate("event m/h b")
		w.start(event("h", "b", "1", false))
		w.restart()
		w.took()
		g := newGraph([]graph.Node{{ID: "event", Scope: graph.ScopeBinding, Junction: true}, {ID: "next", Scope: graph.ScopeBinding}},
			graph.Edge{On: "event", To: "event"}, graph.Edge{From: "event", To: "next", Place: graph.BindingQueue})
		w.upgrade(g)
		w.start(event("other", "b", "2", false))
		w.expect("next m/other b")
		if r := w.records(1); len(r) != 1 || r[0].State != store.Dropped || !strings.Contains(r[0].Error, "has no tasks") {
			t.Errorf("history of the task: %+v", r)
		}
	})
}

func TestQuarantineOfAModuleWithManyLongQueuesLosesNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const queues, events = 30, 500
		w := newFixture(t, eventGraph())
		w.unchecked()
		w.set("event", func(ctx context.Context, _ workflow.Task) (workflow.Outcome, error) {
			<-ctx.Done()
			return workflow.Outcome{}, ctx.Err()
		})
		for q := range queues {
			hook := fmt.Sprintf("h%02d", q)
			for from := 0; from < events; from += 250 {
				var some []workflow.Event
				for i := range 250 {
					ev := about(in("q-"+hook, on("event", "m", hook, "b")), fmt.Sprint("o", from+i))
					ev.Payload = json.RawMessage(fmt.Sprint(from + i))
					some = append(some, ev)
				}
				w.raise(some...)
			}
		}
		for range 3 {
			w.start()
			w.crash()
			w.unchecked()
		}
		w.start()
		w.sleep(time.Second)
		if names, _ := w.inQuarantine(); len(names) != 1 {
			t.Fatalf("in quarantine: %q", names)
		}
		if n, held := w.count(store.Queues), w.count(store.Held); n != 0 || held != queues*events {
			t.Fatalf("%d tasks are in queues, %d are held", n, held)
		}
		w.took()
		w.reports("event")
		_, ids := w.inQuarantine()
		if err := w.e.Release(ids[0], "me", ""); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Minute)
		next := map[string]int{}
		for _, n := range w.took() {
			for _, task := range n.task.Batch {
				hook := task.Subject.Hook
				if want := fmt.Sprint(next[hook]); string(task.Payload) != want {
					t.Fatalf("hook %s received event %s, the next is %s", hook, task.Payload, want)
				}
				next[hook]++
			}
		}
		for q := range queues {
			if hook := fmt.Sprintf("h%02d", q); next[hook] != events {
				t.Errorf("hook %s received %d events", hook, next[hook])
			}
		}
		if err := w.db.Check(); err != nil {
			t.Error(err)
		}
	})
}

func TestBatchesOfManyQueuesShareABoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const queues, events, size = 12, 60, 100 << 10
		w := newFixture(t, eventGraph())
		w.unchecked()
		for q := range queues {
			hook := fmt.Sprintf("h%02d", q)
			ev := about(in("q-"+hook, on("event", "m", hook, "b")), "o")
			ev.Payload = json.RawMessage(`"` + strings.Repeat("x", size) + `"`)
			w.raise(repeat(ev, events)...)
		}
		var loaded, most int
		w.set("event", func(_ context.Context, task workflow.Task) (workflow.Outcome, error) {
			bytes := 0
			for _, t := range task.Batch {
				bytes += len(t.Payload)
			}
			w.locked(func() {
				loaded += bytes
				most = max(most, loaded)
			})
			time.Sleep(time.Second)
			w.locked(func() { loaded -= bytes })
			return workflow.Outcome{}, nil
		})
		w.start()
		w.sleep(5 * time.Minute)
		if most < 28<<20 || most > 34<<20 {
			t.Errorf("running batches used %d MiB", most>>20)
		}
		if n := w.count(store.Queues); n != 0 {
			t.Errorf("%d events are left in the queues, want 0", n)
		}
	})
}

func TestTheLargestBatchEndsInOneTransaction(t *testing.T) {
	long := errors.New(strings.Repeat("why ", 4000))
	ends := map[string]func(w *fixture, open func(workflow.Outcome, error)){
		"succeeds":     func(_ *fixture, open func(workflow.Outcome, error)) { open(workflow.Outcome{}, nil) },
		"is allowed":   func(_ *fixture, open func(workflow.Outcome, error)) { open(workflow.Outcome{}, long) },
		"is withdrawn": func(w *fixture, _ func(workflow.Outcome, error)) { w.raise(on("retire", "m")) },
		"is passed over": func(w *fixture, _ func(workflow.Outcome, error)) {
			w.e.CancelWhere(func(workflow.Task) bool { return true }, workflow.Cancellation{By: "ann", Skip: true})
		},
	}
	for how, end := range ends {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := newLimited(t, workflow.RateLimit{})
				w.unchecked()
				open := w.gate("event m/h b")
				for i := range 4 {
					var some []workflow.Event
					for j := range 250 {
						ev := about(in("q", on("event", "m", "h", "b")), fmt.Sprint("o", i*250+j))
						ev.Payload, ev.AllowFailure = json.RawMessage(`"`+strings.Repeat("x", store.InlinePayload-100)+`"`), true
						some = append(some, ev)
					}
					w.raise(some...)
				}
				w.start()
				if ran := w.took(); len(ran) != 1 || len(ran[0].task.Batch) != 1000 {
					t.Fatalf("%d attempts are running, want one with 1000 tasks", len(ran))
				}
				end(w, open)
				if how == "is withdrawn" {
					open(workflow.Outcome{}, nil)
				}
				synctest.Wait()
				if n := w.count(store.Queues); n != 0 {
					t.Errorf("%d events are left in the queues, want 0", n)
				}
			})
		})
	}
}

func TestAConvergeThatReplacesThousandsOfParkedStepsDoesSoInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parked = 12_000
		w := newContinuing(t)
		w.unchecked()
		w.discovers(modules("a", "b"), nil, nil)
		w.fails("release-check b", 1000)
		w.start(on(lifecycle.OnStart))
		first := w.pending(workflow.Parked)
		if len(first) != 1 {
			t.Fatalf("%d steps are parked, want 1", len(first))
		}
		// Add tasks to the queue Parked. They have reached the limit of rewinds, so a rewind does not replace them.
		again := *first[0]
		again.Rewinds = 1000
		for from := uint64(0); from < parked; from += 1000 {
			if err := w.db.Update(func(tx *store.Tx) error {
				run, _, err := store.Load[store.Run](tx, store.RunKey(again.Run))
				if err != nil {
					return err
				}
				run.Open += 1000
				for i := range uint64(1000) {
					more := again
					more.ID, more.Slot = store.ID{Epoch: again.ID.Epoch, N: tx.NextID()}, again.Slot+from+i
					if more.Slot == again.Slot {
						more.ID = again.ID
						run.Open--
					}
					if err := store.Save(tx, more.Key(), more); err != nil {
						return err
					}
				}
				return store.Save(tx, store.RunKey(run.ID), run)
			}); err != nil {
				t.Fatal(err)
			}
		}
		w.ran()
		w.changeConfig()
		w.sleep(time.Minute)
		if ran := w.ran(); !slices.Contains(ran, "discover-modules") {
			t.Errorf("ran: %q, want a new converge", ran)
		}
		w.expectPending(workflow.Parked, "global-afterall")
		for _, left := range w.pending(workflow.Parked) {
			if left.ID == first[0].ID {
				t.Error("the parked step of the first converge is still there")
			}
		}
		if left := w.pending(workflow.Main); len(left) > 0 {
			t.Errorf("%d tasks are left in main, the first at %s", len(left), left[0].Node)
		}
	})
}

func TestSkipOfTheLargestQuarantinedBatchSkipsThatBatchAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events, batch = 5000, 1000
		w := newFixture(t, eventGraph())
		w.unchecked()
		w.hangs("event m/h b")
		for from := 0; from < events; from += 250 {
			var some []workflow.Event
			for i := range 250 {
				ev := about(in("q", on("event", "m", "h", "b")), fmt.Sprint("o", from+i))
				ev.Payload = json.RawMessage(fmt.Sprintf("%-*d", 5000, from+i))
				some = append(some, ev)
			}
			w.raise(some...)
		}
		for range 3 {
			w.start()
			w.crash()
			w.unchecked()
		}
		w.start()
		ids := w.expectQuarantined("event m/h b")
		w.took()
		w.reports("event m/h b")
		if err := w.e.Skip(ids[0], "me", "no need"); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Minute)
		next := batch
		for _, n := range w.took() {
			for _, task := range n.task.Batch {
				if got := strings.TrimSpace(string(task.Payload)); got != fmt.Sprint(next) {
					t.Fatalf("the hook received event %s, want %d", got, next)
				}
				next++
			}
		}
		if next != events {
			t.Errorf("the hook received the events up to %d, want %d", next, events)
		}
	})
}
