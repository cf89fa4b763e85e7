package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

func TestRunEndsBeforeWhatWaitsBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "other"}},
			graph.Edge{On: "go", To: "a", Place: graph.Tail}, graph.Edge{On: "later", To: "other", Place: graph.Tail},
			graph.Edge{From: "a", To: "b"}, graph.Edge{From: "a", To: "c"}, graph.Edge{From: "b", To: "c"})
		w := newFixture(t, g)
		w.start(on("go"), on("later"), on("go"))
		w.expect("a", "b", "c", "c", "other", "a", "b", "c", "c")
	})
}

// TestARunningItemThatHasChangedStartsAgain reloads all modules while a Synchronization is running. The fan-out of the
// reload must take over the running item, unless the item has changed.
func TestARunningItemThatHasChangedStartsAgain(t *testing.T) {
	for _, c := range []struct{ changed, wait bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("changed %t, wait %t", c.changed, c.wait), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, item := newSynchronizing(t, c.wait)
				step := name(string(lifecycle.ModuleSynchronization), item.Subject)
				open := w.gate(step)
				var applied []string
				w.apply = func(_ *store.Tx, _ workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
					if len(o.Data) > 0 {
						applied = append(applied, string(o.Data))
					}
					return nil, nil
				}
				w.start(on(lifecycle.OnStart))
				item.Changed = c.changed
				w.lists(lifecycle.ModuleSynchronization, item)
				w.set(step, returns(workflow.Outcome{Data: json.RawMessage(`"second"`)}))
				w.raise(on(lifecycle.OnReloadRequest))
				open(workflow.Outcome{Data: json.RawMessage(`"first"`)}, nil)
				want := []string{`"first"`}
				if c.changed {
					want = []string{`"second"`}
				}
				if diff := cmp.Diff(want, applied); diff != "" {
					t.Errorf("applied outcomes (-want +got):\n%s", diff)
				}
				w.expectAllEnded()
			})
		})
	}
}

func TestAnItemThatHasChangedStartsAgainAfterItsEffects(t *testing.T) {
	for _, changed := range []bool{false, true} {
		t.Run(fmt.Sprintf("changed %t", changed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, item := newSynchronizing(t, false)
				step := name(string(lifecycle.ModuleSynchronization), item.Subject)
				w.set(step, returns(effects("first")))
				errs := map[string]error{"first": errors.New("503")}
				done := w.doEffects(errs)
				w.start(on(lifecycle.OnStart))
				item.Changed = changed
				w.lists(lifecycle.ModuleSynchronization, item)
				w.set(step, returns(effects("second")))
				w.raise(on(lifecycle.OnReloadRequest))
				w.locked(func() { delete(errs, "first") })
				w.sleep(time.Minute)
				want := []string{"first", "first"}
				if changed {
					want = append(want, "second")
				}
				if diff := cmp.Diff(want, *done); diff != "" {
					t.Errorf("effects (-want +got):\n%s", diff)
				}
				w.expectAllEnded()
			})
		})
	}
}

// newSynchronizing returns a fixture with the module m. Each run of m has the returned item, a Synchronization in
// another queue. The argument wait says whether the runs wait for this item.
func newSynchronizing(t *testing.T, wait bool) (*fixture, graph.Item) {
	t.Helper()
	w := newLifecycle(t)
	w.discovers(modules("m"), nil, nil)
	item := graph.Item{Subject: graph.Subject{Module: "m", Hook: "h", Binding: "b"}, Queue: "q", Wait: wait}
	w.lists(lifecycle.ModuleSynchronization, item)
	w.reports("module-run m", lifecycle.JustEnabled)
	return w, item
}

func TestFrontGoesBetweenTwoStepsOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "a"}, {ID: "b"}, {ID: "urgent"}},
			graph.Edge{On: "go", To: "a", Place: graph.Tail}, graph.Edge{From: "a", To: "b"},
			graph.Edge{On: "now", To: "urgent", Place: graph.Front})
		w := newFixture(t, g)
		open := w.gate("a")
		w.start(on("go"))
		w.raise(on("now"), on("now"))
		w.expectPending("main", "urgent", "urgent", "a")
		open(workflow.Outcome{}, nil)
		w.expect("a", "urgent", "urgent", "b")
	})
}

func TestTaskPutAtTheTailDoesNotTakeThePlaceOfOneThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "a"}, {ID: "here"}, {ID: "behind"}, {ID: "before"}},
			graph.Edge{On: "go", To: "a", Place: graph.Tail}, graph.Edge{From: "a", To: "behind", Place: graph.Tail},
			graph.Edge{From: "a", To: "before", Place: graph.Front}, graph.Edge{From: "a", To: "here"})
		w := newFixture(t, g)
		w.start(on("go"))
		w.expect("a", "before", "here", "behind")
	})
}

func TestEmptyListKeepsItsPlaceUntilWhatFollowsHasOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "a"}, {ID: "empty", ForEach: "none"}, {ID: "here"}, {ID: "behind"}},
			graph.Edge{On: "go", To: "a", Place: graph.Tail}, graph.Edge{From: "a", To: "empty"},
			graph.Edge{From: "empty", To: "behind", Place: graph.Tail}, graph.Edge{From: "empty", To: "here"})
		w := newFixture(t, g)
		w.start(on("go"))
		w.expect("a", "here", "behind")
	})
}

func TestEdgesAreTakenByFactsThroughSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "a", Scope: graph.ScopeModule}, {ID: "signal", Junction: true}, {ID: "yes", Scope: graph.ScopeModule}, {ID: "no"}, {ID: "always"}},
			graph.Edge{On: "go", To: "a", Place: graph.Tail},
			graph.Edge{From: "a", To: "signal", When: "true"}, graph.Edge{From: "signal", To: "yes"},
			graph.Edge{From: "a", To: "no", Unless: "true"}, graph.Edge{From: "a", To: "always"})
		w := newFixture(t, g)
		w.reports("a x", "true")
		w.start(on("go", "x", "h"), on("go", "y"))
		w.expect("a x", "yes x", "always", "a y", "no", "always")
	})
}

// listGraph returns a graph in which the node n has the ID "each" and a fan-out. The node "next"
// follows n. If an item has reported the fact "fact", the node "found" follows, too.
func listGraph(n graph.Node) *graph.Graph {
	n.ID, n.ForEach = "each", "some"
	return newGraph([]graph.Node{n, {ID: "next"}, {ID: "found"}},
		graph.Edge{On: "go", To: "each", Place: graph.Tail}, graph.Edge{From: "each", To: "next"},
		graph.Edge{From: "each", To: "found", When: "fact"})
}

func TestListIsOneTaskWhoseFactsAreItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{}))
		w.lists("each", hooks("a", "b", "c")...)
		w.reports("each b", "fact")
		open := w.gate("each c")
		w.start(on("go"))
		w.expectPending("main", "each")
		open(workflow.Outcome{}, nil)
		w.expect("each a", "each b", "each c", "next", "found")
		if diff := cmp.Diff([]string{"done each a", "done each b", "done each c", "done next", "done found"}, w.history(1)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestEmptyListIsPassedThroughInTheSameMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "a"}, {ID: "empty", ForEach: "none"}, {ID: "void", ForEach: "none"}, {ID: "b"}},
			graph.Edge{On: "go", To: "a", Place: graph.Tail}, graph.Edge{From: "a", To: "empty"},
			graph.Edge{From: "empty", To: "void"}, graph.Edge{From: "void", To: "b"})
		w := newFixture(t, g)
		open := w.gate("a")
		w.gate("b")
		w.start(on("go"))
		before := w.mem.Commits()
		open(workflow.Outcome{}, nil)
		w.expect("a", "b")
		if n := w.mem.Commits() - before; n != 1 {
			t.Errorf("%d commits from a to b, want 1", n)
		}
	})
}

func TestMoveWritesTheSameForAThousandMembersAsForThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := func(node graph.Node, items int) int {
			w := newFixture(t, listGraph(node))
			w.mem.After = nil
			var names []string
			for i := range items {
				names = append(names, fmt.Sprintf("h%04d", i))
			}
			w.lists("each", hooks(names...)...)
			second := w.gate("each h0001")
			w.gate("each h0002")
			w.start(on("go"))
			return w.changed(func() { second(workflow.Outcome{Facts: []graph.Fact{"fact"}}, nil) })
		}
		few, many := keys(graph.Node{}, 3), keys(graph.Node{}, 1000)
		if few != many || many > 6 {
			t.Errorf("a transition writes %d keys with 3 items and %d with 1000; want the same number, at most 6", few, many)
		}
	})
}

func TestListIsWrittenOnceAndReadMemberByMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{}))
		w.lists("each", hooks("a", "b", "c")...)
		w.gate("each a")
		w.start(on("go"))
		var header string
		for k, v := range w.contents() {
			if strings.HasPrefix(k, "queues/") {
				header = v
			}
		}
		if strings.Contains(header, `"hook"`) {
			t.Errorf("the header holds items: %s", header)
		}
	})
}

func TestEdgeListRunsEachMemberToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "find"}, {ID: "run", Scope: graph.ScopeModule, Unique: true}, {ID: "ran", Scope: graph.ScopeModule}, {ID: "last"}},
			graph.Edge{On: "go", To: "find", Place: graph.Tail}, graph.Edge{On: "one", To: "run", Place: graph.Tail},
			graph.Edge{From: "find", To: "run", ForEach: "all"}, graph.Edge{From: "find", To: "last"}, graph.Edge{From: "run", To: "ran"})
		w := newFixture(t, g)
		open := w.gate("find")
		w.start(on("go"), on("one", "b"), on("one", "c"))
		open(workflow.Outcome{Items: map[graph.FanOut][]graph.Item{"all": modules("a", "b")}}, nil)
		w.expect("find", "run a", "ran a", "run b", "ran b", "last", "run c", "ran c")
		if got := w.runs()[1]; got.Joined != 1 {
			t.Errorf("the run of b that waited joined run %d, want 1", got.Joined)
		}
	})
}

func TestEdgePutsATaskForEachMemberAtTheTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "find"}, {ID: "run", Scope: graph.ScopeModule, Unique: true}, {ID: "other"}},
			graph.Edge{On: "go", To: "find", Place: graph.Tail}, graph.Edge{On: "more", To: "other", Place: graph.Tail},
			graph.Edge{On: "one", To: "run", Place: graph.Tail},
			graph.Edge{From: "find", To: "run", ForEach: "all", Place: graph.Tail})
		w := newFixture(t, g)
		w.set("find", returns(workflow.Outcome{Items: map[graph.FanOut][]graph.Item{"all": modules("a", "b")}}))
		w.start(on("go"), on("one", "b"), on("more"))
		w.expect("find", "run b", "other", "run a")
	})
}

func TestListWaitsForMembersInOtherQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{Scope: graph.ScopeBinding}))
		w.items["each"] = func(*store.Tx, workflow.Task) ([]graph.Item, error) {
			return []graph.Item{
				{Subject: graph.Subject{Hook: "far"}, Queue: "q1", Wait: true},
				{Subject: graph.Subject{Hook: "free"}, Queue: "q2"},
				{Subject: graph.Subject{Hook: "near"}},
				{Subject: graph.Subject{Hook: "far too"}, Queue: "q3", Wait: true},
				{Subject: graph.Subject{Hook: "home"}, Queue: "main", Wait: true},
			}, nil
		}
		far, tooFar, free := w.gate("each far"), w.gate("each far too"), w.gate("each free")
		w.start(on("go"))
		w.expectAny("each far", "each far too", "each free", "each home", "each near")
		tooFar(workflow.Outcome{}, nil)
		w.expect()
		before := w.mem.Commits()
		far(workflow.Outcome{Facts: []graph.Fact{"fact"}}, nil)
		if n := w.mem.Commits() - before; n != 3 {
			t.Errorf("%d commits for far, next and found, want 3", n)
		}
		w.expect("next", "found")
		free(workflow.Outcome{}, nil)
	})
}

func TestListWaitsForAllThatFollowsItsMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "find"}, {ID: "a"}, {ID: "b"}, {ID: "c", RetryFrom: "a"}, {ID: "last"}},
			graph.Edge{On: "go", To: "find", Place: graph.Tail}, graph.Edge{From: "find", To: "a", ForEach: "all"}, graph.Edge{From: "find", To: "last"},
			graph.Edge{From: "a", To: "b"}, graph.Edge{From: "a", To: "c"})
		w := newFixture(t, g)
		w.set("find", returns(workflow.Outcome{Items: map[graph.FanOut][]graph.Item{"all": {{Queue: "q", Wait: true}}}}))
		w.fails("c", 1)
		w.start(on("go"))
		w.sleep(time.Minute)
		w.expectAt("0 find", "0 a", "0 b", "0 c", "5 a", "5 b", "5 c", "5 last")
	})
}

func TestWaitingListDoesNotHoldUpTheFrontOrWriteWhenLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := listGraph(graph.Node{})
		g.Nodes = append(g.Nodes, graph.Node{ID: "urgent", Number: "9", Doc: "now"})
		g.Edges = append(g.Edges, graph.Edge{On: "now", To: "urgent", Place: graph.Front})
		g.Triggers["now"] = "now"
		w := newFixture(t, g)
		w.lists("each", graph.Item{Subject: graph.Subject{Hook: "far"}, Queue: "q", Wait: true})
		far := w.gate("each far")
		w.start(on("go"))
		w.raise(on("now"))
		w.expect("each far", "urgent")
		parent := w.pending("main")[0]
		w.raise(on("go"))
		if diff := cmp.Diff(parent, w.pending("main")[0]); diff != "" {
			t.Errorf("the waiting fan-out task has changed:\n%s", diff)
		}
		far(workflow.Outcome{}, nil)
		w.expect("next", "each far")
		far(workflow.Outcome{}, nil)
	})
}

func TestMemberThatWaitsOrRunsAlreadyIsTakenOverNotPutTwice(t *testing.T) {
	for _, state := range []string{"waits", "runs", "fails"} {
		t.Run(state, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := listGraph(graph.Node{Scope: graph.ScopeBinding, RetryFrom: "each"})
				g.Nodes = append(g.Nodes, graph.Node{ID: "block", Number: "9", Doc: "block"})
				g.Edges = append(g.Edges, graph.Edge{On: "hold", To: "block", Place: graph.BindingQueue})
				g.Triggers["hold"] = "hold"
				w := newFixture(t, g)
				w.lists("each", graph.Item{Subject: graph.Subject{Hook: "far"}, Queue: "q", Wait: true}, graph.Item{Subject: graph.Subject{Hook: "near"}})
				block, far := w.gate("block"), w.gate("each far")
				w.fails("each near", 1)
				if state == "waits" {
					w.start(in("q", on("hold")), on("go"))
				} else {
					w.start(on("go"))
				}
				if state == "fails" {
					w.sleep(time.Second)
					far(workflow.Outcome{}, errors.New("not yet"))
				}
				// After 5 s, the run of the fan-out task starts over and creates its items again.
				w.sleep(5 * time.Second)
				synctest.Wait()
				if n := len(w.pending("q")); n > 2 {
					t.Errorf("queue q holds %d tasks", n)
				}
				if state == "waits" {
					block(workflow.Outcome{}, nil)
				}
				if state == "fails" {
					w.sleep(time.Second)
				}
				far(workflow.Outcome{}, nil)
				var times int
				for _, what := range w.ran() {
					if what == "each far" {
						times++
					}
				}
				want := 1
				if state == "fails" {
					want = 2
				}
				if times != want {
					t.Errorf("far was begun %d times, want %d", times, want)
				}
				w.expectPending("main")
				w.expectPending("q")
			})
		})
	}
}

func TestListGoesOnWhenItsMemberIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{Scope: graph.ScopeBinding}))
		w.lists("each", graph.Item{Subject: graph.Subject{Hook: "far"}, Queue: "q", Wait: true})
		w.fails("each far", 100)
		w.start(on("go"))
		if err := w.e.Skip(w.pending("q")[0].ID, "me", "it hangs"); err != nil {
			t.Fatal(err)
		}
		w.expect("each far", "next")
	})
}

func TestStepIsToldOfItsListAndItsPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{}))
		w.bind(w.steps[0].Graph, "each", noting{step{w, "each"}})
		large := json.RawMessage(`"` + strings.Repeat("x", 700<<10) + `"`)
		w.start(workflow.Event{On: "go", Payload: large})
		notes := w.took()
		if len(notes) != 3 {
			t.Fatalf("%d steps ran", len(notes))
		}
		for i, n := range notes[:2] {
			if string(n.task.Payload) != string(large) {
				t.Errorf("item %d received a payload of %d bytes, want %d", i, len(n.task.Payload), len(large))
			}
			if got := string(n.task.FanOut.Note); got != `"written down"` {
				t.Errorf("item %d received the note %s", i, got)
			}
		}
		for k := range w.contents() {
			if strings.HasPrefix(k, "payloads/") {
				t.Errorf("%s is left", k)
			}
		}
	})
}

// A noting step stores the note "written down" with the fan-out that it creates.
type noting struct{ step }

func (noting) Items(*store.Tx, workflow.Task) ([]graph.Item, json.RawMessage, error) {
	return hooks("a", "b"), json.RawMessage(`"written down"`), nil
}

func TestPreparationComesBeforeTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{}))
		w.bind(w.steps[0].Graph, "each", preparing{step{w, "each"}})
		fail := true
		w.prepare = func(context.Context, workflow.Task) (workflow.Outcome, error) {
			if fail {
				fail = false
				return workflow.Outcome{}, errors.New("not yet")
			}
			return workflow.Outcome{Data: json.RawMessage(`["a"]`)}, nil
		}
		key := store.At(store.Values).Str("found")
		w.applyPrepared = func(tx *store.Tx, _ workflow.Task, out workflow.Outcome) error {
			tx.Put(key, out.Data)
			return nil
		}
		w.items["each"] = func(tx *store.Tx, _ workflow.Task) ([]graph.Item, error) {
			names, _, err := store.Load[[]string](tx, key)
			return hooks(names...), err
		}
		w.start(on("go"))
		w.sleep(5 * time.Second)
		w.expectAt("0 prepare each", "5 prepare each", "5 each a", "5 next")
	})
}

func TestWhatAListStepWroteBeforeItFailedIsTakenBack(t *testing.T) {
	for _, part := range []string{"Items", "End", "Items panics"} {
		t.Run(part, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, listGraph(graph.Node{}))
				tries := 0
				try := func(tx *store.Tx) error {
					tries++
					tx.Put(store.At(store.Values).Str("half"), []byte(`"written"`))
					if tries == 1 && strings.HasSuffix(part, "panics") {
						panic("no")
					}
					if tries == 1 {
						return errors.New("no")
					}
					return nil
				}
				w.items["each"] = func(tx *store.Tx, _ workflow.Task) ([]graph.Item, error) {
					if part == "End" {
						return hooks("a"), nil
					}
					return hooks("a"), try(tx)
				}
				w.end = func(tx *store.Tx, t workflow.Task, _ []graph.Fact) ([]graph.Fact, error) {
					if part == "End" {
						return nil, try(tx)
					}
					return nil, nil
				}
				w.start(on("go"))
				if _, written := w.contents()["values/half"]; written {
					t.Error("the writes of the failed step were committed")
				}
				if task := w.pending("main")[0]; task.Failed == nil || task.Failed.Count != 1 {
					t.Errorf("the fan-out has not failed exactly once: %+v", task)
				}
				w.sleep(5 * time.Second)
				w.expect("each a", "next")
				if _, written := w.contents()["values/half"]; !written {
					t.Error("the writes of the step are missing")
				}
			})
		})
	}
}

func TestRaisedListIsMadeByAMoveOfTheEngineItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{}))
		tries := 0
		w.items["each"] = func(*store.Tx, workflow.Task) ([]graph.Item, error) {
			if tries++; tries == 1 {
				return nil, errors.New("not yet")
			}
			return hooks("a"), nil
		}
		w.start()
		w.raise(on("go"))
		w.expect()
		w.sleep(5 * time.Second)
		w.expect("each a", "next")
	})
}

func TestTriggerIsTheEndOfAListOfManyThatOnlyStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{Scope: graph.ScopeBinding}))
		w.mem.After = nil
		var items []graph.Item
		for i := range 1000 {
			items = append(items, graph.Item{Subject: graph.Subject{Hook: fmt.Sprint(i)}, Queue: fmt.Sprint("q", i%7), Wait: true})
		}
		w.lists("each", items...)
		w.start(on("go"))
		if n := len(w.ran()); n != 1001 {
			t.Errorf("%d steps ran, want 1000 items and the next node", n)
		}
		if q := w.queues(); len(q) != 0 {
			t.Errorf("queues %q are left", q)
		}
	})
}

func TestTheStepBehindALongFanOutIsNotLost(t *testing.T) {
	for n := 250; n < 260; n++ { // because one transition tries the head of a queue at most mostStarts times
		t.Run(fmt.Sprint(n, " items"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, listGraph(graph.Node{Scope: graph.ScopeBinding}))
				var items []graph.Item
				for i := range n {
					items = append(items, graph.Item{Subject: graph.Subject{Hook: fmt.Sprint("h", i)}, Queue: "q"})
				}
				w.lists("each", items[0])
				open := w.gate("each h0")
				w.start(on("go"))
				w.expectAny("each h0", "next")
				w.lists("each", items...)
				w.raise(on("go"))
				w.expect("next") // while queue q is busy
				w.reports("each h0")
				open(workflow.Outcome{}, nil)
				w.expectAllEnded()
			})
		})
	}
}
