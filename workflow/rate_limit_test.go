package workflow_test

import (
	"context"
	"encoding/json"
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
)

// A limited step has a rate limit for each hook in limits. The keys are the names of the hooks.
type limited struct {
	step
	limits map[string]workflow.RateLimit
}

func (s limited) RateLimit(_ *store.Tx, t *store.Task) (limit workflow.RateLimit) {
	s.w.locked(func() { limit = s.limits[t.Subject.Hook] })
	return limit
}

// A panicking step panics when it is asked for the rate limit of the hook named "broken", until repaired is true.
type panicking struct {
	step
	repaired *atomic.Bool
}

func (p panicking) RateLimit(_ *store.Tx, t *store.Task) workflow.RateLimit {
	if t.Subject.Hook == "broken" && !p.repaired.Load() {
		panic("no limit")
	}
	return workflow.RateLimit{}
}

func TestAPanicOfARateLimitStopsOnlyTheQueueOfItsHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, workflow.RateLimit{})
		w.fragile = true
		var repaired atomic.Bool
		w.bind(w.steps[0].Graph, "event", panicking{step{w, "event"}, &repaired})
		w.start()
		open := w.gate("event m/first b")
		w.raise(hookEvent("first", "1"), hookEvent("broken", "2"), in("r", on("event", "m", "other", "b")))
		w.expectAny("event m/first b", "event m/other b")
		open(workflow.Outcome{}, nil)
		w.expectPending("q", "event m/broken b")
		if len(w.broken) == 0 || !strings.Contains(w.broken[0].Error(), "RateLimit of node event panicked: no limit") {
			t.Errorf("reported errors: %v", w.broken)
		}
		repaired.Store(true)
		w.sleep(time.Minute)
		w.expect("event m/broken b")
		w.expectAllEnded()
	})
}

// limitedGraph returns a graph with nodes for events and for schedule ticks, a fan-out of hooks, and the node "retire".
// The end of "retire" cancels the pending tasks of its module.
func limitedGraph() *graph.Graph {
	return newGraph([]graph.Node{
		{ID: "event", Scope: graph.ScopeBinding, Batch: true}, {ID: "tick", Scope: graph.ScopeBinding, Batch: true, Unique: true}, {ID: "each", ForEach: "some"}, {ID: "retire", Scope: graph.ScopeModule}, {ID: "gone", Scope: graph.ScopeModule},
	},
		graph.Edge{On: "event", To: "event", Place: graph.BindingQueue}, graph.Edge{On: "tick", To: "tick", Place: graph.BindingQueue},
		graph.Edge{On: "go", To: "each", Place: graph.Tail}, graph.Edge{On: "retire", To: "retire", Place: graph.Tail}, graph.Edge{From: "retire", To: "gone", CancelsPending: true})
}

// newLimited returns a fixture in which hook h has the given rate limit. newLimited also returns the
// map with the limits of all hooks, which a test can change.
func newLimited(t testing.TB, limit workflow.RateLimit) (*fixture, map[string]workflow.RateLimit) {
	t.Helper()
	g, limits := limitedGraph(), map[string]workflow.RateLimit{"h": limit}
	w := newFixture(t, g)
	for _, node := range []graph.NodeID{"event", "tick", "each"} {
		w.bind(g, node, limited{step{w, node}, limits})
	}
	w.e = w.engine()
	return w, limits
}

// hookEvent returns an event in queue q for a hook of module m. The payload of the event is the
// given text.
func hookEvent(hook, what string) workflow.Event {
	ev := in("q", on("event", "m", hook, "b"))
	ev.Payload = json.RawMessage(fmt.Sprintf("%q", what))
	return ev
}

// later returns a line for each deferred task: its due time, in seconds since the beginning of the test,
// and its payload.
func (w *fixture) later() (out []string) {
	w.t.Helper()
	w.view(func(tx *store.Tx) error {
		for t, err := range store.DeferredTasks(tx) {
			if err != nil {
				return err
			}
			out = append(out, fmt.Sprintf("%v %s", t.Due.Sub(w.begun).Seconds(), t.Payload))
		}
		return nil
	})
	return out
}

// delivered returns a line for each attempt since the last call of delivered, ran or took: its start, in
// seconds since the beginning of the test, the hook, and the payloads of the batch.
func (w *fixture) delivered() (out []string) {
	for _, n := range w.took() {
		line := fmt.Sprintf("%v %s", n.at.Seconds(), n.task.Subject.Hook)
		for _, t := range n.task.Batch {
			line += " " + strings.Trim(string(t.Payload), `"`)
		}
		out = append(out, strings.TrimSpace(line))
	}
	return out
}

func (w *fixture) expectTold(want ...string) {
	w.t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, w.delivered()); diff != "" {
		w.t.Errorf("runs (-want +got):\n%s", diff)
	}
}

var everyThree = workflow.RateLimit{Every: 3 * time.Second, Burst: 1}

func TestBurstOfALimitedHookIsTwoRunsAndOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, everyThree)
		w.start()
		for i := range 5 {
			w.raise(hookEvent("h", fmt.Sprint(i)))
			w.raise(hookEvent("other", fmt.Sprint(i)))
			w.sleep(100 * time.Millisecond)
		}
		w.expectTold("0 h 0", "0 other 0", "0.1 other 1", "0.2 other 2", "0.3 other 3", "0.4 other 4")
		if diff := cmp.Diff([]string{`3 "1"`, `3 "2"`, `3 "3"`, `3 "4"`}, w.later()); diff != "" {
			t.Error(diff)
		}
		w.sleep(time.Minute)
		w.expectTold("3 h 1 2 3 4")
		w.raise(hookEvent("h", "5"))
		w.expectTold("60.5 h 5")
	})
}

func TestRunsOfABurstFollowAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, workflow.RateLimit{Every: 10 * time.Second, Burst: 3})
		w.start()
		for i := range 5 {
			w.raise(hookEvent("h", fmt.Sprint(i)))
		}
		w.expectTold("0 h 0", "0 h 1", "0 h 2")
		w.sleep(9 * time.Second)
		w.expectTold()
		w.sleep(time.Second)
		w.expectTold("10 h 3 4")
		w.sleep(15 * time.Second)
		w.raise(hookEvent("h", "5"), hookEvent("other", "x"), hookEvent("h", "6"))
		w.expectTold("25 h 5", "25 other x")
		w.sleep(5 * time.Second)
		w.expectTold("30 h 6")
	})
}

func TestTasksBehindALimitedHookAreDeferredWithoutARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, everyThree)
		w.mem.After = nil // because checks of so many waiting tasks take long
		open := w.gate("event m/h b")
		w.start(hookEvent("h", "0"))
		for i := range 2500 {
			if err := w.db.Update(func(tx *store.Tx) error { return w.e.Raise(tx, hookEvent("h", fmt.Sprint(i+1))) }); err != nil {
				t.Fatal(err)
			}
		}
		w.raise(hookEvent("other", "x"))
		open(workflow.Outcome{}, nil)
		w.expectTold("0 h 0", "0 other x")
		if n := len(w.later()); n != 2500 {
			t.Errorf("%d tasks are deferred, want 2500", n)
		}
		w.set("event m/h b", returns(workflow.Outcome{}))
		w.sleep(time.Minute)
		notes := w.took()
		next := 1
		for i, n := range notes {
			if want := 3 * float64(i+1); n.at.Seconds() != want {
				t.Errorf("run %d was at %v, want %v", i, n.at.Seconds(), want)
			}
			for _, task := range n.task.Batch {
				if want := fmt.Sprintf("%q", fmt.Sprint(next)); string(task.Payload) != want {
					t.Fatalf("event %s came where %s was expected", task.Payload, want)
				}
				next++
			}
		}
		if next != 2501 || len(notes) != 3 {
			t.Errorf("%d runs processed %d events, want 3 and 2500", len(notes), next-1)
		}
	})
}

func TestEventsBehindAnotherHookDoNotOvertakeTheDeferredOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, everyThree)
		open := w.gate("event m/other b")
		w.start(hookEvent("h", "0"))
		w.raise(hookEvent("h", "1"), hookEvent("other", "x"), hookEvent("h", "2"), in("q", on("tick", "m", "h", "b")), hookEvent("other", "y"), hookEvent("h", "3"))
		w.sleep(10 * time.Second)
		w.expectTold("0 h 0", "0 other x")
		w.set("event m/other b", returns(workflow.Outcome{}))
		open(workflow.Outcome{}, nil)
		w.expectTold("10 other y", "10 h 1 2  3")
		w.sleep(time.Minute)
		w.expectTold()
		w.expectAllEnded()
	})
}

// manyBehind returns a fixture in which event 1 of the limited hook h is deferred. The events 2 to
// n of h are in the queue, behind a running attempt of another hook. A call of open ends this attempt.
func manyBehind(t *testing.T, n int) (w *fixture, open func(workflow.Outcome, error)) {
	t.Helper()
	w, _ = newLimited(t, everyThree)
	w.unchecked()
	open = w.gate("event m/other b")
	w.start(hookEvent("h", "0"), hookEvent("other", "x"))
	w.raise(hookEvent("h", "1"), hookEvent("other", "y"))
	for i := 2; i <= n; i += 250 {
		var events []workflow.Event
		for len(events) < min(250, n+1-i) {
			events = append(events, hookEvent("h", fmt.Sprint(i+len(events))))
		}
		w.raise(events...)
	}
	open(workflow.Outcome{}, nil)
	if n := len(w.later()); n != 1 {
		t.Fatalf("%d tasks are deferred, want one", n)
	}
	w.took()
	return w, open
}

func (w *fixture) expectInOrder(from, to int) {
	w.t.Helper()
	next := from
	for _, n := range w.took() {
		for _, task := range n.task.Batch {
			if task.Subject.Hook != "h" {
				continue
			}
			if want := fmt.Sprintf("%q", fmt.Sprint(next)); string(task.Payload) != want {
				w.t.Fatalf("event %s came where %s was expected", task.Payload, want)
			}
			next++
		}
	}
	if next != to+1 {
		w.t.Errorf("%d events came, want %d", next-from, to+1-from)
	}
}

func TestManyEventsBehindAnotherHookDoNotOvertakeTheDeferredOnes(t *testing.T) {
	for _, when := range []string{"at once", "after a restart", "expedited", "without a limit"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const events = 7000 // too many for one transaction
				w, open := manyBehind(t, events)
				w.set("event m/h b", returns(workflow.Outcome{}))
				switch when {
				case "after a restart":
					w.restart()
					w.unchecked()
					w.start()
					w.sleep(10 * time.Second)
					w.took()
				case "expedited":
					var first store.ID
					w.view(func(tx *store.Tx) error {
						for task, err := range store.DeferredTasks(tx) {
							first = task.ID
							return err
						}
						return nil
					})
					if err := w.e.Retry(first, "", ""); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				case "without a limit":
					for _, b := range w.steps {
						step, ok := b.Steps["event"].(limited)
						if !ok {
							t.Fatal("the step has no rate limits")
						}
						clear(step.limits)
					}
					w.e.RateLimitsChanged()
					synctest.Wait()
				default:
					w.sleep(10 * time.Second)
				}
				w.set("event m/other b", returns(workflow.Outcome{}))
				open(workflow.Outcome{}, nil)
				w.sleep(time.Minute)
				w.expectInOrder(1, events)
			})
		})
	}
}

func TestInterruptedRunOfALimitedHookGoesOnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, everyThree)
		w.gate("event m/h b")
		w.start(hookEvent("h", "0"), hookEvent("h", "1"))
		w.restart()
		w.set("event m/h b", returns(workflow.Outcome{}))
		w.took()
		w.raise(hookEvent("h", "2"))
		w.start()
		w.expectTold("0 h 0 1")
		w.sleep(3 * time.Second)
		w.expectTold("3 h 2")
	})
}

func TestRetryOfALimitedHookWaitsForItsTurnAndKeepsItsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, workflow.RateLimit{Every: 8 * time.Second, Burst: 1})
		w.fails("event m/h b", 1)
		w.start(hookEvent("h", "0"), hookEvent("other", "x"))
		w.expectTold("0 h 0")
		w.sleep(5 * time.Second)
		w.expectTold("5 other x")
		w.raise(hookEvent("h", "1"))
		w.sleep(3 * time.Second)
		notes := w.took()
		if len(notes) != 1 || notes[0].at != 8*time.Second || notes[0].task.Try != 2 || len(notes[0].task.Batch) != 2 {
			t.Errorf("the runs of the hook are %+v", notes)
		}
	})
}

func TestARetryByAPersonIgnoresTheRateLimitOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, workflow.RateLimit{Every: 5 * time.Minute, Burst: 1})
		w.fails("event m/h b", 100)
		w.start(hookEvent("h", "0"))
		id := w.pending("q")[0].ID
		retry := func() {
			t.Helper()
			if err := w.e.Retry(id, "ann", ""); err != nil {
				t.Fatal(err)
			}
		}
		w.raise(hookEvent("h", "1"))
		w.sleep(2 * time.Second)
		retry() // during the retry delay
		w.sleep(58 * time.Second)
		w.expectTold("0 h 0", "2 h 0 1")
		retry() // while the limit defers the task
		w.expectTold("60 h 0 1")
		w.restart()
		w.start()
		w.sleep(10 * time.Minute)
		w.expectTold("360 h 0 1", "660 h 0 1")
	})
}

func TestDeferredTickIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, everyThree)
		w.start()
		for range 4 {
			w.raise(in("q", on("tick", "m", "h", "b")))
		}
		w.raise(hookEvent("h", "e"))
		if n := len(w.later()); n != 2 {
			t.Errorf("%d tasks are deferred, want a tick and an event", n)
		}
		w.sleep(3 * time.Second)
		w.expectTold("0 h", "3 h  e")
		runs := w.runs()
		for _, run := range runs[2:4] {
			if run.Joined != runs[1].ID {
				t.Errorf("run %d joined %d, want %d", run.ID, run.Joined, runs[1].ID)
			}
		}
	})
}

func TestMemberOfAListIsDoneAtItsTurnAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, everyThree)
		w.lists("each", graph.Item{Subject: graph.Subject{Module: "m", Hook: "h"}}, graph.Item{Subject: graph.Subject{Module: "m", Hook: "h"}})
		w.start(on("go"))
		w.expectAt("0 each m/h", "0 each m/h")
		w.raise(hookEvent("h", "0"))
		w.expectTold()
		w.sleep(3 * time.Second)
		w.expectTold("3 h 0")
	})
}

func TestSingleTasksAreNoRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, workflow.RateLimit{NoBatch: true})
		open := w.gate("event m/other b")
		w.start(hookEvent("other", "x"), hookEvent("h", "0"), hookEvent("h", "1"))
		open(workflow.Outcome{}, nil)
		w.expectTold("0 other x", "0 h 0", "0 h 1")
	})
}

func TestEffectsEndAllTasksOfTheirBatchAlthoughTheHookNoLongerHasBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, limits := newLimited(t, workflow.RateLimit{})
		open := w.gate("event m/other b")
		w.set("event m/h b", returns(effects("of both")))
		failure := map[string]error{"of both": errors.New("503")}
		done := w.doEffects(failure)
		w.start(hookEvent("other", "x"), hookEvent("h", "0"), hookEvent("h", "1"))
		open(workflow.Outcome{}, nil)
		w.expectTold("0 other x", "0 h 0 1")
		w.locked(func() {
			limits["h"] = workflow.RateLimit{NoBatch: true}
			clear(failure)
		})
		w.sleep(5 * time.Second)
		w.expectTold() // the effects of the first attempt end both events
		if diff := cmp.Diff([]string{"of both", "of both"}, *done); diff != "" {
			t.Error(diff)
		}
		w.expectAllEnded()
	})
}

func TestNoCrashLosesDeferredEvents(t *testing.T) {
	t.Parallel()
	story := func(t *testing.T, n int) (crashed bool) {
		t.Helper()
		w, _ := newLimited(t, everyThree)
		w.mem.After = nil
		w.fragile = true
		observed := map[string]int{}
		w.set("event", func(_ context.Context, t workflow.Task) (workflow.Outcome, error) {
			out := workflow.Outcome{}
			for _, task := range t.Batch {
				out.Detail += string(task.Payload)
			}
			return out, nil
		})
		w.apply = func(tx *store.Tx, _ workflow.Task, out workflow.Outcome) ([]graph.Fact, error) {
			return nil, store.Save(tx, store.At(store.Values).Str(out.Detail), 1)
		}
		raise := func(what string) {
			for w.db.Update(func(tx *store.Tx) error { return w.e.Raise(tx, hookEvent("h", what), hookEvent("other", what)) }) != nil {
				crashed = true
				w.mem.Before = nil
				w.e.Stop()
				_ = w.db.Close()
				w.open()
				w.start()
			}
			w.sleep(700 * time.Millisecond)
		}
		w.start()
		left := n
		w.mem.Before = func(int) error {
			if left--; left <= 0 {
				return errKilled
			}
			return nil
		}
		for i := range 6 {
			raise(fmt.Sprint(i))
		}
		w.mem.Before = nil
		if w.db.Err() != nil {
			w.e.Stop()
			_ = w.db.Close()
			w.open()
			w.start()
		}
		w.sleep(time.Minute)
		w.view(func(tx *store.Tx) error {
			for k := range tx.Range(store.At(store.Values)) {
				for _, what := range []string{"0", "1", "2", "3", "4", "5"} {
					observed[what] += strings.Count(k.String(), `\"`+what+`\"`) + strings.Count(k.String(), `"`+what+`"`)
				}
			}
			return nil
		})
		var lost []string
		for i := range 6 {
			if observed[fmt.Sprint(i)] == 0 {
				lost = append(lost, fmt.Sprint(i))
			}
		}
		slices.Sort(lost)
		if len(lost) > 0 || len(w.later()) > 0 || len(w.pending("q")) > 0 {
			t.Errorf("crash at commit %d: lost %q, deferred %q, %d in the queue; observed %v", n, lost, w.later(), len(w.pending("q")), observed)
		}
		return crashed
	}
	for n := 1; n < 200; n++ {
		crashed := false
		synctest.Test(t, func(t *testing.T) { crashed = story(t, n) })
		if !crashed {
			if n < 12 {
				t.Errorf("the story makes only %d commits", n)
			}
			return
		}
	}
	t.Error("the story crashed in every run")
}

func TestWhatIsDueLaterComesByAClockThatHasJumped(t *testing.T) {
	for jump, within := range map[time.Duration]time.Duration{2 * time.Hour: 11 * time.Minute, -2 * time.Hour: 61 * time.Minute} {
		t.Run(jump.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := newLimited(t, workflow.RateLimit{Every: time.Hour, Burst: 1})
				begin := time.Now()
				w.clock = func() time.Time {
					if time.Since(begin) > 10*time.Minute {
						return time.Now().Add(jump)
					}
					return time.Now()
				}
				w.restart()
				w.start(event("h", "b", "1", false))
				w.expect("event m/h b")
				w.raise(event("h", "b", "2", false))
				w.sleep(9 * time.Minute)
				w.expect()
				w.sleep(within - 9*time.Minute)
				w.expect("event m/h b")
			})
		})
	}
}
