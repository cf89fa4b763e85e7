package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"addon-operator/workflow/graph"
)

// withTask creates a store with a task, and returns its path and the position of the task.
func withTask(t *testing.T) (path string, at Pos) {
	t.Helper()
	path, at = made(t, 40), Pos{Queue: "main", Slot: FirstSlot}
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(func(tx *Tx) error {
		return SaveTask(tx, &Task{ID: ID{Epoch: 1, N: 1}, Pos: at, Graph: "lifecycle", Node: "module-run", Subject: graph.Subject{Module: "flipped"}})
	}), db.Close()); err != nil {
		t.Fatal(err)
	}
	return path, at
}

func TestEachFlippedBitOfARecordIsFound(t *testing.T) {
	t.Parallel()
	path, at := withTask(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	record := bytes.LastIndex(whole, at.Key())
	end := record + bytes.Index(whole[record:], []byte(`"flipped"}`)) + len(`"flipped"}}`)
	if record < 0 || end < record+60 {
		t.Fatalf("the task is at %d to %d", record, end)
	}
	for bit := range (end - record) * 8 {
		b := bytes.Clone(whole)
		b[record+bit/8] ^= 1 << (bit % 8)
		verified, err := inspectBolt(bytes.NewReader(b), int64(len(b)))
		if err == nil && len(verified.damaged) != 1 {
			t.Errorf("bit %d of byte %d: the store is whole with %d damaged records", bit%8, bit/8, len(verified.damaged))
		}
	}
}

func TestADamagedRecordIsNamedAndTheRestCanBeUsed(t *testing.T) {
	t.Parallel()
	path, at := withTask(t)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.LastIndex(b, []byte("flipped"))] ^= 1 // the file also has older copies of the record, and only the last copy is current
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := db.Damaged(); len(got) != 1 || !bytes.Equal(got[0], at.Key()) {
		t.Fatalf("damaged are %v", got)
	}
	damaged := (*RecordError)(nil)
	err = db.View(func(tx *Tx) error { _, _, err := Head(tx, "main"); return err })
	if !errors.As(err, &damaged) || !bytes.Equal(damaged.Key, at.Key()) || !errors.Is(err, ErrCorrupt) {
		t.Errorf("the head is %v", err)
	}
	if err := db.Check(); !errors.Is(err, ErrCorrupt) || !errors.As(err, &damaged) {
		t.Errorf("the check says %v", err)
	}
	if err := errors.Join(db.Update(func(tx *Tx) error {
		tx.Delete(damaged.Key)
		return nil
	}), db.Update(put("a", "1")), db.Check(), db.Close()); err != nil {
		t.Errorf("without the record: %v", err)
	}
}

func TestRecordsOfAStoreWithoutChecksumsAreRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	old, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(old.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket(bucket)
		for _, w := range append(newIdentity(), Write{Key: At(Modules).Str("a"), Value: []byte(`"kept"`)}) {
			value := w.Value
			if bytes.Equal(w.Key, schemaKey()) {
				value = number(1)
			}
			err = errors.Join(err, b.Put(w.Key, value))
		}
		return err
	}), old.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		db, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(value(t, db, "a"), value(t, db, "b"), len(db.Damaged())); !slices.Contains([]string{`"kept"0`, `"kept""new"0`}, got) {
			t.Errorf("it holds %s", got)
		}
		if err := errors.Join(db.Update(put("b", `"new"`)), db.Check(), db.Close()); err != nil {
			t.Error(err)
		}
	}
}
