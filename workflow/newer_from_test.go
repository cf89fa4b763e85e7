package workflow

import (
	"testing"

	"addon-operator/store"
)

// TestTheSearchForNewerTasksBeginsBehindTheLastReturnedOneOnlyWhileThatIsThere uses a queue with tasks in the slots 5
// and 6. If the task that returned last is still in its slot, and is older than the oldest deferred task, the search
// must begin at the next slot. In all other cases, the search must begin at slot 0.
func TestTheSearchForNewerTasksBeginsBehindTheLastReturnedOneOnlyWhileThatIsThere(t *testing.T) {
	t.Parallel()
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	id := func(n uint64) store.ID { return store.ID{Epoch: 1, N: n} }
	if err := db.Update(func(tx *store.Tx) error {
		for slot, n := range map[uint64]uint64{5: 10, 6: 11} {
			task := store.Task{ID: id(n), Node: "n", Pos: store.Pos{Queue: "q", Slot: slot}}
			if err := store.Save(tx, task.Key(), task); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		put   store.Deferral
		first uint64
		want  uint64
	}{
		"none has returned":            {store.Deferral{}, 12, 0},
		"the last one is there":        {store.Deferral{Returned: id(11), ReturnedTo: 6}, 12, 7},
		"the next one is older":        {store.Deferral{Returned: id(11), ReturnedTo: 6}, 9, 0},
		"another has the slot":         {store.Deferral{Returned: id(8), ReturnedTo: 5}, 12, 0},
		"the slot is empty":            {store.Deferral{Returned: id(11), ReturnedTo: 7}, 12, 0},
		"newer tasks can be behind it": {store.Deferral{Returned: id(10), ReturnedTo: 5}, 12, 6},
	} {
		if err := db.View(func(tx *store.Tx) error {
			l := limits{txn: &txn{tx: tx}}
			first := &store.Task{ID: id(test.first), Pos: store.Pos{Queue: "q"}}
			got, err := l.newerFrom(test.put, first)
			if got != test.want {
				t.Errorf("%s: from slot %d, want %d", name, got, test.want)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
