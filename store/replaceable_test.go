package store

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// spoiled returns a store in which the records under the given keys cannot be read.
func spoiled(t *testing.T, keys ...Key) *Memory {
	t.Helper()
	m := new(Memory)
	db, err := OpenMemory(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *Tx) error {
		for _, k := range keys {
			tx.Put(k, []byte(`{"epoch":`))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestUnreadableRecordsOfTheWholeStoreAreMovedAtOpen(t *testing.T) {
	t.Parallel()
	lost := []Key{StartupKey(), TenureKey(), EndsKey(), ExclusiveKey(), AllowedPurgeKey(), LostSpanKey()}
	marks := []Key{PreparationKey(), CopyKey()}
	db, err := OpenMemory(spoiled(t, append(lost, marks...)...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.View(func(tx *Tx) error {
		var moved []Key
		for d, err := range AllDamaged(tx) {
			if err != nil {
				return err
			}
			moved = append(moved, d.Key)
		}
		if !slices.EqualFunc(moved, lost, func(a, b Key) bool { return bytes.Equal(a, b) }) {
			t.Errorf("the records moved are %v, want %v", moved, lost)
		}
		for _, k := range lost {
			if tx.Get(k) != nil {
				t.Errorf("%s is still there", k)
			}
		}
		for _, k := range marks {
			if tx.Get(k) == nil {
				t.Errorf("mark %s was deleted", k)
			}
		}
		problems, err := AllProblems(tx)
		if len(problems) != len(lost) || slices.ContainsFunc(problems, func(p Problem) bool { return p.Kind != DamagedRecord }) {
			t.Errorf("the problems are %+v", problems)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestARecordOfTheWholeStoreWithTheContentOfAnotherIsMoved(t *testing.T) {
	t.Parallel()
	m := new(Memory)
	db, err := OpenMemory(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *Tx) error { return Save(tx, StartupKey(), "1-1") }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = OpenMemory(m, Options{}); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.View(func(tx *Tx) error {
		_, ok, err := Load[Startup](tx, StartupKey())
		if ok {
			t.Error("the record is still there")
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func TestRecordsMovedAtOpenAreKnownToTheirProcessOnly(t *testing.T) {
	t.Parallel()
	m := spoiled(t, TenureKey(), LostSpanKey())
	var moved []string
	for _, d := range opened(t, m).MovedAtOpen() {
		moved = append(moved, d.String())
	}
	if diff := cmp.Diff([]string{"record meta/tenure", "record meta/lost span"}, moved); diff != "" {
		t.Errorf("moved (-want +got):\n%s", diff)
	}
	if again := opened(t, m).MovedAtOpen(); len(again) > 0 {
		t.Errorf("the next process has moved %v", again)
	}
}
