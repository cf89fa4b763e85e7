package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// The variable lasting has tables that a restore keeps, and pendingWork has tables that it drops.
var (
	lasting     = []Table{Values, EnabledOverrides, Cursors, Ticks, Modules, Metrics, History}
	pendingWork = []Table{Queues, Payloads, Unique, Journal, Deferred, Quarantine, Held}
)

// fillTables writes a record with the value to each table.
func fillTables(tx *Tx, value string) error {
	for _, t := range slices.Concat(lasting, pendingWork) {
		if err := Save(tx, At(t).Uint(1), value); err != nil {
			return err
		}
	}
	return errors.Join(
		Save(tx, StartupKey(), Startup{StartRun: 1, Digest: "code", Converged: 1}),
		Save(tx, TenureKey(), Tenure{Epoch: tx.Epoch(), Began: tx.Now()}),
		Save(tx, RunKey(1), Run{ID: 1, Open: 3}),
	)
}

// restorable creates a store with the records of two epochs. restorable returns the path of the
// store, and the path of a snapshot from the first epoch.
func restorable(dir string) (path, snapshot string, err error) {
	path, snapshot = filepath.Join(dir, "store.db"), filepath.Join(dir, "store.db.snapshot-1")
	db, err := Open(path, Options{})
	if err != nil {
		return "", "", err
	}
	err = errors.Join(
		db.Update(func(tx *Tx) error { return fillTables(tx, "old") }), db.SnapshotFile(snapshot),
		db.Update(func(tx *Tx) error { return fillTables(tx, "new") }), db.Close(),
	)
	if err != nil {
		return "", "", err
	}
	if db, err = Open(path, Options{}); err != nil {
		return "", "", err
	}
	return path, snapshot, errors.Join(db.Update(func(tx *Tx) error { return fillTables(tx, "newer") }), db.Close())
}

func mustRestorable(t *testing.T) (path, snapshot string) {
	t.Helper()
	path, snapshot, err := restorable(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path, snapshot
}

// checkRestored returns the errors in the store at path, which was restored from restorable's
// snapshot.
func checkRestored(path string) error {
	db, err := OpenReadOnly(path, Options{})
	if err != nil {
		return err
	}
	return errors.Join(db.Check(), db.View(func(tx *Tx) (err error) {
		for _, t := range lasting {
			if v, _, e := Load[string](tx, At(t).Uint(1)); e != nil || v != "old" {
				err = errors.Join(err, e, fmt.Errorf("%s is %q", t, v))
			}
		}
		for _, t := range pendingWork {
			for k := range tx.Range(At(t)) {
				err = errors.Join(err, fmt.Errorf("pending work is left: %s", k))
			}
		}
		startup, _, err1 := Load[Startup](tx, StartupKey())
		run, _, err2 := Load[Run](tx, RunKey(1))
		lost, ok, err3 := Load[LostSpan](tx, LostSpanKey())
		mark, marked, err4 := Load[Copy](tx, CopyKey())
		if startup.StartRun != 1 || startup.Digest != "" || run.Open != 0 || !ok || !marked || mark.Restored != "store.db.snapshot-1" ||
			mark.Epoch != 1 || !lost.From.Equal(mark.At) || lost.To.Before(lost.From) {
			err = errors.Join(err, fmt.Errorf("startup %+v, run %+v, lost %+v, mark %+v", startup, run, lost, mark))
		}
		return errors.Join(err, err1, err2, err3, err4)
	}), db.Close())
}

// contents returns the contents of the files in a directory, by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}

func overwrite(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// damages are the ways in which a file can be damaged.
var damages = map[string]struct {
	do  func(t *testing.T, path string)
	err error
}{
	"corrupt": {func(t *testing.T, path string) {
		t.Helper()
		overwrite(t, path, func(b []byte) []byte { return append(b[:2*4096:2*4096], make([]byte, len(b)-2*4096)...) })
	}, ErrCorrupt},
	"truncated": {func(t *testing.T, path string) {
		t.Helper()
		overwrite(t, path, func(b []byte) []byte { return b[:3*4096] })
	}, ErrCorrupt},
	"foreign": {func(t *testing.T, path string) {
		t.Helper()
		overwrite(t, path, func([]byte) []byte { return []byte(strings.Repeat("dear diary, ", 5000)) })
	}, ErrNotStore},
	"empty": {func(t *testing.T, path string) {
		t.Helper()
		overwrite(t, path, func([]byte) []byte { return nil })
	}, nil},
	"newer": {func(t *testing.T, path string) {
		t.Helper()
		edit(t, path, func(b *bbolt.Bucket) error { return b.Put(schemaKey(), number(schema+1)) })
	}, ErrNewer},
}

func TestRestoreKeepsTheLastingStateAndSetsThePresentFileAside(t *testing.T) {
	t.Parallel()
	whole := damages["corrupt"]
	whole.do, whole.err = func(*testing.T, string) {}, nil
	cases := maps.Clone(damages)
	cases["whole"] = whole
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, snapshot := mustRestorable(t)
			c.do(t, path)
			written := time.Now().Add(-time.Minute)
			_ = os.Chtimes(path, written, written)
			before := contents(t, filepath.Dir(path))
			o := RestoreOptions{Options: Options{Clock: func() time.Time { return time.Now().Add(time.Hour) }}}
			o.DryRun = true
			planned, err := Restore(path, snapshot, o)
			if err != nil {
				t.Fatal(err)
			}
			if after := contents(t, filepath.Dir(path)); !maps.Equal(before, after) {
				t.Error("the dry run changed files")
			}
			o.DryRun = false
			r, err := Restore(path, snapshot, o)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(planned.Kept, r.Kept) || !slices.Equal(planned.Dropped, r.Dropped) || len(r.Dropped) != len(pendingWork) {
				t.Errorf("planned %+v, done %+v", planned, r)
			}
			if c.err != nil && !errors.Is(r.Unreadable, c.err) || (r.Unreadable == nil) != (name == "whole") {
				t.Errorf("the present file: %v", r.Unreadable)
			}
			if err := checkRestored(path); err != nil {
				t.Error(err)
			}
			after := contents(t, filepath.Dir(path))
			if r.Aside != path+".replaced.1" || after[filepath.Base(r.Aside)] != before["store.db"] || len(after) != len(before)+1 {
				t.Errorf("renamed to %s, of %v", r.Aside, slices.Sorted(maps.Keys(after)))
			}
			db, err := Open(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if name == "whole" && db.Epoch() <= 3 {
				t.Errorf("epoch %d was one of the replaced store", db.Epoch())
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheLostSpanOfARestoreEndsWithTheLastCommitOfTheReplacedStore(t *testing.T) {
	t.Parallel()
	path, snapshot := mustRestorable(t)
	written := time.Now().Add(time.Hour).Round(0).UTC()
	now := written.Add(time.Hour)
	o := RestoreOptions{DryRun: true, Options: Options{Clock: func() time.Time { return now }}}
	if err := os.Chtimes(path, written, written); err != nil {
		t.Fatal(err)
	}
	if r, err := Restore(path, snapshot, o); err != nil || !r.Lost.To.Equal(written) || !r.Lost.From.Before(written.Add(-time.Minute)) {
		t.Errorf("lost %+v, %v", r, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if r, err := Restore(path, snapshot, o); err != nil || !r.Lost.To.Equal(now) || r.Replaces {
		t.Errorf("without a file: lost %+v, %v", r, err)
	}
}

func TestRestoreWithoutAPresentFileCreatesOne(t *testing.T) {
	t.Parallel()
	path, snapshot := mustRestorable(t)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r, err := Restore(path, snapshot, RestoreOptions{})
	if err = errors.Join(err, checkRestored(path)); err != nil || r.Aside != "" {
		t.Errorf("%+v, %v", r, err)
	}
	if files := contents(t, filepath.Dir(path)); len(files) != 2 {
		t.Errorf("files: %v", slices.Sorted(maps.Keys(files)))
	}
}

func TestRestoreUpgradesAnOlderSnapshot(t *testing.T) {
	t.Parallel()
	for version := uint64(1); version < schema; version++ {
		path, snapshot := mustRestorable(t)
		edit(t, snapshot, func(b *bbolt.Bucket) error { return b.Put(schemaKey(), number(version)) })
		_, err := Restore(path, snapshot, RestoreOptions{})
		if err = errors.Join(err, checkRestored(path)); err != nil {
			t.Errorf("schema %d: %v", version, err)
		}
		db, err := OpenReadOnly(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if db.identity.schema != schema {
			t.Errorf("schema %d became %d", version, db.identity.schema)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRestoreRefusesWhatItCannotRestore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(t *testing.T, path, snapshot string) string // returns the path of the snapshot to restore; "" means the argument snapshot
		err     error
		says    string
	}{
		"missing": {func(_ *testing.T, _, snapshot string) string { return snapshot + "0" }, fs.ErrNotExist, "give the path of a snapshot"},
		"running operator": {func(t *testing.T, path, _ string) string {
			t.Helper()
			db, err := Open(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			return ""
		}, ErrLocked, "stop the operator"},
		"snapshot in use": {func(t *testing.T, _, snapshot string) string {
			t.Helper()
			db, err := Open(snapshot, Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			return ""
		}, ErrLocked, "make a snapshot of it"},
		"the store itself": {func(_ *testing.T, path, _ string) string { return path }, nil, "it is the store itself"},
		"other store": {func(t *testing.T, _, _ string) string {
			t.Helper()
			return made(t, 1)
		}, ErrOtherStore, "--other-store"},
		"corrupt":   {damageSnapshot("corrupt"), ErrCorrupt, "restore another snapshot"},
		"truncated": {damageSnapshot("truncated"), ErrCorrupt, "restore another snapshot"},
		"foreign":   {damageSnapshot("foreign"), ErrNotStore, "restore another snapshot"},
		"newer":     {damageSnapshot("newer"), ErrNewer, "restore an older snapshot"},
		"empty":     {damageSnapshot("empty"), nil, "restore another snapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, snapshot := mustRestorable(t)
			if other := c.prepare(t, path, snapshot); other != "" {
				snapshot = other
			}
			before := contents(t, filepath.Dir(path))
			_, err := Restore(path, snapshot, RestoreOptions{Options: Options{LockWait: time.Millisecond}})
			if err == nil || c.err != nil && !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), filepath.Dir(path)) && name != "other store" {
				t.Errorf("it ended with %v", err)
			}
			if after := contents(t, filepath.Dir(path)); !maps.Equal(before, after) {
				t.Errorf("files were changed: %v", slices.Sorted(maps.Keys(after)))
			}
		})
	}
}

func damageSnapshot(name string) func(t *testing.T, path, snapshot string) string {
	return func(t *testing.T, _, snapshot string) string {
		t.Helper()
		damages[name].do(t, snapshot)
		return ""
	}
}

func TestRestoreOfAnotherStoreIsPossibleWhenAsked(t *testing.T) {
	t.Parallel()
	path, _ := mustRestorable(t)
	other := made(t, 1)
	r, err := Restore(path, other, RestoreOptions{OtherStore: true})
	if err != nil || r.Present == r.ID {
		t.Fatalf("%+v, %v", r, err)
	}
	db, err := OpenReadOnly(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if db.ID() != r.ID {
		t.Errorf("the store is %s, the snapshot %s", db.ID(), r.ID)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestARepeatedRestoreChangesNothingUntilAnOperatorHasStarted(t *testing.T) {
	t.Parallel()
	path, snapshot := mustRestorable(t)
	first, err := Restore(path, snapshot, RestoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := contents(t, filepath.Dir(path))
	again, err := Restore(path, snapshot, RestoreOptions{})
	if err != nil || !again.Before || !again.Lost.To.Equal(first.Lost.To) {
		t.Errorf("repeated: %+v, %v", again, err)
	}
	if after := contents(t, filepath.Dir(path)); !maps.Equal(before, after) {
		t.Error("the repeated restore changed files")
	}
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(func(tx *Tx) error { tx.Delete(CopyKey()); return nil }), db.Close()); err != nil {
		t.Fatal(err)
	}
	third, err := Restore(path, snapshot, RestoreOptions{})
	if err != nil || third.Before || third.Aside != path+".replaced.2" {
		t.Errorf("after a start: %+v, %v", third, err)
	}
}

func TestRestoreFinishesAfterAKill(t *testing.T) {
	t.Parallel()
	path, snapshot := mustRestorable(t)
	// Simulate two killed restores. The first restore was killed before it removed the temporary
	// name of the restored store. The second restore was killed after it gave the present file
	// another name.
	temp := filepath.Join(filepath.Dir(path), ".store.db.restore")
	if err := errors.Join(os.Link(path, path+".replaced.1"), os.Link(path, temp)); err != nil {
		t.Fatal(err)
	}
	before := contents(t, filepath.Dir(path))
	r, err := Restore(path, snapshot, RestoreOptions{})
	if err = errors.Join(err, checkRestored(path)); err != nil || r.Aside != path+".replaced.1" {
		t.Fatalf("%+v, %v", r, err)
	}
	after := contents(t, filepath.Dir(path))
	if after["store.db.replaced.1"] != before["store.db"] || len(after) != 3 {
		t.Errorf("files: %v", slices.Sorted(maps.Keys(after)))
	}
}

func TestEpochsOfCleanExitsAreNotUsedAgainAfterARestore(t *testing.T) {
	t.Parallel()
	path, snapshot := mustRestorable(t)
	damages["corrupt"].do(t, path)
	if err := (exitsFile{path + ".clean-exits"}).write([]uint64{7, 40}); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(path, snapshot, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if db.Epoch() <= 40 || db.ExitedCleanly(db.Epoch()) {
		t.Errorf("epoch %d", db.Epoch())
	}
}

// If a new store is created at the path of another store, the note of clean exits is still that of the other store. The
// epochs of the new store must be later than those in the note, except numbers that are ignored as damaged.
func TestEpochsOfCleanExitsAreNotUsedByANewStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	if err := (exitsFile{path + ".clean-exits"}).write([]uint64{1, 2, 40, 1 << 60}); err != nil {
		t.Fatal(err)
	}
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if db.Epoch() != 41 || db.ExitedCleanly(db.Epoch()) {
		t.Errorf("epoch %d", db.Epoch())
	}
}

// restoreOnFullDisk restores a snapshot on a full disk, which must change nothing.
// restoreOnFullDisk then frees space and restores the snapshot again.
func restoreOnFullDisk(dir string) error {
	path, snapshot, err := restorable(dir)
	if err != nil {
		return err
	}
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		return err
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	before, _ := os.ReadFile(path)
	if _, err := Restore(path, snapshot, RestoreOptions{}); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "free about") {
		return fmt.Errorf("on a full disk: %w", err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		return fmt.Errorf("the present file was changed: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		return fmt.Errorf("%d files are left: %w", len(entries), err)
	}
	if err := errors.Join(filler.Close(), os.Remove(filler.Name())); err != nil {
		return err
	}
	_, err = Restore(path, snapshot, RestoreOptions{})
	return errors.Join(err, checkRestored(path))
}

func TestRestoreOnAFullDiskChangesNothing(t *testing.T) {
	t.Parallel()
	onSmallDisk(t, "restore on full")
}

func TestARestoreCountsPausesAsKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	paused, quarantined, another := ID{Epoch: 1, N: 1}, ID{Epoch: 1, N: 2}, ID{Epoch: 1, N: 3}
	mustUpdate(t, db, func(tx *Tx) error {
		return errors.Join(
			Save(tx, QuarantineKey(paused), QuarantinedItem{ID: paused, Paused: &Pause{By: "mia", Reason: "an incident"}}),
			Save(tx, QuarantineKey(quarantined), QuarantinedItem{ID: quarantined, Node: "n"}),
			Save(tx, QuarantineKey(another), QuarantinedItem{ID: another, Node: "n"}),
		)
	})
	snapshot := path + ".snapshot-1"
	if err := errors.Join(db.SnapshotFile(snapshot), db.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := Restore(path, snapshot, RestoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(r.Kept, TableCount{Quarantine, 1}) || !slices.Contains(r.Dropped, TableCount{Quarantine, 2}) {
		t.Errorf("kept %v, dropped %v", r.Kept, r.Dropped)
	}
	restored, err := OpenReadOnly(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	if err := restored.View(func(tx *Tx) error {
		for q, err := range QuarantinedItems(tx) {
			if err != nil || q.ID != paused {
				t.Errorf("the restored store has %+v, %v", q, err)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestRestoreOnAFileSystemWithoutLinks replaces the function that creates links, so it does not run in parallel with
// other tests. A present file must be moved away by hand. Then the restore succeeds.
func TestRestoreOnAFileSystemWithoutLinks(t *testing.T) {
	path, snapshot := mustRestorable(t)
	link = func(from, to string) error { return &os.LinkError{Op: "link", Old: from, New: to, Err: unix.EPERM} }
	defer func() { link = os.Link }()
	before := contents(t, filepath.Dir(path))
	_, err := Restore(path, snapshot, RestoreOptions{})
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "; move "+path+" away by hand and repeat the command") {
		t.Errorf("with a present file: %v", err)
	}
	if after := contents(t, filepath.Dir(path)); !maps.Equal(before, after) {
		t.Errorf("the files are %v, want %v", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(path, snapshot, RestoreOptions{}); err != nil {
		t.Errorf("without a present file: %v", err)
	}
	if err := checkRestored(path); err != nil {
		t.Error(err)
	}
	if err := name(path+".old", path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second file gets the name of the first: %v", err)
	}
	if err := checkRestored(path); err != nil {
		t.Errorf("after a second file: %v", err)
	}
}
