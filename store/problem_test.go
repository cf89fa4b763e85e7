package store_test

import (
	"testing"
	"time"

	"addon-operator/store"
)

func TestProblemKeepsItsTimeAndEndsWithItsCause(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db, err := store.OpenMemory(new(store.Memory), store.Options{Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	replace := func(wantChanged bool, problems ...store.Problem) []store.Problem {
		t.Helper()
		var all []store.Problem
		if err := db.Update(func(tx *store.Tx) error {
			changed, err := store.ReplaceProblems(tx, store.UnknownKey, problems)
			if changed != wantChanged {
				t.Errorf("changed is %t", changed)
			}
			if err == nil {
				all, err = store.AllProblems(tx)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
		return all
	}
	first := now
	one, other := store.Problem{Object: "foo", Error: "no module foo"}, store.Problem{Object: "bar", Error: "no module bar"}
	replace(true, one)
	replace(false, one)
	if all := replace(true, one, other); len(all) != 2 || !all[1].Since.Equal(first) || all[0].Since.Equal(first) {
		t.Errorf("stored %+v, want foo since %s", all, first)
	}
	if all := replace(true, other); len(all) != 1 || all[0].Object != "bar" {
		t.Errorf("stored %+v, want bar alone", all)
	}
	if all := replace(true); len(all) != 0 {
		t.Errorf("stored %+v after all were repaired", all)
	}
}
