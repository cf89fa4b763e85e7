package store

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recordsIn returns the values of db by key, without those of the table Meta.
func recordsIn(t *testing.T, db *DB) map[string]string {
	t.Helper()
	found := map[string]string{}
	if err := db.View(func(tx *Tx) error {
		for k, v := range tx.Range(nil) {
			if k.Table() != Meta {
				found[k.String()] = string(v)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

func mustUpdate(t *testing.T, db *DB, fn func(*Tx) error) {
	t.Helper()
	if err := db.Update(fn); err != nil {
		t.Fatal(err)
	}
}

func TestACloneOfAMemoryHasTheContentOfItsTime(t *testing.T) {
	t.Parallel()
	m := new(Memory)
	db := opened(t, m)
	mustUpdate(t, db, put("nginx", `"old"`))
	if err := db.NoteCleanExit(); err != nil {
		t.Fatal(err)
	}
	m.Before = func(int) error { return errors.New("of the original") }
	clone := m.Clone()
	m.Before = nil
	mustUpdate(t, db, put("nginx", `"new"`))
	copied := opened(t, clone)
	if got := value(t, copied, "nginx"); got != `"old"` {
		t.Errorf("the clone has %s", got)
	}
	if copied.ID() != db.ID() || copied.Epoch() != db.Epoch()+1 || !copied.ExitedCleanly(db.Epoch()) {
		t.Errorf("the clone is %s of epoch %d; the end of epoch %d is clean: %t", copied.ID(), copied.Epoch(), db.Epoch(), copied.ExitedCleanly(db.Epoch()))
	}
	mustUpdate(t, copied, put("redis", `"of the clone"`))
	if diff := cmp.Diff(map[string]string{"modules/nginx": `"new"`}, recordsIn(t, db)); diff != "" {
		t.Errorf("the original (-want +got):\n%s", diff)
	}
}

func TestACopyOfTablesHasTheIdentityOfTheStoreIfItHasMeta(t *testing.T) {
	t.Parallel()
	db := opened(t, new(Memory))
	mustUpdate(t, db, func(tx *Tx) error {
		return errors.Join(put("nginx", `"on"`)(tx), Save(tx, HookKey("nginx", "a.sh"), "hook"), Save(tx, ReleaseKey("nginx"), "release"))
	})
	m, err := CopyOf(db, Meta, Modules, Hooks)
	if err != nil {
		t.Fatal(err)
	}
	mustUpdate(t, db, put("nginx", `"off"`))
	copied := opened(t, m)
	if copied.ID() != db.ID() {
		t.Errorf("the copy is store %s, not %s", copied.ID(), db.ID())
	}
	if diff := cmp.Diff(map[string]string{"modules/nginx": `"on"`, "hooks/nginx/a.sh": `"hook"`}, recordsIn(t, copied)); diff != "" {
		t.Errorf("the copy (-want +got):\n%s", diff)
	}
	if m, err = CopyOf(db, Cursors); err != nil {
		t.Fatal(err)
	}
	if empty := opened(t, m); empty.ID() == db.ID() || len(recordsIn(t, empty)) > 0 {
		t.Errorf("the empty copy is store %s with %v", empty.ID(), recordsIn(t, empty))
	}
	if m, err = CopyOf(db, Modules); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenMemory(m, Options{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a copy with records and without Meta: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := CopyOf(db, Modules); !errors.Is(err, ErrClosed) {
		t.Errorf("a copy of a closed store: %v", err)
	}
}

func TestASimulatedCrashLosesOrKeepsTheWholeCommit(t *testing.T) {
	t.Parallel()
	crash := errors.New("crash")
	for name, test := range map[string]struct {
		arm  func(m *Memory, crash func(int) error)
		kept map[string]string
	}{
		"before the commit": {func(m *Memory, crash func(int) error) { m.Before = crash }, map[string]string{}},
		"after the commit":  {func(m *Memory, crash func(int) error) { m.After = crash }, map[string]string{"modules/a": "1", "modules/b": "1"}},
	} {
		m := new(Memory)
		db := opened(t, m)
		commits := m.Commits()
		var called []int
		test.arm(m, func(n int) error { called = append(called, n); return crash })
		err := db.Update(func(tx *Tx) error { return errors.Join(put("a", "1")(tx), put("b", "1")(tx)) })
		if !errors.Is(err, crash) || !errors.Is(err, ErrPoisoned) || !errors.Is(db.Err(), ErrPoisoned) {
			t.Errorf("%s: %v; the store: %v", name, err, db.Err())
		}
		if diff := cmp.Diff([]int{commits + 1}, called); diff != "" || m.Commits() != commits+1 {
			t.Errorf("%s: %d commits (-want +got):\n%s", name, m.Commits(), diff)
		}
		if err := db.NoteCleanExit(); err == nil {
			t.Errorf("%s: a crashed process notes a clean exit", name)
		}
		m.Before, m.After = nil, nil
		next := opened(t, m)
		if diff := cmp.Diff(test.kept, recordsIn(t, next)); diff != "" || next.ExitedCleanly(db.Epoch()) {
			t.Errorf("%s: the end is clean: %t (-want +got):\n%s", name, next.ExitedCleanly(db.Epoch()), diff)
		}
		if err := next.NoteCleanExit(); err != nil {
			t.Errorf("%s: the next process cannot note its clean exit: %v", name, err)
		}
	}
}

func TestASimulatedFullDiskIsNoCrash(t *testing.T) {
	t.Parallel()
	m := new(Memory)
	db := opened(t, m)
	m.Before = func(int) error { return ErrFull }
	if err := db.Update(put("a", "1")); !errors.Is(err, ErrFull) || db.Err() != nil {
		t.Errorf("%v; the store: %v", err, db.Err())
	}
	if err := db.NoteCleanExit(); err != nil {
		t.Error(err)
	}
	m.Before = nil
	mustUpdate(t, db, put("b", "1"))
	if diff := cmp.Diff(map[string]string{"modules/b": "1"}, recordsIn(t, db)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestASnapshotOfAMemoryKeepsEmptyValues(t *testing.T) {
	t.Parallel()
	db := opened(t, new(Memory))
	mustUpdate(t, db, func(tx *Tx) error { tx.Put(At(Payloads).Uint(1), nil); return put("nginx", `"on"`)(tx) })
	var snapshot bytes.Buffer
	if err := db.Snapshot(&snapshot); err != nil {
		t.Fatal(err)
	}
	m, err := RestoreMemory(bytes.NewReader(snapshot.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(recordsIn(t, db), recordsIn(t, opened(t, m))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, text := range map[string][]byte{"an empty file": nil, "a text": []byte("no snapshot"), "a part": snapshot.Bytes()[:snapshot.Len()-1]} {
		if m, err := RestoreMemory(bytes.NewReader(text)); m != nil || !errors.Is(err, ErrNotStore) {
			t.Errorf("%s is restored: %v", name, err)
		}
	}
}

func TestViewsOfOneCommitHaveTheSameVersion(t *testing.T) {
	t.Parallel()
	version := func(db *DB) (n uint64) {
		if err := db.View(func(tx *Tx) error { n = tx.Version(); return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	file, err := Open(made(t, 1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, db := range map[string]*DB{"memory": opened(t, new(Memory)), "file": file} {
		before := version(db)
		if again := version(db); again != before {
			t.Errorf("%s: version %d became %d without a commit", name, before, again)
		}
		mustUpdate(t, db, func(*Tx) error { return nil })
		if again := version(db); again != before {
			t.Errorf("%s: version %d became %d by a transaction without writes", name, before, again)
		}
		mustUpdate(t, db, put("nginx", "1"))
		if after := version(db); after <= before {
			t.Errorf("%s: version %d became %d by a commit", name, before, after)
		}
	}
}

// TestAViewDuringACommitHasTheVersionOfItsRecords opens Views of a Memory before, during and after a commit. The View
// during the commit must have the old version with the old records, or the new version with the new records.
func TestAViewDuringACommitHasTheVersionOfItsRecords(t *testing.T) {
	t.Parallel()
	m := new(Memory)
	db := opened(t, m)
	seen := map[uint64]string{}
	see := func(when string) {
		var version uint64
		var record string
		if err := db.View(func(tx *Tx) error {
			version, record = tx.Version(), string(tx.Get(At(Modules).Str("a")))
			return nil
		}); err != nil {
			t.Error(err)
		}
		if before, again := seen[version]; again && before != record {
			t.Errorf("%s the commit: version %d has the record %q, and had %q", when, version, record, before)
		}
		seen[version] = record
	}
	see("before")
	m.Before = func(int) error { see("during"); return nil }
	mustUpdate(t, db, put("a", "1"))
	see("after")
	if len(seen) != 2 {
		t.Errorf("the versions and their records are %v", seen)
	}
}
