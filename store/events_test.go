package store

import (
	"fmt"
	"slices"
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

// events returns the numbers of the events of the hook m/h in queue q, in the order in
// which they are yielded.
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
	const pending = 12_000 // more than one transaction indexes
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
