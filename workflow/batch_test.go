package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// eventGraph has nodes for events and for schedule ticks. Adjacent tasks of a hook are one batch,
// and equal waiting ticks are joined. If a hook reports "fact", the node "changed" follows.
func eventGraph() *graph.Graph {
	return newGraph([]graph.Node{
		{ID: "event", Scope: graph.ScopeBinding, Batch: true},
		{ID: "tick", Scope: graph.ScopeBinding, Batch: true, Unique: true},
		{ID: "changed", Scope: graph.ScopeModule},
	},
		graph.Edge{On: "event", To: "event", Place: graph.BindingQueue}, graph.Edge{On: "tick", To: "tick", Place: graph.BindingQueue},
		graph.Edge{From: "event", To: "changed", When: "fact", Place: graph.Tail},
		graph.Edge{From: "tick", To: "changed", When: "fact", Place: graph.Tail})
}

// event returns an event in queue q for a binding of a hook of module m. The payload of the event is the given text.
func event(hook, binding string, payload string, allowFailure bool) workflow.Event {
	ev := in("q", on("event", "m", hook, binding))
	ev.Payload = json.RawMessage(strconv.Quote(payload))
	ev.AllowFailure = allowFailure
	return ev
}

// ranges returns one slice for each attempt of any hook since the last call of ran or took. The slice has the payloads
// of the tasks that the attempt processes.
func (w *fixture) ranges() (ranges [][]string) {
	for _, n := range w.took() {
		if n.task.Subject.Hook == "" {
			continue
		}
		var payloads []string
		for _, t := range n.task.Batch {
			var p string
			_ = json.Unmarshal(t.Payload, &p)
			payloads = append(payloads, p)
		}
		ranges = append(ranges, payloads)
	}
	return ranges
}

func (w *fixture) expectRanges(want ...[]string) {
	w.t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, w.ranges()); diff != "" {
		w.t.Errorf("payloads of the attempts (-want +got):\n%s", diff)
	}
}

func TestTaskThatIsAloneIsAnAttemptOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		open := w.gate("event m/block b")
		alone := func(payload string) workflow.Event {
			ev := event("a", "x", payload, false)
			ev.NoBatch = true
			return ev
		}
		w.start(event("block", "b", "0", false), alone("1"), alone("2"), event("a", "x", "3", false), event("a", "x", "4", false), alone("5"))
		open(workflow.Outcome{}, nil)
		w.expectRanges([]string{"0"}, []string{"1"}, []string{"2"}, []string{"3", "4"}, []string{"5"})
	})
}

func TestAdjacentTasksOfAHookAreOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		open := w.gate("event m/block b")
		w.reports("event m/a x", "fact")
		tick := in("q", on("tick", "m", "a", "z"))
		w.start(event("block", "b", "0", false), event("a", "x", "1", false), event("a", "y", "2", false), tick, tick, event("a", "x", "3", false),
			event("b", "x", "4", false), event("a", "x", "5", false))
		open(workflow.Outcome{}, nil)
		w.expectRanges([]string{"0"}, []string{"1", "2", "", "3"}, []string{"4"}, []string{"5"})
		runs := w.runs()
		for i, joined := range map[int]uint64{2: 2, 3: 2, 4: 4, 5: 2, 6: 0, 7: 0} {
			if got := runs[i]; got.Open != 0 || got.Joined != joined {
				t.Errorf("run %d has %d tasks and joined run %d, want no tasks and run %d", got.ID, got.Open, got.Joined, joined)
			}
		}
		if diff := cmp.Diff([]string{"done event m/a x", "done changed m"}, w.history(2)); diff != "" {
			t.Error(diff)
		}
		if r := w.records(2)[0]; r.Merged != 4 {
			t.Errorf("the run counts %d merged tasks, want 4", r.Merged)
		}
	})
}

func TestRangeEndsAtAThousandTasksOrEightMebibytes(t *testing.T) {
	for _, c := range []struct {
		what    string
		payload string
		events  int
		want    []int
	}{
		{"many", "x", 2500, []int{1000, 1000, 500}},
		{"just too large for a header", strings.Repeat("x", 3<<10), 1200, []int{1000, 200}},
		{"large", strings.Repeat("x", 1<<20-2), 20, []int{8, 8, 4}},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, eventGraph())
				w.mem.After = nil
				for range c.events {
					w.raise(event("a", "x", c.payload, false))
				}
				w.start()
				var got []int
				for _, n := range w.took() {
					got = append(got, len(n.task.Batch))
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// A sized step adds the same number of bytes to its input for each task of a batch.
type sized struct {
	step
	bytes *atomic.Int64
}

func (s sized) BatchSize(*store.Tx, *store.Task) func(last, next *store.Task) int {
	return func(_, _ *store.Task) int { return int(s.bytes.Load()) }
}

// newSized returns a fixture for the graph of eventGraph. The node "event" adds the returned number of bytes to its
// input for each task of a batch.
func newSized(t *testing.T, bytes int64) (*fixture, *atomic.Int64) {
	t.Helper()
	g, added := eventGraph(), new(atomic.Int64)
	added.Store(bytes)
	w := newFixture(t, g)
	w.bind(g, "event", sized{step{w, "event"}, added})
	w.e = w.engine()
	return w, added
}

func TestBatchIsLimitedByTheInputOfItsStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, added := newSized(t, 3<<20)
		block := w.gate("event m/block b")
		w.fails("event m/a x", 1)
		w.start(event("block", "b", "0", false))
		for _, payload := range []string{"1", "2", "3", "4", "5"} {
			w.raise(event("a", "x", payload, false))
		}
		block(workflow.Outcome{}, nil)
		w.expectRanges([]string{"0"}, []string{"1", "2"})
		added.Store(9 << 20) // a failed batch is formed again, and can have fewer tasks
		w.sleep(5 * time.Second)
		w.expectRanges([]string{"1"}, []string{"2"}, []string{"3"}, []string{"4"}, []string{"5"})
	})
}

// TestInterruptedBatchIsKeptAlthoughItsInputHasGrown makes the input of three tasks larger during an attempt at them,
// and then interrupts the attempt. The next attempt must have all three tasks. Otherwise, the attempt at the other tasks
// would not know that an earlier attempt at them was interrupted.
func TestInterruptedBatchIsKeptAlthoughItsInputHasGrown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, added := newSized(t, 1<<20)
		block := w.gate("event m/block b")
		w.start(event("block", "b", "0", false), event("a", "x", "1", false), event("a", "x", "2", false), event("a", "x", "3", false))
		w.gate("event m/a x")
		block(workflow.Outcome{}, nil)
		w.expectRanges([]string{"0"}, []string{"1", "2", "3"})
		added.Store(4<<20 - 100)
		w.restart()
		w.fails("event m/a x", 1)
		w.start()
		notes := w.took()
		if len(notes) != 1 || len(notes[0].task.Batch) != 3 || notes[0].task.Previous != workflow.Interrupted {
			t.Errorf("the attempts are %+v, want one of all three tasks after an interrupted one", notes)
		}
		w.sleep(5 * time.Second) // a failed batch is formed again
		w.expectRanges([]string{"1", "2"}, []string{"3"})
	})
}

func TestJournalOfABatchIsCarriedOutForAllItsTasksAlthoughItsInputHasGrown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, added := newSized(t, 1<<20)
		block := w.gate("event m/block b")
		w.set("event m/a x", returns(effects("one")))
		errs := map[string]error{"one": errors.New("503")}
		w.doEffects(errs)
		w.start(event("block", "b", "0", false), event("a", "x", "1", false), event("a", "x", "2", false))
		block(workflow.Outcome{}, nil)
		w.expectRanges([]string{"0"}, []string{"1", "2"})
		added.Store(9 << 20)
		w.locked(func() { delete(errs, "one") })
		w.sleep(5 * time.Second)
		w.expectRanges()
		w.expectPending("q")
	})
}

func TestStrictTasksOfAFailedRangeStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		open := w.gate("event m/block b")
		w.fails("event", 2)
		w.start(event("block", "b", "0", false), event("a", "x", "1", true), event("a", "y", "2", false), event("a", "x", "3", true), event("a", "z", "4", false))
		open(workflow.Outcome{}, nil)
		w.expectRanges([]string{"0"}, []string{"1", "2", "3", "4"})
		tasks := w.pending("q")
		if len(tasks) != 2 || tasks[0].Failed == nil || tasks[0].Failed.Count != 1 || tasks[0].Failed.Subject.Binding != "y" || tasks[1].Failed != nil {
			t.Fatalf("the remaining tasks are %+v", tasks)
		}
		if diff := cmp.Diff([]string{"allowed event m/a x"}, w.history(2)); diff != "" {
			t.Error(diff)
		}
		// The retry forms a new batch, which includes the new event.
		w.raise(event("a", "x", "5", false))
		w.sleep(5 * time.Second)
		notes := w.took()
		if got := notes[0].task; got.Try != 2 || got.Previous != workflow.WasFailed || len(got.Batch) != 3 {
			t.Errorf("the attempt has try %d, previous %s and %d tasks; want 2, failed and 3", got.Try, got.Previous, len(got.Batch))
		}
		w.sleep(10 * time.Second)
		w.expectRanges([]string{"2", "4", "5"})
		w.expectPending("q")
	})
}

func TestFailureIsAllowedOnlyIfAllTasksOfTheBatchAllowIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		open := w.gate("event m/block b")
		w.fails("event", 1)
		applied := 0
		w.apply = func(_ *store.Tx, _ workflow.Task, out workflow.Outcome) ([]graph.Fact, error) {
			if out.Allowed != "" {
				applied++
			}
			return nil, nil
		}
		w.start(event("block", "b", "0", false), event("a", "x", "1", true), event("a", "y", "2", true))
		open(workflow.Outcome{}, nil)
		w.expectRanges([]string{"0"}, []string{"1", "2"})
		w.expectPending("q")
		if applied != 1 {
			t.Errorf("Apply was called %d times for the allowed failure, want 1", applied)
		}
	})
}

func TestInterruptedBatchIsKeptAndAFailedBatchIsFormedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		block := w.gate("event m/block b")
		w.start(event("block", "b", "0", false), event("a", "x", "1", false), event("a", "x", "2", false))
		w.gate("event m/a x")
		block(workflow.Outcome{}, nil)
		w.raise(event("a", "x", "3", false))
		w.expectRanges([]string{"0"}, []string{"1", "2"})
		w.restart()
		open := w.gate("event m/a x")
		w.raise(event("a", "x", "4", false))
		w.start()
		w.expectRanges([]string{"1", "2"})
		open(workflow.Outcome{}, errors.New("no"))
		w.sleep(5 * time.Second)
		w.expectRanges([]string{"1", "2", "3", "4"})
		open(workflow.Outcome{}, nil)
		w.expectPending("q")
	})
}

func TestClaimOfOneTaskIsKeptTooWhenInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.gate("event m/a x")
		w.start(event("a", "x", "1", false))
		w.raise(event("a", "x", "2", false))
		w.restart()
		w.reports("event m/a x")
		w.start()
		w.expectRanges([]string{"1"}, []string{"1"}, []string{"2"})
	})
}

func TestJournalOfARangeIsCarriedOutForItAlone(t *testing.T) {
	for _, how := range []string{"tried again", "interrupted"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, eventGraph())
				block := w.gate("event m/block b")
				w.set("event m/a x", returns(workflow.Outcome{Effects: []workflow.Effect{{Kind: "k", Data: json.RawMessage(`1`)}}}))
				var down atomic.Bool
				down.Store(true)
				w.effect = func(ctx context.Context, t workflow.Task, _ workflow.Effect) error {
					switch {
					case !down.Load():
						return nil
					case how == "interrupted":
						<-ctx.Done()
					}
					return errors.New("unavailable")
				}
				w.start(event("block", "b", "0", false), event("a", "x", "1", true), event("a", "x", "2", false))
				block(workflow.Outcome{}, nil)
				w.raise(event("a", "x", "3", false))
				w.expectRanges([]string{"0"}, []string{"1", "2"})
				if how == "interrupted" {
					w.restart()
					down.Store(false)
					w.start()
				} else {
					down.Store(false)
					w.sleep(5 * time.Second)
				}
				w.expectRanges([]string{"3"})
				if diff := cmp.Diff([]string{"done event m/a x"}, w.history(4)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestCountOfFailuresPassesToTheFirstThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		block := w.gate("event m/block b")
		w.set("event m/a x", returns(effects("one")))
		errs := map[string]error{"one": errors.New("503")}
		w.doEffects(errs)
		w.start(event("block", "b", "0", false), event("a", "x", "1", true), event("a", "y", "2", false))
		block(workflow.Outcome{}, nil)
		w.locked(func() { errs["one"] = workflow.Refused(errors.New("403")) })
		w.sleep(5 * time.Second)
		tasks := w.pending("q")
		if len(tasks) != 1 || tasks[0].Subject.Binding != "y" || tasks[0].Failed == nil || tasks[0].Failed.Count != 2 {
			t.Errorf("the remaining tasks are %+v", tasks)
		}
		if began := w.records(3)[0].Began; began.IsZero() {
			t.Error("the record of the failure does not say when the attempt began")
		}
	})
}

func TestTicksOfABindingAreOneUntilTheyRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		tick := func(binding string) workflow.Event { return in("q", on("tick", "m", "h", binding)) }
		open := w.gate("tick")
		w.start(tick("x"), tick("x"), tick("y"), tick("y"))
		if n := len(w.pending("q")); n != 2 {
			t.Fatalf("%d ticks are pending, want 2", n)
		}
		w.raise(tick("y"), tick("y"), tick("x"), tick("x"))
		if n := len(w.pending("q")); n != 4 {
			t.Fatalf("%d ticks are pending while two are running, want 4", n)
		}
		open(workflow.Outcome{}, nil)
		open(workflow.Outcome{}, nil)
		w.expect("tick m/h x", "tick m/h y")
	})
}

func TestWithdrawAndSkipLeaveWhatAJournalCovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		block := w.gate("event m/block b")
		w.set("event m/a x", returns(effects("one")))
		errs := map[string]error{"one": errors.New("503")}
		done := w.doEffects(errs)
		w.start(event("block", "b", "0", false), about(event("a", "x", "1", false), "o"), about(event("a", "x", "2", false), "o"))
		block(workflow.Outcome{}, nil)
		w.withdraw("q", "m", "a", nil)
		w.expectPending("q", "event m/a x", "event m/a x")
		if err := w.e.Skip(w.pending("q")[1].ID, "ann", "known"); !errors.Is(err, workflow.ErrRuns) {
			t.Errorf("skip of a task that a journal covers returned %v", err)
		}
		w.locked(func() { delete(errs, "one") })
		w.sleep(5 * time.Second)
		w.expectPending("q")
		if diff := cmp.Diff([]string{"one", "one"}, *done); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWithdrawLeavesWhatIsDoneOrWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		block := w.gate("event m/block b")
		w.start(event("block", "b", "0", false), about(event("a", "x", "1", false), "o"), about(event("a", "x", "2", false), "o"))
		open := w.gate("event m/a x")
		block(workflow.Outcome{}, nil)
		w.raise(about(event("a", "x", "3", false), "o"), about(event("a", "y", "4", false), "o"), about(event("a", "x", "5", false), "o"))
		w.withdraw("q", "m", "a", func(t *store.Task) bool { return t.Subject.Binding == "x" })
		open(workflow.Outcome{}, nil)
		w.expectRanges([]string{"0"}, []string{"1", "2"}, []string{"4"})
		if diff := cmp.Diff([]string{"dropped event m/a x"}, w.history(4)); diff != "" {
			t.Error(diff)
		}
		if run := w.runs()[3]; run.Open != 0 || run.Ended.IsZero() {
			t.Errorf("the run of the withdrawn task is %+v", run)
		}
	})
}

func TestWithdrawLeavesListsAndTheirMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{Scope: graph.ScopeBinding}))
		w.lists("each", graph.Item{Subject: graph.Subject{Hook: "far"}, Queue: "q", Wait: true})
		w.fails("each far", 1)
		w.start(on("go"))
		w.withdraw("q", "", "far", nil)
		w.withdraw("main", "", "", nil)
		w.sleep(time.Minute)
		w.expect("each far", "each far", "next")
	})
}

func TestQueueOfAFailingScheduleDoesNotGrowWithEachAttempt(t *testing.T) {
	for name, during := range map[string]bool{"ticks between the attempts": false, "ticks also during the attempts": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, eventGraph())
				open := w.gate("tick m/a z")
				ticks := []workflow.Event{in("q", on("tick", "m", "a", "z")), in("q", on("tick", "m", "a", "y"))}
				w.start(ticks...)
				pending := []string{"tick m/a z", "tick m/a y", "tick m/a z"}
				for range 8 {
					if during {
						w.raise(ticks...)
					}
					open(workflow.Outcome{}, errors.New("no answer"))
					w.raise(ticks...)
					w.expectPending("q", pending...)
					w.sleep(time.Minute)
				}
				w.took()
				open(workflow.Outcome{}, nil)
				w.expect()
				w.expectPending("q")
			})
		})
	}
}
