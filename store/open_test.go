package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// made creates a store with n records in a new file, closes it, and returns its path.
func made(t testing.TB, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; {
		if err := db.Update(func(tx *Tx) error {
			for range 100 {
				if err := Save(tx, At(Modules).Str(fmt.Sprintf("%06d", i)), strings.Repeat("v", i%400)); err != nil {
					return err
				}
				if i++; i == n {
					break
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// untouched calls the function open. It checks that the returned error wraps want and contains the
// path and advice, and that the file and its directory are unchanged.
func untouched(t *testing.T, path string, want error, open func(string, Options) (*DB, error)) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	names := directory(t, filepath.Dir(path))
	o := Options{LockWait: time.Minute, Ballast: 4096} // a process that another test starts shares the lock until it executes its program
	if errors.Is(want, ErrLocked) {
		o.LockWait = 1
	}
	db, err := open(path, o)
	if err == nil {
		t.Fatalf("opened, want %v: %v", want, db.Close())
	}
	if !errors.Is(err, want) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "; ") {
		t.Errorf("want %v, the path and what to do:\n%v", want, err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("the file has changed")
	}
	if got := directory(t, filepath.Dir(path)); got != names {
		t.Errorf("the directory holds %s, it held %s", got, names)
	}
}

func directory(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestANewStoreIsOneFileForItsOwnerOnly(t *testing.T) {
	t.Parallel()
	path := made(t, 1)
	if names := directory(t, filepath.Dir(path)); names != "store.db" {
		t.Errorf("the directory holds %s", names)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("its mode is %v", info.Mode())
	}
}

func TestOneStoreComesOfManyThatCreateIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids := map[string][]uint64{}
	for range 8 {
		wg.Go(func() {
			db, err := Open(path, Options{LockWait: 1 << 40})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			ids[db.ID()] = append(ids[db.ID()], db.Epoch())
			mu.Unlock()
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(ids) != 1 {
		t.Errorf("stores and their epochs: %v", ids)
	}
	for _, epochs := range ids {
		for i, e := range epochs {
			if e != uint64(i+1) {
				t.Errorf("the epochs are %v", epochs)
			}
		}
	}
	if names := directory(t, filepath.Dir(path)); names != "store.db" {
		t.Errorf("the directory holds %s", names)
	}
}

func TestAStoreNeverTakesAnothersPlace(t *testing.T) {
	t.Parallel()
	path, temp := made(t, 1), made(t, 2)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := name(temp, path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the error is %v", err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("a new store took the place of one that was there")
	}
}

func TestAMissingDirectoryIsSaid(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "missing", "store.db")
	if _, err := Open(path, Options{}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if _, err := OpenReadOnly(path, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestALiveStoreIsLocked(t *testing.T) {
	t.Parallel()
	path := made(t, 10)
	live, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	untouched(t, path, ErrLocked, Open)
	untouched(t, path, ErrLocked, OpenReadOnly)
	if err := live.Close(); err != nil {
		t.Fatal(err)
	}
	// Several processes can read a stopped store. While a process reads the store, no process can
	// open the store for writing.
	for range 2 {
		r, err := OpenReadOnly(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if r.Epoch() != live.Epoch() || r.ID() != live.ID() {
			t.Errorf("read as %s, epoch %d", r.ID(), r.Epoch())
		}
		if err := r.Update(func(*Tx) error { return nil }); !errors.Is(err, ErrReadOnly) {
			t.Errorf("an update: %v", err)
		}
		if err := r.Check(); err != nil {
			t.Error(err)
		}
	}
	untouched(t, path, ErrLocked, Open)
}

func TestAWaitingProcessLocksTheFileThatReplacedTheStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	for _, file := range []string{path, path + ".new"} {
		if err := os.WriteFile(file, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	held, err := lock(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	opened := watchOpening(t, path)
	locked := make(chan *os.File)
	go func() {
		f, err := lock(path, os.O_RDWR, time.Minute)
		if err != nil {
			t.Error(err)
		}
		locked <- f
	}()
	opened()
	if err := errors.Join(os.Rename(path+".new", path), held.Close()); err != nil {
		t.Fatal(err)
	}
	f := <-locked
	if same, err := isAt(f, path); err != nil || !same {
		t.Errorf("the lock is on the file that was replaced: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// watchOpening returns a function that waits until somebody opens the file at path.
func watchOpening(t *testing.T, path string) func() {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if _, err := unix.Read(fd, make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsNoStoreIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bolt := filepath.Join(dir, "bolt.db")
	db, err := bbolt.Open(bolt, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("theirs"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"text":  "kind: ConfigMap\n",
		"zeros": strings.Repeat("\x00", 64<<10),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{bolt, filepath.Join(dir, "text"), filepath.Join(dir, "zeros")} {
		untouched(t, path, ErrNotStore, Open)
		untouched(t, path, ErrNotStore, OpenReadOnly)
	}
	if _, err := Open(bolt, Options{}); err == nil || !strings.HasSuffix(err.Error(), "; give the path of a store, or a path without a file for a new store") {
		t.Errorf("Open advises: %v", err)
	}
	if _, err := OpenReadOnly(bolt, Options{}); err == nil || !strings.HasSuffix(err.Error(), "; give the path of a store") {
		t.Errorf("OpenReadOnly advises: %v", err)
	}
	if _, err := OpenReadOnly(os.DevNull, Options{}); !errors.Is(err, ErrNotStore) {
		t.Errorf("a device: %v", err)
	}
}

// edit changes the records in a store's file with bbolt, without the code of this package.
func edit(t *testing.T, path string, fn func(*bbolt.Bucket) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error { return fn(tx.Bucket(bucket)) }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestANewerSchemaIsLeftAlone(t *testing.T) {
	t.Parallel()
	path := made(t, 10)
	edit(t, path, func(b *bbolt.Bucket) error { return b.Put(schemaKey(), number(schema+1)) })
	untouched(t, path, ErrNewer, Open)
	untouched(t, path, ErrNewer, OpenReadOnly)
}

func TestAStoreThatDoesNotSayWhoItIsIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, k := range []Key{schemaKey(), idKey(), epochKey()} {
		path := made(t, 10)
		edit(t, path, func(b *bbolt.Bucket) error { return b.Put(k, []byte("{")) })
		untouched(t, path, ErrCorrupt, Open)
		edit(t, path, func(b *bbolt.Bucket) error { return b.Delete(k) })
		untouched(t, path, ErrCorrupt, Open)
	}
}

func TestACommitOfAnOldEpochIsStale(t *testing.T) {
	t.Parallel()
	path := made(t, 10)
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// On a file system without locks, another process can open the store while this one uses it.
	// After that, a commit of this process must fail.
	raise := []Write{{Key: epochKey(), Value: number(db.Epoch() + 1)}}
	if err := db.backend.Commit(db.Epoch(), raise); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(put("a", "1")); !errors.Is(err, ErrStale) || !errors.Is(err, ErrPoisoned) {
		t.Errorf("%v", err)
	}
}
