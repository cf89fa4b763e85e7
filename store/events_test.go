package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/workflow/graph"
)

// anEvent returns an event of a binding of the hook m/h in queue q.
func anEvent(n uint64, binding string) *Task {
	return &Task{
		ID: ID{Epoch: 1, N: n}, Graph: "g", Node: "event", Subject: graph.Subject{Module: "m", Hook: "h", Binding: binding}, Run: 1,
		Pos: Pos{Queue: "q", Slot: FirstSlot + n}, Object: &ObjectRef{Event: "Added", Name: fmt.Sprint("o", n)},
	}
}

// events returns the numbers of the events of the hook m/h in queue q, in the order in which
// EventsOf yields them.
func events(t *testing.T, db *DB) (found []uint64) {
	t.Helper()
	if err := db.View(func(tx *Tx) error {
		for e, err := range EventsOf(tx, "q", graph.Subject{Module: "m", Hook: "h"}) {
			if err != nil {
				return err
			}
			found = append(found, e.ID.N)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestEventsOfAHookAreFoundWhereverTheyWait(t *testing.T) {
	t.Parallel()
	db, err := OpenMemory(new(Memory), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	update := func(fn func(tx *Tx) error) {
		t.Helper()
		if err := db.Update(fn); err != nil {
			t.Fatal(err)
		}
		if err := db.Check(); err != nil {
			t.Fatal(err)
		}
	}
	first, second := anEvent(1, "b"), anEvent(2, "a")
	other, tick := anEvent(3, "b"), anEvent(4, "b")
	other.Subject.Hook, tick.Object = "other", nil
	update(func(tx *Tx) error {
		for _, e := range []*Task{first, second, other, tick} {
			if err := SaveTask(tx, e); err != nil {
				return err
			}
		}
		return Save(tx, RunKey(1), Run{ID: 1, Open: 4})
	})
	if diff := cmp.Diff([]uint64{2, 1}, events(t, db)); diff != "" {
		t.Error(diff)
	}
	update(func(tx *Tx) error {
		tx.Delete(first.Key())
		first.Slot, first.Due = 0, tx.Now()
		return SaveOutOfQueue(tx, first)
	})
	if diff := cmp.Diff([]uint64{2, 1}, events(t, db)); diff != "" {
		t.Errorf("with one that is due later: %s", diff)
	}
	update(func(tx *Tx) error {
		if n := CountEvents(tx, first); n != 1 {
			t.Errorf("the binding has %d events", n)
		}
		DropTask(tx, second)
		return Save(tx, RunKey(1), Run{ID: 1, Open: 3})
	})
	if diff := cmp.Diff([]uint64{1}, events(t, db)); diff != "" {
		t.Errorf("after the other was dropped: %s", diff)
	}
}

func TestAStoreOfAnOlderVersionGetsTheIndexOfEvents(t *testing.T) {
	t.Parallel()
	const pending = 12_000 // more events than one transaction indexes
	mem := new(Memory)
	db, err := OpenMemory(mem, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var want []uint64
	for n := uint64(1); n <= pending; n += 2000 {
		if err := db.Update(func(tx *Tx) error {
			for i := n; i < n+2000; i++ {
				want = append(want, i)
				if err := SaveTask(tx, anEvent(i, "b")); err != nil {
					return err
				}
			}
			return Save(tx, RunKey(1), Run{ID: 1, Open: len(want)})
		}); err != nil {
			t.Fatal(err)
		}
	}
	for more := true; more; {
		if err := db.Update(func(tx *Tx) error {
			more = false
			for k := range tx.Range(At(Events)) {
				if more = tx.Spent(); more {
					return nil
				}
				tx.Delete(k)
			}
			// An interrupted upgrade has left an index record whose event does not exist any more.
			tx.Put(eventKey(anEvent(pending+1, "b")), anEvent(pending+1, "b").Key())
			return Save(tx, schemaKey(), 2)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	commits := mem.Commits()
	if db, err = OpenMemory(mem, Options{}); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if got := events(t, db); !slices.Equal(got, want) {
		t.Errorf("%d of %d events are in the index", len(got), pending)
	}
	if err := db.Check(); err != nil {
		t.Error(err)
	}
	if n := mem.Commits() - commits; n < 3 {
		t.Errorf("the index was made in %d commits", n)
	}
}

func TestQueuedEventsAreGroupedByBinding(t *testing.T) {
	t.Parallel()
	db, err := OpenMemory(new(Memory), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var groups []BindingEvents
	if err := db.Update(func(tx *Tx) error {
		for n := range uint64(5) {
			e := anEvent(n+1, []string{"a", "b"}[n%2])
			if n == 4 {
				e.Queue = "other"
			}
			if err := SaveTask(tx, e); err != nil {
				return err
			}
		}
		deferred := anEvent(9, "a")
		deferred.Slot = 0
		return SaveOutOfQueue(tx, deferred)
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *Tx) error {
		for group, err := range QueuedEvents(tx, "q") {
			if err != nil {
				return err
			}
			groups = append(groups, group)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	of := func(binding string, first, last uint64) BindingEvents {
		return BindingEvents{
			Subject: graph.Subject{Module: "m", Hook: "h", Binding: binding}, Count: 2, First: anEvent(first, binding).Key(), Last: anEvent(last, binding).Key(),
		}
	}
	if diff := cmp.Diff([]BindingEvents{of("a", 1, 3), of("b", 2, 4)}, groups); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// eventStore returns a store that has, for each of the numbers, an event with this number. All of them are events of
// binding b in queue q.
func eventStore(t *testing.T, numbers ...uint64) *DB {
	t.Helper()
	db := opened(t, new(Memory))
	if err := db.Update(func(tx *Tx) error {
		for _, n := range numbers {
			if err := SaveTask(tx, anEvent(n, "b")); err != nil {
				return err
			}
		}
		return Save(tx, RunKey(1), Run{ID: 1, Open: len(numbers)})
	}); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestEventsBehindAPositionAreCountedWithTheNewest(t *testing.T) {
	t.Parallel()
	db := eventStore(t, 1, 2, 3, 4)
	if err := db.Update(func(tx *Tx) error {
		others := []*Task{anEvent(11, "a"), anEvent(12, "b"), anEvent(13, "b"), anEvent(14, "b")}
		others[1].Node, others[2].Queue, others[3].Subject.Hook = "other", "other", "other"
		deferred := anEvent(15, "b")
		deferred.Slot = 0
		for _, e := range others {
			if err := SaveTask(tx, e); err != nil {
				return err
			}
		}
		return SaveOutOfQueue(tx, deferred)
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *Tx) error {
		for behind, want := range map[uint64][2]uint64{0: {4, 4}, 1: {3, 4}, 3: {1, 4}, 4: {0, 0}, 99: {0, 0}} {
			n, newest, err := EventsBehind(tx, anEvent(1, "b"), anEvent(behind, "b").Key())
			if err != nil || uint64(n) != want[0] || (newest == nil) != (n == 0) || newest != nil && newest.ID.N != want[1] { //nolint:gosec // it is small
				t.Errorf("behind event %d: %d events, the newest is %+v, %v", behind, n, newest, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAnIndexRecordThatLeadsToNoEventIsUnreadable(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*Tx){
		"the event is gone":              func(tx *Tx) { tx.Delete(anEvent(1, "b").Key()) },
		"it leads to another event":      func(tx *Tx) { tx.Put(eventKey(anEvent(1, "b")), anEvent(2, "b").Key()) },
		"it leads to a record of a task": func(tx *Tx) { tx.Put(eventKey(anEvent(1, "b")), JournalKey(ID{Epoch: 1, N: 1})) },
		"the task is no event": func(tx *Tx) {
			tick := anEvent(1, "b")
			tick.Object = nil
			_ = SaveTask(tx, tick) // the header can be encoded
		},
	} {
		db := eventStore(t, 1, 2)
		if err := db.Update(func(tx *Tx) error { damage(tx); return nil }); err != nil {
			t.Fatal(err)
		}
		var found []uint64
		var unreadable []string
		if err := db.View(func(tx *Tx) error {
			for e, err := range EventsOf(tx, "q", graph.Subject{Module: "m", Hook: "h"}) {
				if record := (*RecordError)(nil); errors.As(err, &record) {
					unreadable = append(unreadable, record.Key.String())
					continue
				}
				found = append(found, e.ID.N)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(found, []uint64{2}) || !slices.Equal(unreadable, []string{"events/q/m/h/b/g/event/1/1"}) {
			t.Errorf("%s: events %v are found, unreadable are %v", name, found, unreadable)
		}
	}
}

func TestAnEventWhoseHeaderCannotBeReadIsUnreadable(t *testing.T) {
	t.Parallel()
	db := eventStore(t, 1, 2)
	if err := db.Update(func(tx *Tx) error { tx.Put(anEvent(2, "b").Key(), []byte("7")); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *Tx) error {
		var errs []error
		for e, err := range EventsOf(tx, "q", graph.Subject{Module: "m", Hook: "h"}) {
			if (e == nil) != (err != nil) {
				t.Errorf("%+v, %v", e, err)
			}
			errs = append(errs, err)
		}
		record := (*RecordError)(nil)
		if len(errs) != 2 || errs[0] != nil || !errors.As(errs[1], &record) || record.Key.String() != anEvent(2, "b").Key().String() {
			t.Errorf("the events are %v", errs)
		}
		n, newest, err := EventsBehind(tx, anEvent(1, "b"), anEvent(1, "b").Key())
		if n != 1 || newest != nil || !errors.Is(err, ErrCorrupt) {
			t.Errorf("behind the first: %d events, %+v, %v", n, newest, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestTheIndexOfEventsIsRepaired(t *testing.T) {
	t.Parallel()
	db := eventStore(t, 1, 2, 3)
	held, deferred := anEvent(4, "b"), anEvent(5, "b")
	held.Lane, held.Slot, deferred.Slot = Reactions, 0, 0
	if err := db.Update(func(tx *Tx) error {
		if err := errors.Join(SaveOutOfQueue(tx, held), SaveLane(tx, Lane{LaneKey: held.LaneKey(), Tasks: 1}), SaveOutOfQueue(tx, deferred),
			Save(tx, RunKey(1), Run{ID: 1, Open: 5})); err != nil {
			return err
		}
		tx.Delete(eventKey(anEvent(1, "b")))
		tx.Put(eventKey(anEvent(2, "b")), anEvent(3, "b").Key())
		tx.Put(eventKey(anEvent(9, "b")), anEvent(9, "b").Key())
		tx.Delete(eventKey(held))
		tx.Delete(eventKey(deferred))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Check(); err == nil {
		t.Error("Check finds nothing before the repair")
	}
	if err := db.Update(ReindexEvents); err != nil {
		t.Fatal(err)
	}
	if err := db.Check(); err != nil {
		t.Error(err)
	}
	if got := events(t, db); !slices.Equal(got, []uint64{1, 2, 3, 4, 5}) {
		t.Errorf("events %v are found", got)
	}
}

func TestTheIndexOfEventsIsNotRepairedFromAnUnreadableHeader(t *testing.T) {
	t.Parallel()
	db := eventStore(t, 1, 2)
	if err := db.Update(func(tx *Tx) error { tx.Put(anEvent(1, "b").Key(), []byte("7")); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(ReindexEvents); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
	if n := countIn(t, db, Events); n != 2 {
		t.Errorf("%d index records are left by the failed repair", n)
	}
}

// countIn returns the number of records of a table.
func countIn(t *testing.T, db *DB, table Table) (n int) {
	t.Helper()
	if err := db.View(func(tx *Tx) error {
		for range tx.Range(At(table)) {
			n++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestCheckComparesEventsWithTheirIndexAndBacklog(t *testing.T) {
	t.Parallel()
	first, other := anEvent(1, "b"), anEvent(9, "b")
	for want, damage := range map[string]func(*Tx) error{
		"": func(tx *Tx) error {
			return errors.Join(Save(tx, BacklogKey(first, nil), 3), Save(tx, BacklogKey(first, first.Object), NewestEvent{ID: first.ID, Key: first.Key()}))
		},
		"event 1-1 has no record in table events": func(tx *Tx) error { tx.Delete(eventKey(first)); return nil },
		"events/q/m/h/b/g/event/1/9 leads to no event": func(tx *Tx) error {
			tx.Put(eventKey(other), other.Key())
			return nil
		},
		"table events has 1 more records than there are events": func(tx *Tx) error {
			tx.Put(eventKey(other), first.Key())
			return nil
		},
		"backlogs/q/g/event/m/h/b/ counts 2 events, there are 3": func(tx *Tx) error { return Save(tx, BacklogKey(first, nil), 2) },
		"backlogs/q/g/event/m/h/b/ /o1 leads to no event of the object": func(tx *Tx) error {
			return Save(tx, BacklogKey(first, first.Object), NewestEvent{ID: first.ID, Key: anEvent(2, "b").Key()})
		},
		"backlogs/q/g/event/m/h/b/Pod n/o leads to no event of the object": func(tx *Tx) error {
			return Save(tx, BacklogKey(first, &ObjectRef{Kind: "Pod", Namespace: "n", Name: "o"}), NewestEvent{ID: first.ID, Key: first.Key()})
		},
		"record backlogs/q/g/event/m/h/b/ cannot be read": func(tx *Tx) error { return Save(tx, BacklogKey(first, nil), "three") },
		"the key does not have the requested part":        func(tx *Tx) error { return Save(tx, At(Backlogs).Str("q"), 1) },
	} {
		db := eventStore(t, 1, 2, 3)
		if err := db.Update(damage); err != nil {
			t.Fatal(err)
		}
		if err := db.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("want %q:\n%v", want, err)
		}
	}
}

func TestQueuedEventsOfBindingsCanBeReadInPart(t *testing.T) {
	t.Parallel()
	db := opened(t, new(Memory))
	if err := db.Update(func(tx *Tx) error {
		return errors.Join(SaveTask(tx, anEvent(1, "a")), SaveTask(tx, anEvent(2, "b")), SaveTask(tx, anEvent(3, "c")))
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *Tx) error {
		var bindings []string
		for group, err := range QueuedEvents(tx, "q") {
			if err != nil {
				return err
			}
			if bindings = append(bindings, group.Subject.Binding); len(bindings) == 2 {
				break
			}
		}
		if !slices.Equal(bindings, []string{"a", "b"}) {
			t.Errorf("bindings %v", bindings)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
