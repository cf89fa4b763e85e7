package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/bbolt"

	"addon-operator/workflow/graph"
)

// verifyRecords verifies the file b with the checksums of its records, and returns the verifier.
func verifyRecords(b []byte) (*verifier, error) {
	v := &verifier{verifiedFile: verifiedFile{file: bytes.NewReader(b), size: int64(len(b))}}
	if err := v.readMeta(); err != nil {
		return v, err
	}
	return v, v.content((*levelPart).sealed)
}

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

// withDamagedTask creates a store like withTask, and flips a bit of the task.
func withDamagedTask(t *testing.T) (path string, at Pos) {
	t.Helper()
	path, at = withTask(t)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.LastIndex(b, []byte("flipped"))] ^= 1 // the file also has older copies of the record, and only the last copy is current
	if err := os.WriteFile(path, b, 0o600); err != nil {
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
		verified, err := verifyRecords(b)
		if err == nil && len(verified.damaged) != 1 {
			t.Errorf("bit %d of byte %d: the store is whole with %d damaged records", bit%8, bit/8, len(verified.damaged))
		}
	}
}

func TestADamagedRecordIsNamedAndTheRestCanBeUsed(t *testing.T) {
	t.Parallel()
	path, at := withDamagedTask(t)
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := db.Damaged(); err != nil || len(got) != 1 || !bytes.Equal(got[0], at.Key()) {
		t.Fatalf("damaged are %v (%v)", got, err)
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
		damaged, err := db.Damaged()
		if got := fmt.Sprint(value(t, db, "a"), value(t, db, "b"), len(damaged), err); !slices.Contains([]string{`"kept"0 <nil>`, `"kept""new"0 <nil>`}, got) {
			t.Errorf("it holds %s", got)
		}
		if err := errors.Join(db.Update(put("b", `"new"`)), db.Check(), db.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestDamagedRecordsAreFoundBesideCommits(t *testing.T) {
	t.Parallel()
	path, at := withDamagedTask(t)
	query, err := OpenToQuery(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := query.Damaged(); err != nil || len(got) != 1 || !bytes.Equal(got[0], at.Key()) {
		t.Errorf("in a store that is queried, damaged are %v (%v)", got, err)
	}
	if err := query.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	// rewrite writes some of the records with new values.
	const records = 5000
	rewrite := func(from, n int) error {
		return db.Update(func(tx *Tx) (err error) {
			for i := range n {
				err = errors.Join(err, Save(tx, At(Modules).Str(fmt.Sprint((from+i*31)%records)), strings.Repeat("v", (from+i)%200)))
			}
			return err
		})
	}
	if err := rewrite(0, records); err != nil {
		t.Fatal(err)
	}
	var committing sync.WaitGroup
	stop := make(chan struct{})
	committing.Go(func() {
		for i := 0; ; i += 100 {
			select {
			case <-stop:
				return
			default:
			}
			// Each commit frees pages of earlier ones, and uses free pages again.
			if err := rewrite(i, 100); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 200 {
		if got, err := db.Damaged(); err != nil || len(got) != 1 || !bytes.Equal(got[0], at.Key()) {
			t.Errorf("damaged are %v (%v)", got, err)
			break
		}
	}
	close(stop)
	committing.Wait()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Damaged(); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close the error is %v", err)
	}
}
