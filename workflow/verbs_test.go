package workflow_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

func TestTasksDueLaterAreRetriedAndSkippedByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "n", Scope: graph.ScopeModule}, {ID: "again", Scope: graph.ScopeModule}},
			graph.Edge{On: "go", To: "n", Place: graph.Tail}, graph.Edge{From: "n", To: "again"},
			graph.Edge{From: "again", To: "n", Loop: true, Place: graph.Tail})
		w := newFixture(t, g)
		var ids []store.ID
		w.looped = func(t store.Task) { ids = append(ids, t.ID) }
		w.start(on("go", "m"))
		if n := len(w.ran()); n != 6 || len(ids) != 1 {
			t.Fatalf("%d steps ran, %d tasks are deferred", n, len(ids))
		}
		if err := w.e.Retry(ids[0], "me", ""); err != nil {
			t.Fatal(err)
		}
		w.expect("n m", "again m")
		if err := w.e.Skip(ids[1], "me", "enough"); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Hour)
		w.expect()
		if run := w.runs()[0]; run.Open != 0 || run.Ended.IsZero() {
			t.Errorf("the run is %+v", run)
		}
		if err := w.e.Retry(ids[1], "me", ""); !errors.Is(err, workflow.ErrNoTask) {
			t.Errorf("retry of a skipped task: %v", err)
		}
	})
}

func TestRetryTriesAtOnceAndKeepsTheCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "n"}))
		w.fails("n", 3)
		w.start(on("go"))
		w.sleep(5 * time.Second)
		if err := w.e.Retry(w.pending("main")[0].ID, "me", ""); err != nil {
			t.Fatal(err)
		}
		w.sleep(20 * time.Second)
		w.expectAt("0 n", "5 n", "5 n", "25 n")
	})
}

func TestSkipSucceedsAndFindsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := chain(graph.Node{ID: "n"}, graph.Node{ID: "always"}, graph.Node{ID: "found"})
		g.Edges[2] = graph.Edge{From: "n", To: "found", When: "fact"}
		g.Facts["fact"] = "a fact"
		w := newFixture(t, g)
		w.fails("n", 100, "fact")
		applied := 0
		w.apply = func(*store.Tx, workflow.Task, workflow.Outcome) ([]graph.Fact, error) {
			applied++
			return nil, nil
		}
		w.start(on("go"))
		if err := w.e.Skip(w.pending("main")[0].ID, "ann", "known"); err != nil {
			t.Fatal(err)
		}
		w.expect("n", "always")
		if applied != 1 {
			t.Errorf("Apply was called %d times, want once, for the next node", applied)
		}
		r := w.records(1)[1]
		if r.State != store.Skipped || r.Detail != "skipped by ann: known" || r.Error != "n fails as the test requires" {
			t.Errorf("record %+v", r)
		}
	})
}

func TestSkipOfAFailingStepLetsItsRunGoOnWithoutTheStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, backGraph())
		w.lists("third", hooks("a", "b")...)
		w.fails("third a", 1)
		w.start(on("go"))
		w.expect("first", "second", "third a")
		w.skip("main", "ann", "known")
		w.expect("first", "second", "third b", "last")
		want := []string{
			"done first", "done second", "failed third a", "skipped third a", "done first", "done second", "done third b", "done last",
		}
		if diff := cmp.Diff(want, w.history(1)); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		if r := w.records(1)[3]; r.Detail != "skipped by ann: known" || r.Error != "third a fails as the test requires" {
			t.Errorf("record %+v", r)
		}
		w.expectAllEnded()
		w.raise(on("go"))
		w.expect("first", "second", "third a", "third b", "last")
	})
}

func TestARunGoesOnWithoutAllItsSkippedSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, backGraph())
		w.lists("third", hooks("a", "b", "c")...)
		w.fails("third a", 100)
		w.fails("third b", 100)
		w.fails("last", 2)
		w.start(on("go"))
		w.skip("main", "ann", "known")
		w.skip("main", "ann", "known")
		w.sleep(5 * time.Second)
		w.restart()
		w.start()
		w.sleep(10 * time.Second)
		w.expectAt(
			"0 first", "0 second", "0 third a", "0 first", "0 second", "0 third b", "0 first", "0 second", "0 third c", "0 last",
			"5 first", "5 second", "5 third c", "5 last", "15 first", "15 second", "15 third c", "15 last",
		)
		w.expectAllEnded()
	})
}

func TestARunThatStartsOverPassesOverACanceledAndSkippedStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, backGraph())
		w.lists("third", hooks("a", "b")...)
		w.gate("third a")
		w.fails("last", 1)
		w.start(on("go"))
		if err := w.e.Cancel(t.Context(), w.running("main")[0], workflow.Cancellation{By: "ann", Reason: "it hangs", Skip: true}); err != nil {
			t.Fatal(err)
		}
		w.sleep(5 * time.Second)
		w.expect("first", "second", "third a", "third b", "last", "first", "second", "third b", "last")
		w.expectAllEnded()
	})
}

func TestASkippedStepRunsAgainWhenItsRunReturnsToANodeWhereRunsBegin(t *testing.T) {
	for name, loop := range map[string]bool{"closing a loop": true, "by another edge": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := backGraph()
				g.Edges = append(g.Edges, graph.Edge{From: "last", To: "first", When: "changed", Loop: loop})
				g.Facts["changed"] = "a fact"
				w := newFixture(t, g)
				w.fails("second", 1)
				w.reports("last", "changed")
				w.start(on("go"))
				w.expect("first", "second")
				open := w.gate("last")
				w.skip("main", "ann", "known")
				w.expect("first", "last")
				open(workflow.Outcome{Facts: []graph.Fact{"changed"}}, nil)
				w.expect("first", "second", "last")
				open(workflow.Outcome{}, nil)
				w.expectAllEnded()
			})
		})
	}
}

func TestARequestThatJoinsARunNeedsItsSkippedSteps(t *testing.T) {
	for name, c := range map[string]struct{ running, failed bool }{ // when the request comes
		"no request":                         {},
		"while the run waits for its retry":  {failed: true},
		"while the run is past the step":     {running: true},
		"one before and one after a failure": {running: true, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				w.lists(lifecycle.ModuleBeforeHelm, graph.Item{Subject: graph.Subject{Module: "m", Hook: "h"}}, graph.Item{Subject: graph.Subject{Module: "m", Hook: "i"}})
				w.fails("module-beforehelm m/h", 1)
				open := w.gate("release-check m")
				w.start(on(lifecycle.OnResourcesAbsent, "m"))
				w.skip("main", "ann", "known")
				if c.running {
					w.raise(on(lifecycle.OnResourcesAbsent, "m"))
				}
				open(workflow.Outcome{}, errors.New("no answer"))
				w.expect("module-run m", "module-beforehelm m/h", "module-run m", "module-beforehelm m/i", "release-check m")
				if c.failed {
					w.raise(on(lifecycle.OnResourcesAbsent, "m"))
				}
				w.sleep(time.Minute)
				want := []string{"module-run m", "module-beforehelm m/i", "release-check m"}
				if c.running || c.failed {
					want = slices.Insert(want, 1, "module-beforehelm m/h")
				}
				w.expect(want...)
				open(workflow.Outcome{}, nil)
				w.expectAllEnded()
			})
		})
	}
}

func TestSkipOfTheTaskBelowAModuleSkipsOneModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(modules("a", "b", "c", "d"), nil, nil)
		w.fails("module-run a", 1)
		w.start(on(lifecycle.OnStart))
		w.took()
		below := slices.IndexFunc(w.pending("main"), func(p *store.Task) bool { return p.FanOut != nil && p.FanOut.Edge })
		if err := w.e.Skip(w.pending("main")[below].ID, "ann", "known"); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Minute)
		var runs []string
		for _, n := range w.took() {
			if strings.HasPrefix(n.what, "module-run") {
				runs = append(runs, n.what)
			}
		}
		if diff := cmp.Diff([]string{"module-run a", "module-run c", "module-run d"}, runs); diff != "" {
			t.Errorf("module runs (-want +got):\n%s", diff)
		}
		w.expectAllEnded()
	})
}

func TestADeletionGoesOnWithoutASkippedHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(nil, modules("m"), nil)
		w.lists(lifecycle.ModuleBeforeDelete, graph.Item{Subject: graph.Subject{Module: "m", Hook: "h"}})
		w.fails("module-beforedeletehelm m/h", 100)
		w.start(on(lifecycle.OnStart))
		w.expect("discover-modules", "module-delete m", "module-beforedeletehelm m/h")
		w.skip("main", "ann", "known")
		w.expect("module-delete m", "release-delete m")
		w.expectAllEnded()
	})
}

func TestSkipOfAListPassesOverTheMemberInFront(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{}))
		w.lists("each", hooks("a", "b")...)
		w.fails("each a", 100)
		w.start(on("go"))
		if err := w.e.Skip(w.pending("main")[0].ID, "ann", "known"); err != nil {
			t.Fatal(err)
		}
		w.expect("each a", "each b", "next")
		if diff := cmp.Diff([]string{"failed each a", "skipped each a", "done each b", "done next"}, w.history(1)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSkipOfAListThatCannotBeMadeGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{}))
		w.items["each"] = func(*store.Tx, workflow.Task) ([]graph.Item, error) { return nil, errors.New("no") }
		w.start(on("go"))
		if err := w.e.Skip(w.pending("main")[0].ID, "ann", "known"); err != nil {
			t.Fatal(err)
		}
		w.expect("next")
	})
}

func TestSkipDropsAJournalThatCannotBeCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "n"}, graph.Node{ID: "after"}))
		w.set("n", returns(effects("one")))
		w.doEffects(map[string]error{"one": errors.New("503")})
		w.start(on("go"))
		if err := w.e.Skip(w.pending("main")[0].ID, "ann", "known"); err != nil {
			t.Fatal(err)
		}
		w.expect("n", "after")
	})
}

func TestWhatRunsCanNeitherBeRetriedNorSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		block := w.gate("event m/block b")
		open := w.gate("event m/a x")
		w.start(event("block", "b", "0", false), event("a", "x", "1", false), event("a", "x", "2", false))
		block(workflow.Outcome{}, nil)
		w.raise(event("a", "x", "3", false))
		tasks := w.pending("q")
		for i, want := range []struct{ retry, skip error }{{workflow.ErrRuns, workflow.ErrRuns}, {workflow.ErrRuns, workflow.ErrRuns}, {workflow.ErrNotFailed, nil}} {
			if err := w.e.Retry(tasks[i].ID, "me", ""); !errors.Is(err, want.retry) {
				t.Errorf("retry of task %d: %v", i, err)
			}
			if err := w.e.Release(tasks[i].ID, "me", ""); !errors.Is(err, workflow.ErrNotQuarantined) {
				t.Errorf("release of task %d: %v", i, err)
			}
			if err := w.e.Skip(tasks[i].ID, "ann", "known"); !errors.Is(err, want.skip) {
				t.Errorf("skip of task %d: %v", i, err)
			}
		}
		if err := w.e.Skip(store.ID{Epoch: 7, N: 7}, "ann", "known"); !errors.Is(err, workflow.ErrNoTask) {
			t.Errorf("skip of an unknown task: %v", err)
		}
		open(workflow.Outcome{}, nil)
		w.expectRanges([]string{"0"}, []string{"1", "2"})
	})
}

func TestSkipOfAListThatOnlyWaitsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{}))
		w.lists("each", graph.Item{Subject: graph.Subject{Hook: "far"}, Queue: "q", Wait: true})
		w.set("each far", func(ctx context.Context, _ workflow.Task) (workflow.Outcome, error) {
			<-ctx.Done()
			return workflow.Outcome{}, ctx.Err()
		})
		w.start(on("go"))
		if err := w.e.Skip(w.pending("main")[0].ID, "ann", "known"); !errors.Is(err, workflow.ErrWaitsForItems) {
			t.Errorf("skip: %v", err)
		}
		if n := len(w.records(1)); n != 0 {
			t.Errorf("the refused skip left %d lines of history", n)
		}
	})
}

// skip skips the first task of queue, and waits until all goroutines are blocked.
func (w *fixture) skip(queue, by, reason string) {
	w.t.Helper()
	if err := w.e.Skip(w.pending(queue)[0].ID, by, reason); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// A skippable step records the names of its skipped tasks and items.
type skippable struct {
	step
	skipped *[]string
}

func (s skippable) Skipped(_ *store.Tx, t workflow.Task) error {
	*s.skipped = append(*s.skipped, name(t.Node, t.Subject))
	return nil
}

func TestAStepIsNotifiedOfEachSkippedSynchronization(t *testing.T) {
	const synchronization = "global-kubernetes-synchronization h a"
	for _, c := range []struct {
		state string
		enter func(w *fixture) store.ID
	}{
		{"failing", func(w *fixture) store.ID {
			w.fails(synchronization, 1)
			w.start(on(lifecycle.OnStart))
			return w.pending("q")[0].ID
		}},
		{"held", func(w *fixture) store.ID {
			w.start()
			w.pause(workflow.PauseTarget{Subject: graph.Subject{Hook: "h"}})
			w.raise(on(lifecycle.OnStart))
			return w.held()[0].ID
		}},
		{"in quarantine", func(w *fixture) store.ID {
			w.gate(synchronization)
			w.start(on(lifecycle.OnStart))
			w.crashThreeTimes()
			return w.expectQuarantined(synchronization)[0]
		}},
	} {
		t.Run(c.state, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				var skipped []string
				w.bind(lifecycle.Graph, lifecycle.GlobalSynchronization, skippable{step{w, lifecycle.GlobalSynchronization}, &skipped})
				w.e = w.engine()
				w.lists(lifecycle.GlobalSynchronization, bindings("h", "q", "a")...)
				id := c.enter(w)
				w.ran()
				if err := w.e.Skip(id, "ann", "known"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if diff := cmp.Diff([]string{synchronization}, skipped); diff != "" {
					t.Errorf("skips of which the step was notified (-want +got):\n%s", diff)
				}
				w.expectHeld()
				w.sleep(time.Hour)
				if ran := w.ran(); slices.Contains(ran, synchronization) {
					t.Errorf("the skipped Synchronization ran: %q", ran)
				}
			})
		})
	}
}

func TestSkipOfAHeldTaskReleasesTheTasksThatWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated(t)
		w.bind(w.steps[0].Graph, "event", readied{gated{step{w, "event"}}})
		w.e = w.engine()
		w.shut("h")
		w.start()
		w.raise(hookEvent("h", "1"), hookEvent("h", "2"))
		w.expectTold()
		if err := w.e.Skip(w.held()[0].ID, "ann", "known"); err != nil {
			t.Fatal(err)
		}
		w.expectTold("0 h 2")
		w.expectAllEnded()
	})
}

// A readied step opens the gate of a hook when a task of the hook is skipped.
type readied struct{ gated }

func (readied) Skipped(tx *store.Tx, t workflow.Task) error {
	tx.Delete(gateKey(t.Subject.Hook))
	return nil
}
