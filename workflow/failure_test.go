package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// chain returns a graph of nodes that follow each other. The trigger "go" leads to the first node
// of the chain.
func chain(nodes ...graph.Node) *graph.Graph {
	edges := []graph.Edge{{On: "go", To: nodes[0].ID, Place: graph.Tail}}
	for i := range nodes[1:] {
		edges = append(edges, graph.Edge{From: nodes[i].ID, To: nodes[i+1].ID})
	}
	return newGraph(nodes, edges...)
}

func TestFailuresAreWaitedOut(t *testing.T) {
	for _, c := range []struct {
		what string
		node graph.Node
		want []string
	}{
		{"5 10 20 30 30", graph.Node{ID: "n"}, []string{"0 n", "5 n", "15 n", "35 n", "65 n", "95 n", "125 n", "125 after"}},
		{"steadily", graph.Node{ID: "n", FixedDelay: true}, []string{"0 n", "5 n", "10 n", "15 n", "20 n", "25 n", "30 n", "30 after"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, chain(c.node, graph.Node{ID: "after"}))
				w.fails("n", 6)
				w.start(on("go"))
				w.sleep(10 * time.Minute)
				w.expectAt(c.want...)
			})
		})
	}
}

func TestAttemptIsToldHowTheLastOneEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "n"}))
		w.fails("n", 2)
		w.start(on("go"))
		w.sleep(time.Minute)
		type observed struct {
			Try      int
			Previous workflow.Previous
		}
		var got []observed
		for _, n := range w.took() {
			got = append(got, observed{n.task.Try, n.task.Previous})
			if !n.task.Due.IsZero() {
				t.Errorf("a running attempt has the due time %v", n.task.Due)
			}
		}
		if diff := cmp.Diff([]observed{{1, workflow.None}, {2, workflow.WasFailed}, {3, workflow.WasFailed}}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestInterruptedHookRunsAgainOnceAndIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{}))
		w.lists("each", hooks("a", "b", "c")...)
		w.fails("each b", 1)
		w.start(on("go"))
		w.gate("each b")
		w.sleep(5 * time.Second)
		w.expect("each a", "each b", "each b")
		w.restart()
		w.reports("each b")
		w.start()
		notes := w.took()
		if diff := cmp.Diff("each b", notes[0].what); diff != "" || len(notes) != 3 {
			t.Fatalf("%d steps ran: %s", len(notes), diff)
		}
		if task := notes[0].task; task.Try != 2 || task.Previous != workflow.Interrupted {
			t.Errorf("the interrupted hook received try %d, previous %s; want 2, interrupted", task.Try, task.Previous)
		}
		if task := notes[1].task; task.Try != 1 || task.Previous != workflow.None {
			t.Errorf("the next hook received try %d, previous %s; want 1, none", task.Try, task.Previous)
		}
		records := w.records(1)
		if r := records[2]; r.Subject.Hook != "b" || !r.Again || r.State != store.Done || r.Try != 2 {
			t.Errorf("the record of the repeated hook is %+v", r)
		}
	})
}

// backGraph returns a graph in which a run starts over at its first node after a failure.
func backGraph() *graph.Graph {
	return chain(graph.Node{ID: "first", Unique: true}, graph.Node{ID: "second", RetryFrom: "first"},
		graph.Node{ID: "third", RetryFrom: "first", ForEach: "some"}, graph.Node{ID: "last", RetryFrom: "first"})
}

func TestBackCarriesTheCountUntilTheFailedNodeSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, backGraph())
		w.lists("third", hooks("a", "b")...)
		w.fails("third b", 2)
		w.fails("last", 2)
		w.start(on("go"))
		w.sleep(time.Second)
		if task := w.pending("main")[0]; task.Node != "first" || !task.Waits || task.Failed == nil || task.Failed.Count != 1 ||
			task.Failed.Node != "third" || task.Failed.Subject.Hook != "b" || !strings.Contains(task.Failed.Error, "third b fails") {
			t.Errorf("the task after the first failure is %+v, its failure %+v", task, task.Failed)
		}
		w.sleep(5 * time.Minute)
		run := []string{"first", "second", "third a", "third b"}
		var want []string
		for _, times := range []struct {
			at   string
			last bool
		}{{"0", false}, {"5", false}, {"15", true}, {"20", true}, {"30", true}} {
			for _, what := range run {
				want = append(want, times.at+" "+what)
			}
			if times.last {
				want = append(want, times.at+" last")
			}
		}
		w.expectAt(want...)
	})
}

func TestEachStepOfARunHasItsOwnFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, backGraph())
		w.lists("third", hooks("a", "b")...)
		w.fails("third b", 5)
		w.start(on("go"))
		w.sleep(time.Minute)
		w.took()
		w.fails("third a", 1)
		w.sleep(6 * time.Second)
		f := w.pending("main")[0].Failed
		if f == nil || f.Subject.Hook != "a" || f.Count != 1 || !f.Since.Equal(w.begun.Add(65*time.Second)) {
			t.Errorf("the failure of the first hook is %+v", f)
		} else if b := f.Before; b == nil || b.Subject.Hook != "b" || b.Count != 4 || !b.Since.Equal(w.begun) {
			t.Errorf("the failure of the second hook is %+v", b)
		}
		w.sleep(time.Minute)
		var got []string
		for _, n := range w.took() {
			if n.task.Node == "third" {
				got = append(got, fmt.Sprintf("%v %s attempt %d, previous %s", n.at.Seconds(), n.what, n.task.Try, n.task.Previous))
			}
		}
		want := []string{
			"65 third a attempt 1, previous none",
			"95 third a attempt 2, previous failed", "95 third b attempt 5, previous failed",
			"125 third a attempt 1, previous none", "125 third b attempt 6, previous failed",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("attempts of the hooks (-want +got):\n%s", diff)
		}
		w.expectAllEnded()
	})
}

func TestRunThatWaitsAtItsFirstNodeTakesInAnEqualOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, backGraph())
		w.fails("second", 1)
		w.start(on("go"))
		w.raise(on("go"))
		w.expectPending("main", "first")
		w.sleep(time.Minute)
		w.expectAt("0 first", "0 second", "5 first", "5 second", "5 last")
	})
}

func TestFailedMemberInAnotherQueueDoesNotStartTheRunOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, backGraph())
		w.lists("third", graph.Item{Subject: graph.Subject{Hook: "far"}, Queue: "q", Wait: true})
		w.fails("third far", 1)
		w.start(on("go"))
		w.sleep(time.Minute)
		w.expectAt("0 first", "0 second", "0 third far", "5 third far", "5 last")
	})
}

func TestLongErrorIsCutBetweenCharacters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{}))
		w.lists("each", graph.Item{Subject: graph.Subject{Hook: "a"}, AllowFailure: true})
		w.set("each a", func(context.Context, workflow.Task) (workflow.Outcome, error) {
			return workflow.Outcome{}, errors.New("begin " + strings.Repeat("世", 5000) + " end")
		})
		w.start(on("go"))
		w.expect("each a", "next")
		if kept := w.records(1)[0].Error; len(kept) > 5000 || !strings.HasPrefix(kept, "begin 世") ||
			!strings.HasSuffix(kept, "世 end") || strings.ContainsRune(kept, '\uFFFD') || !utf8.ValidString(kept) {
			t.Errorf("%d bytes are kept: %q", len(kept), kept)
		}
	})
}

func TestAllowedFailureEndsAsSuccessAndIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{}))
		w.lists("each", graph.Item{Subject: graph.Subject{Hook: "a"}, AllowFailure: true})
		w.fails("each a", 1)
		var allowed []string
		w.apply = func(tx *store.Tx, t workflow.Task, out workflow.Outcome) ([]graph.Fact, error) {
			if t.Node == "each" {
				allowed = append(allowed, out.Allowed)
			}
			return nil, nil
		}
		w.start(on("go"))
		w.expect("each a", "next")
		if diff := cmp.Diff([]string{"each a fails as the test requires"}, allowed); diff != "" {
			t.Error(diff)
		}
		if r := w.records(1)[0]; r.State != store.Allowed || r.Error != "each a fails as the test requires" || r.Try != 1 {
			t.Errorf("record %+v", r)
		}
	})
}

func TestApplyThatRefusesAnAllowedFailureMakesItAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{}))
		w.lists("each", graph.Item{Subject: graph.Subject{Hook: "a"}, AllowFailure: true})
		w.fails("each a", 1)
		w.apply = func(tx *store.Tx, t workflow.Task, out workflow.Outcome) ([]graph.Fact, error) {
			if out.Allowed != "" {
				tx.Put(store.At(store.Values).Str("half"), []byte(`"written"`))
				return nil, errors.New("cannot count")
			}
			return nil, nil
		}
		w.start(on("go"))
		if _, written := w.contents()["values/half"]; written {
			t.Error("the writes of the failed Apply were committed")
		}
		if f := w.pending("main")[0].Failed; f == nil || !strings.Contains(f.Error, "cannot count") {
			t.Errorf("failure %+v", f)
		}
		w.sleep(time.Minute)
		w.expectAt("0 each a", "5 each a", "5 next")
	})
}

func TestApplyThatFailsIsAFailedAttemptAndWritesNothing(t *testing.T) {
	for _, how := range []string{"error", "panic", "too much"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, chain(graph.Node{ID: "n"}, graph.Node{ID: "after"}))
				tries := 0
				w.apply = func(tx *store.Tx, t workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
					tx.Put(store.At(store.Values).Str(t.Node), []byte(`"written"`))
					if tries++; tries > 1 {
						return nil, nil
					}
					switch how {
					case "panic":
						panic("no")
					case "too much":
						tx.Put(store.At(store.Values).Str("big"), make([]byte, 17<<20))
						return nil, nil
					}
					return nil, errors.New("no")
				}
				w.start(on("go"))
				if _, written := w.contents()["values/n"]; written {
					t.Error("the writes of the failed Apply were committed")
				}
				w.sleep(time.Minute)
				w.expectAt("0 n", "5 n", "5 after")
				if diff := cmp.Diff([]string{"failed n", "done n", "done after"}, w.history(1)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestPanicOfAStepIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "n"}))
		w.set("n", func(context.Context, workflow.Task) (workflow.Outcome, error) { panic("out of luck") })
		w.start(on("go"))
		if f := w.pending("main")[0].Failed; f == nil || !strings.Contains(f.Error, "out of luck") {
			t.Errorf("failure %+v", f)
		}
	})
}

func TestLongErrorsKeepTheirBeginningAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "n"}))
		w.set("n", func(context.Context, workflow.Task) (workflow.Outcome, error) {
			return workflow.Outcome{}, errors.New("beginning" + strings.Repeat(".", 1<<20) + "end")
		})
		w.start(on("go"))
		got := w.pending("main")[0].Failed.Error
		if len(got) > 5000 || !strings.HasPrefix(got, "beginning") || !strings.HasSuffix(got, "end") {
			t.Errorf("%d bytes are kept: %.20s", len(got), got)
		}
	})
}

func TestFullDiskIsWaitedOutAndIsNoQueueThatStandsStill(t *testing.T) {
	for _, c := range []struct {
		what   string
		before func(w *fixture)
	}{
		{"at the end of a task", func(w *fixture) {}},
		{"when an alarm goes off", func(w *fixture) { w.fails("n", 1) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, chain(graph.Node{ID: "n"}, graph.Node{ID: "after"}))
				w.fragile = true
				c.before(w)
				open := func(workflow.Outcome, error) {}
				if c.what == "at the end of a task" {
					open = w.gate("n")
				}
				var full atomic.Int64
				w.mem.Before = func(int) error {
					if full.Add(-1) >= 0 {
						return store.ErrFull
					}
					return nil
				}
				w.start(on("go"))
				full.Store(3)
				open(workflow.Outcome{}, nil)
				w.sleep(time.Minute)
				ran := w.ran()
				if ran[len(ran)-1] != "after" {
					t.Errorf("ran %q", ran)
				}
				if full.Load() >= 0 || len(w.broken) != 0 {
					t.Errorf("%d attempts to commit are missing; errors of queues: %v", full.Load(), w.broken)
				}
				w.expectPending("main")
			})
		})
	}
}

func TestFarDueTimeOfAClockThatWasWrongIsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "n"}))
		w.fails("n", 1)
		w.start(on("go"))
		w.e.Stop()
		if err := w.db.Update(func(tx *store.Tx) error {
			for task, err := range store.Tasks(tx, "main") {
				if err != nil {
					return err
				}
				task.Due = tx.Now().Add(time.Hour)
				return store.SaveTask(tx, task)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		w.restart()
		w.start()
		w.expect("n", "n")
	})
}

func TestAlarmThatWentOffIsForgottenThoughTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		w := newFixture(t, chain(graph.Node{ID: "n"}))
		w.close()
		w.mem.After = nil
		var err error
		if w.db, err = store.OpenMemory(w.mem, store.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(-back.Load())) }}); err != nil {
			t.Fatal(err)
		}
		w.e = w.engine()
		w.fails("n", 1)
		w.start(on("go"))
		back.Store(int64(4 * time.Second))
		w.sleep(5 * time.Second)
		w.expectAt("0 n")
		w.sleep(4 * time.Second)
		w.expectAt("9 n")
	})
}
