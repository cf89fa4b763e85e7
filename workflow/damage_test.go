package workflow_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// damagedRecord is the content of a damaged record. Neither damagedRecord nor a longer record that contains it can be
// decoded.
const damagedRecord = "{\"id\":\"1-\x00"

// damage overwrites the record under k with bytes that cannot be decoded. damage also calls unchecked.
func (w *fixture) damage(k store.Key) {
	w.t.Helper()
	w.unchecked()
	if err := w.db.Update(func(tx *store.Tx) error {
		if tx.Get(k) == nil {
			w.t.Errorf("there is no record %s", k)
		}
		tx.Put(k, []byte(damagedRecord))
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

// damaged returns the damaged records, and expects a problem for each.
func (w *fixture) damaged() (all []store.Damaged) {
	w.t.Helper()
	w.view(func(tx *store.Tx) error {
		for d, err := range store.AllDamaged(tx) {
			if err != nil {
				return err
			}
			all = append(all, d)
		}
		problems, err := store.AllProblems(tx)
		if len(problems) != len(all) {
			w.t.Errorf("%d damaged records, the problems are %+v", len(all), problems)
		}
		for _, d := range all {
			if !slices.ContainsFunc(problems, func(p store.Problem) bool {
				return p.Kind == store.DamagedRecord && p.Object == d.ID.String() && strings.Contains(p.Error, d.String())
			}) {
				w.t.Errorf("%s is not among the problems %+v", d, problems)
			}
		}
		return err
	})
	if len(all) > 0 {
		if err := w.db.Check(); err != nil {
			w.t.Error(err)
		}
	}
	return all
}

func TestASuccessIsKeptWhenTheNextTaskCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.reports("event m/a b", "fact")
		open := w.gate("event m/a b")
		w.start(event("a", "b", "1", false), event("lost", "b", "2", false), event("c", "b", "3", false))
		w.damage(w.pending("q")[1].Key())
		open(workflow.Outcome{}, nil)
		w.expect("event m/a b", "event m/c b")
		d := w.damaged()
		if len(d) != 1 || string(d[0].Value) != damagedRecord || !strings.Contains(d[0].String(), "of queue q") {
			t.Fatalf("damaged records: %+v", d)
		}
		w.expectAllEnded()
		if err := w.e.Skip(d[0].ID, "ann", "seen"); err != nil {
			t.Fatal(err)
		}
		if left := w.damaged(); len(left) != 0 {
			t.Errorf("damaged records after the skip: %+v", left)
		}
	})
}

func TestDeferredEventsWhoseBucketIsLostComeBeforeNewerOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, everyThree)
		w.start(hookEvent("h", "1"))
		w.raise(hookEvent("h", "2"))
		w.expectTold("0 h 1")
		w.damage(store.BucketKey(graph.Subject{Module: "m", Hook: "h"}))
		raise := func(tx *store.Tx) error { return w.e.Raise(tx, hookEvent("h", "3")) }
		if err := w.db.Update(raise); !workflow.Repairable(err) {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := w.db.Update(raise); err != nil { // as a trigger raises the event again
			t.Fatal(err)
		}
		w.sleep(3 * time.Second)
		w.expectTold("3 h 2 3")
		w.damaged()
		w.expectAllEnded()
	})
}

func TestAnEventThatIsLostDuringItsAttemptIsRemovedOnce(t *testing.T) {
	for what, allowed := range map[string]bool{"success": false, "allowed failure": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, eventGraph())
				open := w.gate("event m/h b")
				w.start(event("h", "b", "1", false), event("h", "b", "2", allowed), event("h", "b", "3", allowed))
				for _, lost := range w.pending("q")[1:] {
					w.damage(lost.Key())
					if err := w.e.Retry(lost.ID, "ann", ""); !errors.Is(err, workflow.ErrNoTask) { // reads the record
						t.Error(err)
					}
				}
				w.raise(event("g", "b", "4", false)) // gets the slot of a lost event
				if allowed {
					open(workflow.Outcome{}, errors.New("as the test requires"))
					w.sleep(5 * time.Second)
				}
				open(workflow.Outcome{}, nil)
				w.damaged()
				w.expectAllEnded()
			})
		})
	}
}

func TestAllQueuesContinueWhenThePauseOfAllWorkIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.start()
		if err := w.e.Pause("test", workflow.PauseTarget{}, "mia", "an incident"); err != nil {
			t.Fatal(err)
		}
		w.raise(event("a", "b", "1", false))
		w.expect()
		var pause store.Key
		w.view(func(tx *store.Tx) error {
			for pause = range tx.Range(store.At(store.Quarantine)) {
				break
			}
			return nil
		})
		w.damage(pause)
		other := in("other", event("c", "b", "2", false))
		if err := w.db.Update(func(tx *store.Tx) error { return w.e.Raise(tx, other) }); !workflow.Repairable(err) {
			t.Error(err)
		}
		w.expect("event m/a b")
		w.damaged()
		w.expectAllEnded()
	})
}

func TestTasksThatWaitForAnExclusiveTaskStartWhenItIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.gate("event n/a b")
		w.start(in("queue", on("event", "n", "a", "b")))
		w.crash()
		w.start()
		w.gate("event n/first b")
		w.raise(in("q", on("event", "n", "first", "b")))
		w.expectAny("event n/a b", "event n/first b")
		w.crash()
		first := w.gate("event n/first b")
		w.start()
		w.raise(in("behind", on("event", "n", "last", "b")))
		w.expect("event n/first b") // after two crashes, task a must run exclusively, so it waits; the task last waits for task a
		w.damage(w.pending("queue")[0].Key())
		first(workflow.Outcome{}, nil)
		w.expect("event n/last b")
		w.damaged()
		w.expectAllEnded()
	})
}

func TestADeferredEventAndTheBucketOfItsHookCanBeUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, everyThree)
		w.start(hookEvent("h", "1"))
		w.raise(hookEvent("h", "2"), hookEvent("h", "3"))
		var lost store.Key
		w.view(func(tx *store.Tx) error {
			for first, err := range store.DeferredTasks(tx) {
				lost = first.Key()
				return err
			}
			return nil
		})
		w.damage(lost)
		w.damage(store.BucketKey(graph.Subject{Module: "m", Hook: "h"}))
		w.e.RateLimitsChanged()
		w.sleep(3 * time.Second)
		w.expectTold("0 h 1", "3 h 3")
		if d := w.damaged(); len(d) != 2 {
			t.Errorf("damaged records: %+v", d)
		}
		w.expectAllEnded()
	})
}

func TestTheBucketsOfTwoHooksWithDeferredEventsCanBeUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, limits := newLimited(t, everyThree)
		limits["g"] = everyThree
		w.start(hookEvent("g", "1"), hookEvent("h", "1"))
		w.raise(hookEvent("g", "2"), hookEvent("h", "2"))
		w.expectTold("0 g 1", "0 h 1")
		for _, hook := range []string{"g", "h"} {
			w.damage(store.BucketKey(graph.Subject{Module: "m", Hook: hook}))
		}
		w.e.RateLimitsChanged()
		w.sleep(3 * time.Second)
		w.expectTold("3 g 2", "3 h 2")
		if d := w.damaged(); len(d) != 2 {
			t.Errorf("damaged records: %+v", d)
		}
		w.expectAllEnded()
	})
}

func TestTwoTransitionsCanRepairTheSameRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.gate("event m/a b")
		w.start(event("a", "b", "1", false), event("c", "b", "2", false))
		lost := w.pending("q")[1].Key()
		w.damage(lost)
		var unreadable error
		w.view(func(tx *store.Tx) error { _, _, unreadable = store.LoadAt(tx, lost); return nil })
		for _, want := range []bool{true, false} {
			if found, err := w.e.Repair(unreadable); found != want || err != nil {
				t.Errorf("found %t, want %t: %v", found, want, err)
			}
		}
		w.damaged()
	})
}

func TestHeldEventsWhoseLaneIsLostComeBeforeNewerOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated(t)
		first, last := w.gate("event m/first b"), w.gate("event m/last b")
		w.start(hookEvent("first", "0"), hookEvent("h", "1"), hookEvent("last", "0"), hookEvent("h", "2"))
		w.shut("h")
		first(workflow.Outcome{}, nil)
		w.expectTold("0 first 0", "0 last 0")
		var lane store.Key
		w.view(func(tx *store.Tx) error {
			for lane = range tx.Range(store.At(store.Lanes)) {
				break
			}
			return nil
		})
		w.damage(lane)
		w.raise(on("ready", "m"))
		w.expectTold("0")
		last(workflow.Outcome{}, nil)
		w.expectTold("0 h 1 2")
		w.damaged()
		w.expectAllEnded()
	})
}

func TestTheEventsOfABindingAreCountedAgainWhenTheirNumberIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.e.LowerSizes()
		open := w.gate("event m/h b")
		w.start(event("h", "b", "0", false))
		alone := seen("Modified", "d", 1)
		alone.NoBatch = true
		w.raise(seen("Modified", "a", 1), seen("Modified", "b", 1), seen("Modified", "c", 1), alone, seen("Modified", "o", 1))
		w.damage(store.BacklogKey(w.pending("q")[1], nil))
		open(workflow.Outcome{}, nil)
		open(workflow.Outcome{}, nil) // the number is needed at the end of a batch
		for _, ev := range []workflow.Event{seen("Modified", "o", 2), seen("Modified", "a", 2), seen("Modified", "b", 2), seen("Modified", "o", 3)} {
			w.raise(ev)
		}
		w.reports("event m/h b")
		open(workflow.Outcome{}, nil)
		w.sleep(time.Second)
		heard := slices.DeleteFunc(w.heard(), func(ev string) bool { return !strings.HasPrefix(ev, "Modified o") })
		if diff := cmp.Diff([]string{"Modified o 1", "Modified o 2", "Modified o 3"}, heard); diff != "" {
			t.Errorf("events of the object o (-want +got):\n%s", diff)
		}
		w.damaged()
		w.expectAllEnded()
	})
}

func TestTwoRecordsOfAnEventCanBeUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.e.LowerSizes()
		long := strconv.Quote(strings.Repeat("x", store.InlinePayload))
		open := w.gate("event m/first b")
		w.start(event("first", "b", "0", false))
		for range 6 {
			w.raise(about(event("h", "b", long, false), "o"))
		}
		lost := w.pending("q")[1]
		w.damage(store.BacklogKey(lost, nil))
		w.damage(store.At(store.Payloads).Uint(lost.ID.Epoch).Uint(lost.ID.N).Uint(0))
		open(workflow.Outcome{}, nil)
		if ran := w.ran(); len(ran) < 2 || ran[1] != "event m/h b" {
			t.Errorf("ran: %q", ran)
		}
		if d := w.damaged(); len(d) != 2 {
			t.Errorf("damaged records: %+v", d)
		}
		w.expectAllEnded()
	})
}

func TestAnUnreadableEventIsNotCountedWhenTheNumberOfItsBindingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.e.LowerSizes()
		open := w.gate("event m/h b")
		w.start(event("h", "b", "0", false))
		w.raise(seen("Modified", "a", 1), seen("Modified", "b", 1), seen("Modified", "c", 1), seen("Modified", "d", 1), seen("Modified", "o", 1))
		events := w.pending("q")
		w.damage(events[2].Key())
		w.damage(store.BacklogKey(events[2], nil))
		raise := func(tx *store.Tx) error { return w.e.Raise(tx, seen("Modified", "o", 2)) } // reads the number alone
		if err := w.db.Update(raise); !workflow.Repairable(err) {
			t.Fatal(err)
		}
		synctest.Wait()
		if d := w.damaged(); len(d) != 2 { // also checks the number
			t.Errorf("damaged records: %+v", d)
		}
		w.reports("event m/h b")
		open(workflow.Outcome{}, nil)
		w.expectAllEnded()
	})
}

func TestThePiecesOfAnUnreadableTaskAreDeleted(t *testing.T) {
	long := strconv.Quote(strings.Repeat("x", store.InlinePayload))
	for what, lose := range map[string]func(w *fixture) *store.Task{
		"a long payload": func(w *fixture) *store.Task {
			w.gate("event m/a b")
			w.start(event("a", "b", "1", false), event("lost", "b", long, false))
			return w.pending("q")[1]
		},
		"a journal": func(w *fixture) *store.Task {
			w.set("event m/lost b", returns(effects("of lost")))
			w.doEffects(map[string]error{"of lost": errors.New("503")})
			w.start(event("lost", "b", "1", false))
			return w.pending("q")[0]
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, eventGraph())
				lost := lose(w)
				w.damage(lost.Key())
				w.crash()
				w.set("event m/a b", nil)
				w.start()
				if d := w.damaged(); len(d) != 1 { // damaged also checks the store
					t.Errorf("damaged records: %+v", d)
				}
				w.expectAllEnded()
			})
		})
	}
}

func TestAnUnreadableTaskOfAnotherQueueBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.fails("event m/a b", 100)
		w.raise(event("a", "b", "1", false), in("a-queue", event("lost", "b", "2", false)), in("z-queue", event("c", "b", "3", false)))
		w.damage(w.pending("a-queue")[0].Key())
		w.start()
		w.expectAny("event m/a b", "event m/c b")
		if d := w.damaged(); len(d) != 1 {
			t.Errorf("damaged records: %+v", d)
		}
		// Skip and Retry of a task must work while another task cannot be read.
		open := w.gate("event m/block b")
		w.raise(in("b-queue", event("block", "b", "4", false)), in("b-queue", event("lost", "b", "5", false)))
		w.damage(w.pending("b-queue")[1].Key())
		failing := w.pending("q")[0].ID
		if err := w.e.Retry(failing, "me", ""); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if err := w.e.Skip(failing, "ann", "known"); err != nil {
			t.Error(err)
		}
		open(workflow.Outcome{}, nil)
		w.expectAny("event m/block b", "event m/a b")
		if d := w.damaged(); len(d) != 2 {
			t.Errorf("damaged records: %+v", d)
		}
		w.expectAllEnded()
	})
}

func TestATaskWhosePayloadIsLostIsDroppedWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		open := w.gate("event m/a b")
		w.start(event("a", "b", "1", false), event("large", "b", strings.Repeat("x", 5000), false), event("c", "b", "3", false))
		large := w.pending("q")[1].ID
		w.damage(store.At(store.Payloads).Uint(large.Epoch).Uint(large.N).Uint(0))
		open(workflow.Outcome{}, nil)
		w.expect("event m/a b", "event m/c b")
		w.damaged()
		if r := w.records(2); len(r) != 1 || r[0].State != store.Dropped || !strings.Contains(r[0].Error, "payloads/") {
			t.Errorf("history of the task: %+v", r)
		}
		w.expectAllEnded()
	})
}

func TestALostItemIsPassedOverAndTheOthersAreDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{}))
		w.lists("each", hooks("a", "b", "c", "d")...)
		open := w.gate("each a")
		w.start(on("go"))
		id := w.pending("main")[0].ID
		w.damage(store.At(store.Payloads).Uint(id.Epoch).Uint(id.N).Uint(1<<32 + 2))
		open(workflow.Outcome{}, nil)
		w.expect("each a", "each b", "each d", "next")
		w.damaged()
		w.expectAllEnded()
	})
}

func TestTheJournalOfALostItemIsNotThatOfAnotherItem(t *testing.T) {
	far := graph.Item{Subject: graph.Subject{Hook: "far"}, Queue: "q", Wait: true}
	for what, behind := range map[string][]string{"the last item": nil, "not the last item": {"b"}} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, listGraph(graph.Node{Scope: graph.ScopeBinding}))
				w.lists("each", append([]graph.Item{far}, hooks(append([]string{"a"}, behind...)...)...)...)
				var want []string
				for _, hook := range behind {
					want = append(want, "each "+hook)
				}
				open := w.gate("each far")
				w.set("each a", returns(effects("of a")))
				done := w.doEffects(map[string]error{"of a": errors.New("503")})
				w.start(on("go"))
				w.expectAny("each far", "each a")
				id := w.pending("main")[0].ID
				w.damage(store.At(store.Payloads).Uint(id.Epoch).Uint(id.N).Uint(1<<32 + 1))
				w.sleep(5 * time.Second)
				w.expect(want...)
				open(workflow.Outcome{}, nil)
				w.expect("next")
				if diff := cmp.Diff([]string{"of a"}, *done); diff != "" {
					t.Error(diff)
				}
				w.damaged()
				w.expectAllEnded()
			})
		})
	}
}

func TestAHookWhoseJournalIsLostRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.set("event m/a b", returns(effects("one")))
		errs := map[string]error{"one": errors.New("503")}
		done := w.doEffects(errs)
		w.start(event("a", "b", "1", false))
		w.damage(store.JournalKey(w.pending("q")[0].ID))
		w.locked(func() { delete(errs, "one") })
		w.sleep(5 * time.Second)
		w.expect("event m/a b", "event m/a b")
		if diff := cmp.Diff([]string{"one", "one"}, *done); diff != "" {
			t.Error(diff)
		}
		w.damaged()
		w.expectAllEnded()
	})
}

func TestFanOutTasksAndRunsAreCountedAgainWithoutTheUnreadableTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{Scope: graph.ScopeBinding}))
		w.lists("each", graph.Item{Subject: graph.Subject{Hook: "far"}, Queue: "q", Wait: true})
		w.gate("each far")
		w.start(on("go")) // the fan-out task waits for an item in queue q
		w.damage(w.pending("q")[0].Key())
		w.crash()
		w.unchecked()
		w.start()
		w.sleep(time.Second)
		w.damaged()
		w.expectPending("q")
		w.expectAllEnded()
	})
}

func TestAStartDoesNotDependOnTheRecordOfEarlierEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.gate("event m/a b")
		w.start(event("a", "b", "1", false))
		w.damage(store.EndsKey())
		w.crash()
		w.unchecked()
		w.reports("event m/a b")
		w.start()
		w.expect("event m/a b")
	})
}

func TestAnUnreadableRecordOfTheWholeStoreBlocksNoQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		open := w.gate("event m/first b")
		w.start(event("first", "b", "0", false), event("next", "b", "1", false))
		w.raise(in("other", event("third", "b", "2", false)))
		w.expectAny("event m/first b", "event m/third b")
		w.unchecked()
		if err := w.db.Update(func(tx *store.Tx) error { return store.Save(tx, store.ExclusiveKey(), store.Ref{}) }); err != nil {
			t.Fatal(err)
		}
		w.damage(store.ExclusiveKey())
		open(workflow.Outcome{}, nil)
		w.sleep(time.Minute)
		w.expect("event m/next b")
		if d := w.damaged(); len(d) != 1 {
			t.Errorf("damaged records: %+v", d)
		}
		w.expectAllEnded()
	})
}

func TestAStepThatReadsAnUnreadableRecordOfTheWholeStoreSucceedsAtItsNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		if err := w.db.Update(func(tx *store.Tx) error {
			return store.Save(tx, store.StartupKey(), store.Startup{StartRun: 1})
		}); err != nil {
			t.Fatal(err)
		}
		w.damage(store.StartupKey())
		w.set("event m/a b", func(context.Context, workflow.Task) (workflow.Outcome, error) {
			return workflow.Outcome{}, w.db.View(func(tx *store.Tx) error {
				_, _, err := store.Load[store.Startup](tx, store.StartupKey())
				return err
			})
		})
		w.start(event("a", "b", "0", false))
		w.sleep(time.Minute)
		w.expect("event m/a b", "event m/a b")
		if d := w.damaged(); len(d) != 1 {
			t.Errorf("damaged records: %+v", d)
		}
		w.expectAllEnded()
	})
}

func TestHeldTasksAreCountedAndDeliveredWhenOneOfThemCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated(t)
		w.shut("h")
		w.start()
		w.raise(hookEvent("h", "1"), hookEvent("h", "2"), hookEvent("h", "3"))
		w.expectTold()
		var second store.Key
		w.view(func(tx *store.Tx) error {
			n := 0
			for held := range store.AllHeldTasks(tx) {
				if n++; n == 2 {
					second = held.Key()
				}
			}
			return nil
		})
		w.damage(second)
		w.raise(on("ready", "m"))
		w.sleep(time.Minute)
		w.ran()
		if d := w.damaged(); len(d) != 1 {
			t.Errorf("damaged records: %+v", d)
		}
		w.view(func(tx *store.Tx) error {
			for l := range store.AllLanes(tx) {
				t.Errorf("%s still holds %d tasks", l, l.Tasks)
			}
			return nil
		})
		w.expectAllEnded()
	})
}

func TestADamagedIndexOfEventsIsRebuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		open := w.gate("event m/sync b")
		w.apply = func(_ *store.Tx, task workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
			if task.Subject.Hook != "sync" {
				return nil, nil
			}
			task.Withdraw(delivered("q", "m", "h", func(t *store.Task) bool { return string(t.Payload) == `"2"` }))
			return nil, nil
		}
		w.start(event("sync", "b", "0", false), about(event("h", "b", "1", false), "o"), about(event("h", "b", "2", false), "o"))
		w.unchecked()
		var index store.Key
		w.view(func(tx *store.Tx) error {
			for index = range tx.Range(store.At(store.Events)) {
				break
			}
			return nil
		})
		if err := w.db.Update(func(tx *store.Tx) error { tx.Put(index, w.pending("q")[0].Key()); return nil }); err != nil {
			t.Fatal(err)
		}
		w.took()
		open(workflow.Outcome{}, nil)
		w.expectRanges([]string{"1"})
		if d := w.damaged(); len(d) != 1 {
			t.Errorf("damaged records: %+v", d)
		}
		w.expectAllEnded()
	})
}

func TestReleaseOfAnUnreadableQuarantineRecordSetsItAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.gate("event m/h b")
		w.start(event("h", "b", "1", false))
		w.crashThreeTimes()
		id := w.expectQuarantined("event m/h b")[0]
		w.damage(store.QuarantineKey(id))
		if err := w.e.Release(id, "me", ""); !errors.Is(err, workflow.ErrNoTask) {
			t.Errorf("released with %v, want %v", err, workflow.ErrNoTask)
		}
		d := w.damaged()
		if len(d) != 1 || !bytes.Equal(d[0].Key, store.QuarantineKey(id)) {
			t.Errorf("damaged records: %+v", d)
		}
	})
}

func TestAnUnreadableModuleRecordIsMovedAwayAndTheStepThatReadsItRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		if err := w.db.Update(func(tx *store.Tx) error { return store.Save(tx, store.ModuleKey("m"), store.Module{Enabled: true}) }); err != nil {
			t.Fatal(err)
		}
		w.damage(store.ModuleKey("m"))
		w.set("event m/a b", func(context.Context, workflow.Task) (workflow.Outcome, error) {
			err := w.db.View(func(tx *store.Tx) error {
				_, _, err := store.Load[store.Module](tx, store.ModuleKey("m"))
				return err
			})
			return workflow.Outcome{}, err
		})
		w.raise(event("a", "b", "1", false))
		w.start()
		w.sleep(time.Minute)
		w.expect("event m/a b", "event m/a b")
		if d := w.damaged(); len(d) != 1 || d[0].String() != "record modules/m" {
			t.Errorf("damaged records: %+v", d)
		}
		w.expectAllEnded()
	})
}
