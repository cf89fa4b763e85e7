package workflow_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A gated step is a Gater: a hook cannot start while the store says that its gate is shut.
type gated struct{ step }

func gateKey(hook string) store.Key { return store.At(store.Releases).Str("gate " + hook) }

func (s gated) Gate(tx *store.Tx, t *store.Task) (string, error) {
	why, _, err := store.Load[string](tx, gateKey(t.Subject.Hook))
	return why, err
}

// newGated returns a fixture of events and schedule ticks with gates. When the node "ready" runs
// for module m, to which all hooks of the fixture belong, all gates open.
func newGated(t testing.TB) *fixture {
	t.Helper()
	g := newGraph([]graph.Node{
		{ID: "event", Scope: graph.ScopeBinding, Batch: true},
		{ID: "tick", Scope: graph.ScopeBinding, Batch: true, Unique: true},
		{ID: "ready", Scope: graph.ScopeModule},
	},
		graph.Edge{On: "event", To: "event", Place: graph.BindingQueue}, graph.Edge{On: "tick", To: "tick", Place: graph.BindingQueue},
		graph.Edge{On: "ready", To: "ready", Place: graph.Tail})
	w := newFixture(t, g)
	w.bind(g, "event", gated{step{w, "event"}})
	w.bind(g, "tick", gated{step{w, "tick"}})
	w.apply = func(tx *store.Tx, t workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
		if t.Node == "ready" {
			for k := range tx.Range(store.At(store.Releases)) {
				tx.Delete(k)
			}
		}
		return nil, nil
	}
	w.e = w.engine()
	return w
}

// shut shuts the gate of hook.
func (w *fixture) shut(hook string) {
	w.t.Helper()
	if err := w.db.Update(func(tx *store.Tx) error {
		return store.Save(tx, gateKey(hook), hook+" has yet to be made ready")
	}); err != nil {
		w.t.Fatal(err)
	}
}

func TestEventsAndTicksWaitForTheirGateAndOthersOfTheirQueuePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated(t)
		w.shut("h")
		w.start()
		tick := in("q", on("tick", "m", "h", "t"))
		w.raise(hookEvent("h", "1"), hookEvent("other", "1"), tick, hookEvent("h", "2"), tick)
		w.expectTold("0 other 1")
		w.expectPending("q")
		w.restart()
		w.start()
		w.raise(hookEvent("h", "3"))
		w.expectTold()
		w.view(func(tx *store.Tx) error {
			for lane, err := range store.AllLanes(tx) {
				if err != nil {
					return err
				}
				if lane.Open || lane.Tasks != 4 || lane.Reason.Kind != store.AwaitsStart || lane.Reason.Detail != "h has yet to be made ready" {
					t.Errorf("lane %+v", lane)
				}
			}
			return nil
		})
		w.raise(on("ready", "m"))
		w.expectTold("0", "0 h 1  2 3")
		w.raise(hookEvent("h", "4"))
		w.expectTold("0 h 4")
		w.expectAllEnded()
	})
}

func TestHeldEventsOfSeveralHooksReturnToTheirQueueInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated(t)
		w.shut("h")
		w.shut("g")
		w.start()
		w.raise(hookEvent("h", "1"), hookEvent("g", "2"), hookEvent("h", "3"))
		w.expectTold()
		w.raise(on("ready", "m"))
		w.expectTold("0", "0 h 1", "0 g 2", "0 h 3")
		w.expectAllEnded()
	})
}

func TestHeldTasksWhoseReasonEndedBetweenTwoProcessesRunAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated(t)
		w.shut("h")
		w.start()
		w.raise(hookEvent("h", "1"))
		w.expectTold()
		w.restart()
		if err := w.db.Update(func(tx *store.Tx) error {
			tx.Delete(gateKey("h"))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.expectTold("0 h 1")
		w.expectAllEnded()
	})
}

func TestHeldEventsComeBeforeNewerOnesThatAreInTheirQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated(t)
		first, second := w.gate("event m/first b"), w.gate("event m/second b")
		w.start()
		w.raise(hookEvent("first", ""), hookEvent("h", "1"), hookEvent("second", ""), hookEvent("h", "2"))
		w.shut("h")
		first(workflow.Outcome{}, nil)
		w.expectTold("0 first", "0 second")
		// Event 2 of h is still in the queue when the lane of h opens. Event 1, which is held, must come first.
		w.raise(on("ready", "m"), hookEvent("h", "3"))
		w.expectTold("0")
		second(workflow.Outcome{}, nil)
		w.expectTold("0 h 1 2 3")
		w.expectHeld()
		w.expectAllEnded()
	})
}

func TestManyHeldEventsComeInOrderAndInBoundedTransactionsThoughTheOperatorIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 9000
		w := newGated(t)
		w.unchecked()
		w.shut("h")
		w.start()
		for i := 0; i < events; i += 1000 {
			var batch []workflow.Event
			for j := i; j < i+1000; j++ {
				batch = append(batch, hookEvent("h", fmt.Sprint(j)))
			}
			w.raise(batch...)
		}
		w.took()
		w.restart()
		w.unchecked()
		commits := 0
		w.mem.Before = func(int) error {
			if commits++; commits > 4 {
				return errKilled
			}
			return nil
		}
		w.fragile = true
		_ = w.e.Start(func(*store.Tx) ([]workflow.Event, error) { return []workflow.Event{on("ready", "m")}, nil })
		synctest.Wait()
		observed := w.payloads()
		w.e.Stop()
		_ = w.db.Close()
		w.mem.Before = nil
		w.open()
		w.unchecked()
		w.start(hookEvent("h", "last"))
		again := w.payloads()
		if i := slices.Index(observed, again[0]); i >= 0 {
			observed = observed[:i] // the events of the interrupted batch are delivered again
		}
		observed = append(observed, again...)
		if len(observed) != events+1 || observed[events] != "last" {
			t.Fatalf("%d events were delivered, the last is %s", len(observed), observed[len(observed)-1])
		}
		for i := range events {
			if observed[i] != fmt.Sprint(i) {
				t.Fatalf("event %d is %s", i, observed[i])
			}
		}
		w.expectHeld()
	})
}

// payloads returns the payloads of the tasks of all attempts since the last call of payloads, ran or took, without
// their quotation marks. payloads leaves out empty payloads.
func (w *fixture) payloads() (out []string) {
	for _, n := range w.took() {
		for _, t := range n.task.Batch {
			if len(t.Payload) > 2 {
				out = append(out, string(t.Payload[1:len(t.Payload)-1]))
			}
		}
	}
	return out
}

func TestAnInterruptedBatchThatIsHeldIsDoneAsOneAndToldOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated(t)
		first := w.gate("event m/h b")
		w.start()
		w.raise(hookEvent("h", "0"))
		w.raise(hookEvent("h", "1"), hookEvent("h", "2"))
		first(workflow.Outcome{}, nil) // one attempt processes the events 1 and 2
		w.raise(hookEvent("h", "3"))
		w.crash()
		w.shut("h")
		w.set("event m/h b", returns(workflow.Outcome{}))
		w.start()
		w.expectTold()
		w.raise(on("ready", "m"))
		synctest.Wait()
		var previous []workflow.Previous
		var ranges []int
		for _, n := range w.took() {
			if n.task.Node == "event" {
				previous, ranges = append(previous, n.task.Previous), append(ranges, len(n.task.Batch))
			}
		}
		if !slices.Equal(previous, []workflow.Previous{workflow.Interrupted, workflow.None}) || !slices.Equal(ranges, []int{2, 1}) {
			t.Errorf("the attempts received the previous results %v and batches of %v tasks", previous, ranges)
		}
	})
}

func TestAHeldTaskSaysWhatItWaitsForWhenItIsRetriedAndCanBeSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated(t)
		w.shut("h")
		w.start()
		w.raise(hookEvent("h", "1"), hookEvent("h", "2"))
		held := w.held()
		if len(held) != 2 {
			t.Fatalf("%d tasks are held", len(held))
		}
		if err := w.e.Retry(held[0].ID, "me", ""); !errors.Is(err, workflow.ErrHeld) || err.Error() !=
			fmt.Sprintf("task %s: the task is held: h has yet to be made ready; the task starts by itself when this reason is gone", held[0].ID) {
			t.Errorf("Retry returned %v", err)
		}
		if err := w.e.Skip(held[0].ID, "me", "no need"); err != nil {
			t.Fatal(err)
		}
		w.raise(on("ready", "m"))
		w.took()
		w.expectAllEnded()
	})
}

func TestRetryOfAHeldTaskNamesTheCommandThatResumesItUntilItIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.start()
		paused := workflow.PauseTarget{Subject: graph.Subject{Module: "m", Hook: "h"}}
		w.pause(paused)
		open := w.gate("module-schedule-event n/other t")
		w.raise(in("q", on(lifecycle.OnModuleSchedule, "m", "h", "t")), in("q", on(lifecycle.OnModuleSchedule, "n", "other", "t")))
		w.expect("module-schedule-event n/other t")
		held := w.held()[0].ID
		expect := func(want string) {
			t.Helper()
			err := w.e.Retry(held, "me", "")
			if want := fmt.Sprintf("task %s: the task is held: %s", held, want); !errors.Is(err, workflow.ErrHeld) || err.Error() != want {
				t.Errorf("Retry returned %v, want %s", err, want)
			}
		}
		expect("hook m/h is paused by mia: an incident; run addon-operator resume hook m/h")
		w.resume(paused)
		w.expectHeld("module-schedule-event m/h t") // the older task of its queue runs
		expect("nothing blocks it any more; it starts by itself after the older tasks of queue q")
		open(workflow.Outcome{}, nil)
		w.expect("module-schedule-event m/h t")
		w.expectAllEnded()
	})
}

func TestQuarantineHoldsAllWorkOfItsModuleAndLosesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(modules("bad", "good"), nil, nil)
		w.gate("module-kubernetes-event bad/h b")
		w.start(in("q", on(lifecycle.OnModuleKubeEvent, "bad", "h", "b")))
		for range 2 {
			w.crash()
			w.start()
		}
		w.raise(in("q", on(lifecycle.OnModuleKubeEvent, "bad", "i", "b")), in("q", on(lifecycle.OnModuleSchedule, "bad", "i", "t")))
		w.crash()
		w.start()
		ids := w.expectQuarantined("module-kubernetes-event bad/h b")
		w.took()
		w.restart()
		w.start(on(lifecycle.OnStart), on(lifecycle.OnResourcesAbsent, "bad"))
		w.expect("discover-modules", "module-run good", "release-check good")
		w.expectPending("main")
		w.expectHeld("module-kubernetes-event bad/h b", "module-kubernetes-event bad/i b", "module-run bad", "module-schedule-event bad/i t")
		for id := range uint64(4) {
			if slices.Contains(w.history(id+1), "dropped") {
				t.Errorf("history of run %d: %q", id+1, w.history(id+1))
			}
		}
		delete(w.do, "module-kubernetes-event bad/h b")
		if err := w.e.Release(ids[0], "me", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var q, all []string
		for _, n := range w.took() {
			all = append(all, n.what)
			if n.task.Queue == "q" {
				q = append(q, n.what)
			}
			if n.what == "module-kubernetes-event bad/h b" && n.task.Previous != workflow.Interrupted {
				t.Errorf("the released hook received the previous result %s", n.task.Previous)
			}
		}
		if want := []string{"module-kubernetes-event bad/h b", "module-kubernetes-event bad/i b"}; !slices.Equal(q, want) {
			t.Errorf("in queue q ran %q, want %q", q, want)
		}
		if !slices.Contains(all, "module-run bad") || !slices.Contains(all, "release-check bad") {
			t.Errorf("the held run of the module did not run: %q", all)
		}
		w.expectHeld()
		w.expectAllEnded()
	})
}

func TestAReleasedRunTellsTheHookThatItWasInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.items[lifecycle.ModuleBeforeHelm] = func(_ *store.Tx, t workflow.Task) ([]graph.Item, error) {
			return []graph.Item{
				{Subject: graph.Subject{Module: t.Subject.Module, Hook: "a"}}, {Subject: graph.Subject{Module: t.Subject.Module, Hook: "b"}},
			}, nil
		}
		w.gate("module-beforehelm bad/b")
		w.start(on(lifecycle.OnResourcesAbsent, "bad"))
		w.crashThreeTimes()
		ids := w.expectQuarantined("module-beforehelm bad/b")
		delete(w.do, "module-beforehelm bad/b")
		if err := w.e.Release(ids[0], "me", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		observed := map[string]workflow.Previous{}
		for _, n := range w.took() {
			observed[n.what] = n.task.Previous
		}
		if observed["module-beforehelm bad/a"] != workflow.None || observed["module-beforehelm bad/b"] != workflow.Interrupted {
			t.Errorf("the hooks received %v", observed)
		}
		w.raise(on(lifecycle.OnResourcesAbsent, "bad"))
		for _, n := range w.took() {
			if n.task.Previous != workflow.None {
				t.Errorf("in a later run %s received the previous result %s", n.what, n.task.Previous)
			}
		}
	})
}

func TestSkipOfAnItemInQuarantineForgetsItOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.gate("event m/h b")
		w.start(event("h", "b", "1", false), event("h", "b", "2", false))
		w.crashThreeTimes()
		w.raise(event("h", "b", "3", false), event("other", "b", "4", false))
		ids := w.expectQuarantined("event m/h b")
		w.set("event m/h b", returns(workflow.Outcome{}))
		if err := w.e.Skip(ids[0], "me", "no need"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.expectHeld()
		w.sleep(time.Second)
		ranges := w.ranges()
		if len(ranges) != 2 || !slices.Equal(ranges[0], []string{"3"}) || !slices.Equal(ranges[1], []string{"4"}) {
			t.Errorf("ran %q", ranges)
		}
	})
}
