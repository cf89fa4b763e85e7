package store_test

import (
	"testing"

	"addon-operator/store"
	"addon-operator/store/storetest"
)

func TestNotesStandAndGoWithTheirJournal(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	id := store.ID{Epoch: 1, N: 1}
	task := &store.Task{ID: id, Pos: store.Pos{Queue: "q", Slot: store.FirstSlot}, Run: 1}
	update(t, db, func(tx *store.Tx) error {
		if err := store.SaveNote(tx, id, "early"); err == nil {
			t.Error("a note was kept of a task without a journal")
		}
		return nil
	})
	update(t, db, func(tx *store.Tx) error {
		task.Journal = true
		if err := store.Save(tx, store.RunKey(1), store.Run{ID: 1, Open: 1}); err != nil {
			return err
		}
		if err := store.Save(tx, store.JournalKey(id), "effects"); err != nil {
			return err
		}
		if err := store.SaveNote(tx, id, "half done"); err != nil {
			return err
		}
		return store.SaveTask(tx, task)
	})
	if err := db.Check(); err != nil {
		t.Error(err)
	}
	update(t, db, func(tx *store.Tx) error {
		if note, ok, err := store.LoadNote[string](tx, id); err != nil || !ok || note != "half done" {
			t.Errorf("the note came back as %q, %t, %v", note, ok, err)
		}
		store.DropTask(tx, task)
		if _, ok, _ := store.LoadNote[string](tx, id); ok {
			t.Error("the note is left")
		}
		return store.Save(tx, store.RunKey(1), store.Run{ID: 1})
	})
}

func TestAReleaseLacksWhatWasRemovedInAnyVersionOfItsKind(t *testing.T) {
	t.Parallel()
	r := store.Release{Removed: []store.Removed{{Object: store.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "n", Name: "a"}}}}
	for want, objects := range map[bool][]store.Object{
		true: {
			{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "n", Name: "a"},
			{APIVersion: "apps/v1beta1", Kind: "Deployment", Namespace: "n", Name: "a"},
		},
		false: {
			{APIVersion: "v1", Kind: "Deployment", Namespace: "n", Name: "a"},
			{APIVersion: "other/v1", Kind: "Deployment", Namespace: "n", Name: "a"},
			{APIVersion: "apps/v1", Kind: "StatefulSet", Namespace: "n", Name: "a"},
			{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "m", Name: "a"},
			{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "n", Name: "b"},
		},
	} {
		for _, o := range objects {
			if r.Lacks(o) != want {
				t.Errorf("%v: %t", o, !want)
			}
		}
	}
}
