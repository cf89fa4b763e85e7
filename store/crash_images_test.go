package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"addon-operator/store/crashimage"
)

// imagedUpdates is the number of updates that liveTwice makes. The last update is made to the compacted file.
const imagedUpdates = 41

// writeImaged writes update n of liveTwice. It adds and deletes records of many sizes, and sets the record "a" to n.
func writeImaged(tx *Tx, n int) error {
	for i := range 1 + n%7 {
		if err := Save(tx, At(Metrics).Uint(uint64(n*10+i)), strings.Repeat("m", n*n*i%9000)); err != nil {
			return err
		}
	}
	if n > 5 {
		for k := range tx.Range(At(Metrics).Uint(uint64((n-5)*10 + n%3))) {
			tx.Delete(k)
		}
	}
	return Save(tx, At(Modules).Str("a"), n)
}

// liveTwice creates a store in the directory path, updates it, makes a snapshot, and closes it. It opens the store
// again, updates it, makes a snapshot, and closes it. Then it compacts the closed store, makes a snapshot of the
// compacted file, and updates that file. It writes a mark when an update, a snapshot or a clean exit is acknowledged.
func liveTwice(path string) error {
	runtime.LockOSThread()
	mark, err := crashimage.Marks(path)
	if err != nil {
		return err
	}
	file, snapshot := filepath.Join(path, "store.db"), filepath.Join(path, "snapshot.db")
	n := 0
	for process := range 2 {
		db, err := Open(file, Options{Ballast: 64 << 10})
		if err != nil {
			return err
		}
		err = mark("open")
		for range imagedUpdates / 2 {
			n++
			err = errors.Join(err, db.Update(func(tx *Tx) error { return writeImaged(tx, n) }), mark("update %d", n))
		}
		err = errors.Join(err, db.SnapshotFile(snapshot), mark("snapshot %d", n))
		if process == 0 {
			err = errors.Join(err, db.NoteCleanExit(), mark("exit %d", db.Epoch()))
		}
		if err := errors.Join(err, db.Close()); err != nil {
			return err
		}
	}
	if _, err := Compact(file, Options{}); err != nil {
		return err
	}
	unused, err := OpenReadOnly(file, Options{})
	if err != nil {
		return err
	}
	if err := errors.Join(unused.SnapshotFile(snapshot), mark("snapshot %d", n), unused.Close()); err != nil {
		return err
	}
	db, err := Open(file, Options{})
	if err != nil {
		return err
	}
	n++
	return errors.Join(db.Update(func(tx *Tx) error { return writeImaged(tx, n) }), mark("update %d", n), db.Close())
}

// lastMark returns the number in the last mark of the given kind; 0 if there is none.
func lastMark(marks []string, kind string) (last int) {
	for _, m := range marks {
		if n, ok := strings.CutPrefix(m, kind+" "); ok {
			last, _ = strconv.Atoi(strings.TrimSpace(n))
		}
	}
	return last
}

// imagedContents returns the records that the store must have after each update of liveTwice, by the number of the
// update.
func imagedContents(t *testing.T) (contents [imagedUpdates + 1]map[string]string) {
	t.Helper()
	db, err := OpenMemory(new(Memory), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for n := range contents {
		if err := db.Update(func(tx *Tx) error {
			if n == 0 {
				return nil
			}
			return writeImaged(tx, n)
		}); err != nil {
			t.Fatal(err)
		}
		contents[n] = imagedContent(t, db)
	}
	return contents
}

// imagedContent returns the records of db that writeImaged has written.
func imagedContent(t *testing.T, db *DB) map[string]string {
	t.Helper()
	content := map[string]string{}
	if err := db.View(func(tx *Tx) error {
		for _, table := range []Table{Modules, Metrics} {
			for k, v := range tx.Range(At(table)) {
				content[string(k)] = string(v)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	return content
}

func TestALossOfPowerAtAnyTimeLosesNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	recording, err := crashimage.Record(t.Context(), dir, []string{childEnv + "=images:" + dir}, os.Args[0])
	if errors.Is(err, crashimage.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	contents := imagedContents(t)
	images := recording.Check(t, crashimage.Options{Seed: 1, Subsets: 520, Most: 400}, func(dir string, image crashimage.Image) {
		checkImage(t, dir, image, contents[:])
	})
	if t.Logf("%d images", images); images < 10000 {
		t.Errorf("only %d images were checked, want at least 10000", images)
	}
}

// checkImage opens the store in dir, the directory with the files of the image, and compares the store with the
// updates that were acknowledged before the crash.
func checkImage(t *testing.T, dir string, image crashimage.Image, contents []map[string]string) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s, behind %d marks: %s", image.Text, len(image.Marks), fmt.Sprintf(format, args...))
	}
	if !image.Has("store.db") && len(image.Marks) > 0 {
		fail("the store is gone")
	}
	db, err := Open(filepath.Join(dir, "store.db"), Options{Ballast: 64 << 10})
	if err != nil {
		fail("open: %v", err)
		return
	}
	acknowledged := lastMark(image.Marks, "update")
	n := updateOf(db)
	if n < acknowledged || n > acknowledged+1 {
		fail("update %d was acknowledged, and the store is that of update %d", acknowledged, n)
	} else if got := imagedContent(t, db); !equalContent(contents[n], got) {
		fail("the store is not that of update %d", n)
	}
	if exit := lastMark(image.Marks, "exit"); exit > 0 && !db.ExitedCleanly(uint64(exit)) { //nolint:gosec // an epoch
		fail("epoch %d ended cleanly, which is not known", exit)
	}
	if err := errors.Join(db.Update(put("b", "1")), db.Check(), db.Close()); err != nil {
		fail("%v", err)
	}
	if copied := lastMark(image.Marks, "snapshot"); copied > 0 || image.Has("snapshot.db") {
		checkSnapshot(fail, filepath.Join(dir, "snapshot.db"), copied)
	}
}

// checkSnapshot checks the snapshot at path, which must include update n of liveTwice.
func checkSnapshot(fail func(format string, args ...any), path string, n int) {
	db, err := OpenReadOnly(path, Options{})
	if err != nil {
		fail("open the snapshot: %v", err)
		return
	}
	if got := updateOf(db); got < n {
		fail("a snapshot of update %d was acknowledged, and it is that of update %d", n, got)
	}
	if err := errors.Join(db.Check(), db.Close()); err != nil {
		fail("the snapshot: %v", err)
	}
}

// updateOf returns the number of the last update of liveTwice that db has; -1 if the number cannot be read.
func updateOf(db *DB) (n int) {
	if err := db.View(func(tx *Tx) (err error) {
		n, _, err = Load[int](tx, At(Modules).Str("a"))
		return err
	}); err != nil {
		return -1
	}
	return n
}

func equalContent(want, got map[string]string) bool {
	if len(want) != len(got) {
		return false
	}
	for k, v := range want {
		if got[k] != v {
			return false
		}
	}
	return true
}
