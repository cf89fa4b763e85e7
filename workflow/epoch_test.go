package workflow_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// defaultChecks is the number of cases of a property test, unless the command line sets another number.
const defaultChecks = "400"

func TestMain(m *testing.M) {
	// Property tests check more cases than by default, because a case takes only a few
	// milliseconds, and unusual cases are rare.
	if err := flag.Set("rapid.checks", defaultChecks); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func TestStartResumesEveryQueueAndWhatIsDueLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.gate("event")
		var want []string
		for i := range 20 {
			w.raise(in(fmt.Sprint("q", i), on("event", "m", fmt.Sprint("h", i), "b")))
			want = append(want, fmt.Sprintf("event m/h%d b", i))
		}
		w.expect() // the engine is not started yet
		w.start(in("q20", on("event", "m", "h20", "b")))
		want = append(want, "event m/h20 b")
		w.expectAny(want...)
		w.restart()
		w.reports("event")
		w.start()
		w.expectAny(want...)
		if q := w.queues(); len(q) > 0 {
			t.Errorf("queues %q are left", q)
		}
	})
}

func TestStartEventsComeInTheirOrderBeforeWhatIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "n", Scope: graph.ScopeModule}},
			graph.Edge{On: "front", To: "n", Place: graph.Front}, graph.Edge{On: "tail", To: "n", Place: graph.Tail})
		w := newFixture(t, g)
		w.raise(on("tail", "pending"))
		w.start(on("front", "second"), on("front", "first"), on("tail", "last"))
		w.expect("n first", "n second", "n pending", "n last")
	})
}

func TestStartThatCannotBeginStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.raise(in("q", on("event", "m", "h", "b")))
		want := errors.New("no")
		if err := w.e.Start(func(*store.Tx) ([]workflow.Event, error) { return nil, want }); !errors.Is(err, want) {
			t.Errorf("start: %v", err)
		}
		if err := w.e.Start(func(*store.Tx) ([]workflow.Event, error) { return []workflow.Event{on("unknown")}, nil }); err == nil {
			t.Error("an event of no trigger is raised")
		}
		w.expect()
	})
}

func TestDrainLetsWhatRunsComeToItsMoveAndBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{}))
		w.lists("each", hooks("a", "b")...)
		open := w.gate("each a")
		w.fails("each b", 1)
		w.start(on("go"))
		w.e.Drain()
		var waited atomic.Bool
		go func() {
			w.e.Wait()
			waited.Store(true)
		}()
		synctest.Wait()
		if waited.Load() {
			t.Error("Wait returned while a step runs")
		}
		open(workflow.Outcome{}, nil)
		if !waited.Load() {
			t.Error("Wait has not returned after the last step")
		}
		w.raise(on("go"))
		w.sleep(time.Hour)
		w.expect("each a")
		if task := w.pending("main")[0]; task.FanOut.Next != 1 || task.Claim != nil {
			t.Errorf("the fan-out is at item %d, claim %+v", task.FanOut.Next, task.Claim)
		}
	})
}

func TestStopInterruptsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "n"}))
		w.gate("n")
		w.start(on("go"))
		w.e.Stop()
		w.expect("n")
		if n := len(w.records(1)); n != 0 {
			t.Errorf("an interrupted attempt left %d lines of history", n)
		}
	})
}

func TestStepThatSucceedsWhileItIsStoppedIsMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "n"}, graph.Node{ID: "after"}))
		w.set("n", func(ctx context.Context, _ workflow.Task) (workflow.Outcome, error) {
			<-ctx.Done()
			return workflow.Outcome{}, nil
		})
		w.start(on("go"))
		w.e.Stop()
		w.expect("n")
		w.expectPending("main", "after")
	})
}

func TestNoTaskIsStrandedBehindAnEarlierAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "n", Scope: graph.ScopeModule}}, graph.Edge{On: "go", To: "n", Place: graph.Tail}, graph.Edge{On: "now", To: "n", Place: graph.Front})
		w := newFixture(t, g)
		w.fails("n a", 1)
		w.fails("n b", 2)
		w.start(on("go", "a"))
		// The alarm of the queue is set to 5 s, for task a. At 2 s, task b, which is before
		// task a in the queue, fails. The alarm for task b replaces the alarm for task a.
		w.sleep(2 * time.Second)
		w.raise(on("now", "b"))
		w.sleep(time.Minute)
		w.expectAt("0 n a", "2 n b", "7 n b", "17 n b", "17 n a")
		w.fails("n c", 1)
		w.raise(on("now", "c"))
		w.sleep(time.Second)
		// If the first task is skipped before it is due, the task behind it continues.
		w.raise(on("go", "d"))
		if err := w.e.Skip(w.pending("main")[0].ID, "me", "gone"); err != nil {
			t.Fatal(err)
		}
		w.expectAt("62 n c", "63 n d")
	})
}

func TestHeadThatIsDueEarlierThanWhatStoodFirstIsNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "n", Scope: graph.ScopeModule}}, graph.Edge{On: "go", To: "n", Place: graph.Tail}, graph.Edge{On: "now", To: "n", Place: graph.Front})
		w := newFixture(t, g)
		w.fails("n a", 4)
		w.fails("n b", 1)
		w.start(on("go", "a"))
		w.sleep(36 * time.Second) // a is due at 65 s
		w.ran()
		w.raise(on("now", "b"))
		w.sleep(time.Minute)
		w.expectAt("36 n b", "41 n b", "65 n a")
	})
}

func TestQueueThatAMoveHasLookedAtIsLookedAtAgainWhenItFills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// When the item in q ends, the first fan-out ends. In the same transition, the second fan-out
		// adds its item to q.
		g := newGraph([]graph.Node{{ID: "one", ForEach: "first", Scope: graph.ScopeBinding}, {ID: "two", ForEach: "second", Scope: graph.ScopeBinding}, {ID: "last"}},
			graph.Edge{On: "go", To: "one", Place: graph.Tail}, graph.Edge{From: "one", To: "two"}, graph.Edge{From: "two", To: "last"})
		w := newFixture(t, g)
		w.lists("one", graph.Item{Subject: graph.Subject{Hook: "a"}, Queue: "q", Wait: true})
		w.lists("two", graph.Item{Subject: graph.Subject{Hook: "b"}, Queue: "q", Wait: true})
		w.start(on("go"))
		w.expect("one a", "two b", "last")
	})
}

func TestManyTasksThatNeedNoWorkerDoNotHoldUpACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Each run is an empty fan-out and one step.
		w := newFixture(t, listGraph(graph.Node{}))
		w.mem.After = nil
		block := w.gate("next")
		var events []workflow.Event
		for range 1000 {
			events = append(events, on("go"))
		}
		w.start(events...)
		w.reports("next")
		block(workflow.Outcome{}, nil)
		if n := len(w.ran()); n != 1000 {
			t.Errorf("%d steps ran, want 1000", n)
		}
		// Each run is only an empty fan-out. A transition processes some of these runs, and leaves
		// the other runs to the next transition.
		g := newGraph([]graph.Node{{ID: "empty", ForEach: "none"}}, graph.Edge{On: "go", To: "empty", Place: graph.Tail})
		w = newFixture(t, g)
		w.mem.After = nil
		w.raise(events...)
		w.start()
		w.expectPending("main")
	})
}

func TestRaiseIsPartOfTheCallersTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.start()
		before := w.mem.Commits()
		want := errors.New("changed my mind")
		err := w.db.Update(func(tx *store.Tx) error {
			if err := w.e.Raise(tx, in("q", on("event", "m", "h", "b"))); err != nil {
				return err
			}
			return want
		})
		w.expect()
		if !errors.Is(err, want) || w.mem.Commits() != before {
			t.Errorf("%v, %d commits", err, w.mem.Commits()-before)
		}
		w.raise(in("q", on("event", "m", "h", "b")))
		w.expect("event m/h b")
		if n := w.mem.Commits() - before; n != 2 {
			t.Errorf("%d commits for an event and its end, want 2: the first claims the task", n)
		}
	})
}

func TestEventRaisedByAStepIsPartOfItsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		once := true
		w.apply = func(tx *store.Tx, _ workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
			if !once {
				return nil, nil
			}
			once = false
			return nil, w.e.Raise(tx, in("q", on("event", "m", "same", "b")), in("p", on("event", "m", "other", "b")))
		}
		w.start(in("q", on("event", "m", "h", "b")))
		w.expectAny("event m/h b", "event m/same b", "event m/other b")
		w.expectAllEnded()
	})
}

func TestPoisonedStoreEndsTheWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "n"}, graph.Node{ID: "after"}))
		w.fragile = true
		open := w.gate("n")
		w.start(on("go"))
		w.mem.After = func(int) error { return errors.New("the disk is gone") }
		open(workflow.Outcome{}, nil)
		w.e.Wait()
		if len(w.broken) != 1 || !errors.Is(w.broken[0], store.ErrPoisoned) {
			t.Errorf("the observer received %v", w.broken)
		}
	})
}

func TestObserverIsToldOfWhatWasCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := chain(graph.Node{ID: "n"})
		w := newFixture(t, g)
		var observed []string
		tell := func(format string, args ...any) {
			w.locked(func() { observed = append(observed, fmt.Sprintf(format, args...)) })
		}
		e, err := workflow.New(w.db, workflow.Observer{
			Began:    func(t workflow.Task) { tell("began %s", t.Node) },
			Recorded: func(r store.Record) { tell("%s %s", r.State, r.Node) },
			Raised:   func(run store.Run) { tell("raised %d, %d open", run.ID, run.Open) },
			Ended:    func(run store.Run) { tell("ended %d, %d open", run.ID, run.Open) },
		}, w.steps...)
		if err != nil {
			t.Fatal(err)
		}
		w.e = e
		w.fails("n", 1)
		w.start(on("go"))
		w.sleep(5 * time.Second)
		want := []string{"raised 1, 1 open", "began n", "failed n", "began n", "done n", "ended 1, 0 open"}
		if diff := cmp.Diff(want, observed); diff != "" {
			t.Error(diff)
		}
	})
}
