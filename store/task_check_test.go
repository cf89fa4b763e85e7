package store_test

import (
	"errors"
	"strings"
	"testing"

	"addon-operator/store"
)

func TestCheckFindsWhatIsWrongWithTasks(t *testing.T) {
	t.Parallel()
	task := func(n uint64) *store.Task {
		return &store.Task{ID: store.ID{Epoch: 1, N: n}, Pos: store.Pos{Queue: "q", Slot: store.FirstSlot + n}, Node: "n", Run: 1}
	}
	for want, damage := range map[string]func(*store.Tx) error{
		"": func(tx *store.Tx) error {
			two := task(2)
			two.Claim = &store.Claim{Epoch: 1}
			restored := task(1)
			restored.Claim = &store.Claim{Epoch: 1, Restored: true}
			return errors.Join(store.SaveTask(tx, restored), store.SaveTask(tx, two))
		},
		"cannot be read": func(tx *store.Tx) error {
			tx.Put(store.Pos{Queue: "q", Slot: 1}.Key(), []byte(`{"id":7}`))
			return nil
		},
		"run 1 counts 2 tasks, but has 3": func(tx *store.Tx) error { return store.SaveTask(tx, task(3)) },
		"run 7, which does not exist": func(tx *store.Tx) error {
			lost := task(3)
			lost.Run = 7
			return store.SaveTask(tx, lost)
		},
		"two tasks have the id 1-1": func(tx *store.Tx) error {
			twice := task(1)
			twice.Slot++
			return store.SaveTask(tx, twice)
		},
		"waits for 1 items, but 0 exist": func(tx *store.Tx) error {
			parent := task(1)
			parent.FanOut = &store.FanOut{Open: 1}
			return store.SaveTask(tx, parent)
		},
		"task 1-2 names its parent 1-1 at": func(tx *store.Tx) error {
			parent, item := task(1), task(2)
			parent.FanOut, item.Parent = &store.FanOut{Open: 1}, &store.Ref{ID: parent.ID}
			return errors.Join(store.SaveTask(tx, parent), store.SaveTask(tx, item))
		},
		"is at item 2 of 1": func(tx *store.Tx) error {
			parent := task(1)
			parent.FanOut = &store.FanOut{Next: 2, Len: 1}
			return store.SaveTask(tx, parent)
		},
		"1 records of payloads, fan-out items or journals are missing": func(tx *store.Tx) error {
			parent := task(1)
			parent.FanOut = &store.FanOut{Len: 1}
			return store.SaveTask(tx, parent)
		},
		"belongs to no task": func(tx *store.Tx) error { return store.SaveItem(tx, task(1).ID, 0, "item") },
		"tasks 1-1 and 1-2 of queue q are claimed at once": func(tx *store.Tx) error {
			one, two := task(1), task(2)
			one.Claim, two.Claim = &store.Claim{Epoch: 1}, &store.Claim{Epoch: 1}
			return errors.Join(store.SaveTask(tx, one), store.SaveTask(tx, two))
		},
		"task 1-1 waits at node n without a record in table unique": func(tx *store.Tx) error {
			waits := task(1)
			waits.Waits = true
			return store.SaveTask(tx, waits)
		},
		"unique/q/n leads to no waiting task": func(tx *store.Tx) error {
			tx.Put(store.At(store.Unique).Str("q").Str("n"), task(1).Key())
			return nil
		},
		"unique//m, the record of a module whose pending tasks are removed, is not JSON": func(tx *store.Tx) error {
			tx.Put(store.At(store.Unique).Str("").Str("m"), []byte("?"))
			return nil
		},
		"in no queue: record deferred/1 cannot be read": func(tx *store.Tx) error {
			tx.Put(store.At(store.Deferred).Uint(1), []byte(`"no task"`))
			return nil
		},
	} {
		db, err := store.OpenMemory(new(store.Memory), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		update(t, db, func(tx *store.Tx) error {
			return errors.Join(store.Save(tx, store.RunKey(1), store.Run{ID: 1, Open: 2}),
				store.SaveTask(tx, task(1)), store.SaveTask(tx, task(2)), damage(tx))
		})
		err = db.Check()
		if want == "" && err != nil {
			t.Errorf("a sound store: %v", err)
		}
		if want != "" && (!errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), want)) {
			t.Errorf("want %q:\n%v", want, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
