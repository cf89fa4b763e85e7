package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// onDisk opens the store at path, and returns its file too.
func onDisk(t testing.TB, path string, o Options) (*DB, *os.File) {
	t.Helper()
	f, err := lock(path, os.O_RDWR, o.wait())
	if err != nil {
		t.Fatal(err)
	}
	b, err := openBolt(f, false)
	if err != nil {
		t.Fatal(err)
	}
	b.ballast = ballast{path: path + ".ballast", size: o.Ballast}
	b.ballast.fill()
	db := newDB(path, b, o)
	if err := begin(db); err != nil {
		t.Fatal(err)
	}
	return db, f
}

// swap makes the descriptor of f, a file that the store uses, refer to the file at path. The
// returned function undoes this.
func swap(t *testing.T, f *os.File, path string) (back func()) {
	t.Helper()
	kept, err := unix.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	other, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(with int) {
		if err := unix.Dup3(with, int(f.Fd()), unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		if err := unix.Close(with); err != nil {
			t.Fatal(err)
		}
	}
	replace(other)
	return func() { replace(kept) }
}

func TestADiskThatIsFullForAWhileLosesNothing(t *testing.T) {
	t.Parallel()
	path := made(t, 1000)
	db, f := onDisk(t, path, Options{Ballast: 64 << 10})
	if info, err := os.Stat(path + ".ballast"); err != nil || info.Size() != 64<<10 || info.Mode() != 0o600 {
		t.Errorf("the ballast: %v, %v", info, err)
	}
	// These updates leave free pages for the next write. Without free pages, bbolt would first have to grow the file,
	// which is not possible with the device /dev/full.
	for i := range 3 {
		if err := db.Update(put("a", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	back := swap(t, f, "/dev/full")
	for range 3 {
		if err := db.Update(put("a", `"lost"`)); !errors.Is(err, ErrFull) || !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%v", err)
		}
		if v := value(t, db, "a"); v != "2" {
			t.Errorf("a is %q", v)
		}
	}
	back()
	if _, err := os.Stat(path + ".ballast"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the ballast is still there: %v", err)
	}
	if err := db.Update(put("b", `"kept"`)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Check(), db.Close()); err != nil {
		t.Fatal(err)
	}
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := value(t, db, "a"), value(t, db, "b"); a != "2" || b != `"kept"` {
		t.Errorf("a is %s, b is %s", a, b)
	}
	if err := errors.Join(db.Check(), db.Close()); err != nil {
		t.Error(err)
	}
}

func TestAFailedSyncPoisons(t *testing.T) {
	t.Parallel()
	path := made(t, 1000)
	db, f := onDisk(t, path, Options{})
	for i := range 3 {
		if err := db.Update(put("a", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	back := swap(t, f, os.DevNull) // /dev/null accepts every write, but cannot be synced
	if err := db.Update(put("a", `"lost"`)); !errors.Is(err, ErrPoisoned) || !errors.Is(err, unix.EINVAL) {
		t.Errorf("%v", err)
	}
	back()
	<-db.Done()
	if err := db.Update(put("a", "4")); !errors.Is(err, ErrPoisoned) {
		t.Errorf("an update of a poisoned store: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if a := value(t, db, "a"); a != "2" {
		t.Errorf("a is %s", a)
	}
	if err := errors.Join(db.Check(), db.Close()); err != nil {
		t.Error(err)
	}
}

// childEnv is the environment variable that makes the test binary run a function of children instead of the tests. The
// value of the variable is a key of the map children, a colon and a path.
const childEnv = "STORE_TEST_CHILD"

var children = map[string]func(path string) error{
	"syncs": commitTwice,
	"names": makeAndCopy,
	"full":  fillDisk,
	"room":  awaitRoom,

	"compact": compactOne,
	"images":  liveTwice,

	"restore on full": restoreOnFullDisk,
	"restore":         restoreOnce,
	"upgrade":         upgradeOnce,
}

func TestMain(m *testing.M) {
	name, path, ok := strings.Cut(os.Getenv(childEnv), ":")
	if !ok {
		os.Exit(m.Run())
	}
	if err := children[name](path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(childFailed)
	}
}

// childFailed is an exit code that strace, unshare and sh never return by themselves.
const childFailed = 23

// A seen is the result that commitTwice prints as JSON.
type seen struct {
	First    string `json:"first"` // error of the first commit; empty on success
	View     string `json:"view"`  // value of record a after the first commit
	Second   string `json:"second"`
	Poisoned bool   `json:"poisoned"`
	Full     bool   `json:"full"`
}

// commitTwice opens the store at path and commits twice, on one thread, so
// that its syncs can be counted. Each commit syncs the data and then the meta
// page: syncs 1 and 2 store the epoch, syncs 3 and 4 are the first commit.
func commitTwice(path string) error {
	runtime.LockOSThread()
	db, err := Open(path, Options{})
	if err != nil {
		return err
	}
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	first := db.Update(put("a", `"first"`))
	view := ""
	second := db.View(func(tx *Tx) error {
		view = string(tx.Get(At(Modules).Str("a")))
		return nil
	})
	if second == nil {
		second = db.Update(put("b", `"second"`))
	}
	return json.NewEncoder(os.Stdout).Encode(seen{
		First: text(first), Second: text(second), View: view,
		Poisoned: errors.Is(second, ErrPoisoned), Full: errors.Is(first, ErrFull),
	})
}

// makeAndCopy makes a store in the directory path, commits once, and makes a snapshot.
func makeAndCopy(path string) error {
	db, err := Open(filepath.Join(path, "store.db"), Options{})
	if err != nil {
		return err
	}
	return errors.Join(db.Update(put("a", "1")), db.SnapshotFile(filepath.Join(path, "snapshot.db")), db.Close())
}

func TestFilesAreOnDiskBeforeTheirNamesAndNamesBeforeTheirUse(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace tells the order of syncs and names, and is not installed")
	}
	dir, trace := t.TempDir(), filepath.Join(t.TempDir(), "trace")
	cmd := exec.CommandContext(t.Context(), strace, "-f", "-qq", "-y", "-s", "1", "-o", trace,
		"-e", "trace=/^(f(data)?sync|link|linkat|rename|renameat|renameat2)$", os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=names:"+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		if cmd.ProcessState.ExitCode() != childFailed {
			t.Skipf("strace may not trace here: %s", out)
		}
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(b)) {
		call := regexp.MustCompile(`(fsync|fdatasync|link|rename)(?:at2?)?\(`).FindStringSubmatch(line)
		if call == nil || strings.Contains(line, "resumed") {
			continue
		}
		what := call[1]
		if fd := regexp.MustCompile(`<([^>]*)>`).FindStringSubmatch(line); fd != nil && strings.HasSuffix(what, "sync") {
			what += " " + regexp.MustCompile(`new-\d+`).ReplaceAllString(strings.Replace(fd[1], dir, "DIR", 1), "new")
		}
		if n := len(got); n == 0 || got[n-1] != what {
			got = append(got, what)
		}
	}
	want := []string{
		"fdatasync DIR/.store.db.new", "link", "fsync DIR", // the new store
		"fdatasync DIR/store.db",                                                              // the epoch and the update
		"fsync DIR/.snapshot.db.new", "fdatasync DIR/.snapshot.db.new", "rename", "fsync DIR", // the snapshot
	}
	got = slices.DeleteFunc(got, func(s string) bool {
		return s == "fsync DIR/.store.db.new" || s == "fsync DIR/store.db" // bbolt also syncs a file when the file grows
	})
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, b)
	}
}

func TestALoneUpdateCostsTwoSyncs(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace counts syncs, and is not installed")
	}
	path, trace := made(t, 100), filepath.Join(t.TempDir(), "trace")
	cmd := exec.CommandContext(t.Context(), strace, "-f", "-qq", "-o", trace, "-e", "trace=fsync,fdatasync", os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=syncs:"+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		if cmd.ProcessState.ExitCode() != childFailed {
			t.Skipf("strace may not trace here: %s", out)
		}
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte("sync(")); n != 6 {
		t.Errorf("%d syncs for an epoch and two updates:\n%s", n, b)
	}
}

func TestWhatAnErrorOfEachSyncLeads(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace makes syncs fail, and is not installed; without it, only the tests that swap the file have failing writes and syncs")
	}
	for _, c := range []struct {
		claim    string
		sync     int
		errno    string
		poisoned bool
		full     bool
		kept     []string // possible values of record a after a restart
	}{
		{"NoSpaceForTheDataCanBeTriedAgain", 3, "ENOSPC", false, true, []string{""}},
		{"AnErrorOfTheDataPoisons", 3, "EIO", true, false, []string{""}},
		{"NoSpaceForTheMetaPagePoisons", 4, "ENOSPC", true, false, []string{"", `"first"`}},
		{"AnErrorOfTheMetaPagePoisons", 4, "EIO", true, false, []string{"", `"first"`}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			t.Parallel()
			path := made(t, 100)
			cmd := exec.CommandContext(t.Context(), strace, "-f", "-qq", "-o", os.DevNull, "-e", "trace=fdatasync",
				"-e", fmt.Sprintf("inject=fdatasync:error=%s:when=%d", c.errno, c.sync), os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"=syncs:"+path)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				if cmd.ProcessState.ExitCode() != childFailed {
					t.Skipf("strace may not trace here: %s", stderr.String())
				}
				t.Fatalf("%v: %s", err, stderr.String())
			}
			var got seen
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got.First == "" || got.Poisoned != c.poisoned || got.Full != c.full || (got.Second != "") != c.poisoned {
				t.Errorf("%+v", got)
			}
			if got.View != "" {
				t.Errorf("a view shows %s, which was never committed", got.View)
			}
			db, err := Open(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			a, b := value(t, db, "a"), value(t, db, "b")
			if found := strings.Contains(strings.Join(c.kept, "|")+"|", a+"|"); !found || (b != "") == c.poisoned {
				t.Errorf("after a restart a is %q, b is %q", a, b)
			}
			if err := errors.Join(db.Check(), db.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// fillDisk writes to a new store in the directory path until the disk is full. fillDisk checks that
// nothing is lost and that the store can continue.
func fillDisk(path string) error {
	path = filepath.Join(path, "store.db")
	o := Options{Ballast: 512 << 10}
	db, err := Open(path, o)
	if err != nil {
		return err
	}
	n := 0
	for ; err == nil; n++ {
		err = db.Update(func(tx *Tx) error { return Save(tx, At(Metrics).Uint(uint64(n)), strings.Repeat("x", 30_000)) })
	}
	if !errors.Is(err, ErrFull) || n < 20 {
		return fmt.Errorf("update %d: want %w, got %w", n, ErrFull, err)
	}
	if _, err := os.Stat(path + ".ballast"); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the ballast is still there: %w", err)
	}
	if err := db.Update(put("a", "1")); err != nil {
		return fmt.Errorf("without the ballast: %w", err)
	}
	for err = nil; err == nil; n++ {
		err = db.Update(func(tx *Tx) error { return Save(tx, At(Journal).Uint(uint64(n)), strings.Repeat("x", 30_000)) })
	}
	if !errors.Is(err, ErrFull) {
		return fmt.Errorf("want %w again, got %w", ErrFull, err)
	}
	if err := errors.Join(db.NoteCleanExit(), db.backend.Check(), db.Close()); err != nil {
		return fmt.Errorf("end on a full disk: %w", err)
	}
	last := db.Epoch()
	_, err = Open(filepath.Join(filepath.Dir(path), "other.db"), o)
	if !errors.Is(err, ErrFull) {
		return fmt.Errorf("a new store on a full disk: want %w, got %w", ErrFull, err)
	}
	if names, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*other*")); err != nil || len(names) > 0 {
		return fmt.Errorf("it left %q, %w", names, err)
	}
	// If the disk is full, there is no ballast when the next process opens the store, so the file
	// must have free pages for the new epoch.
	db, err = Open(path, o)
	if err != nil {
		return fmt.Errorf("open on a full disk: %w", err)
	}
	if !db.ExitedCleanly(last) {
		return fmt.Errorf("epoch %d has noted its clean exit on a full disk, but the next process does not know it", last)
	}
	if err := db.Update(func(tx *Tx) error {
		for k := range tx.Range(At(Metrics)) {
			tx.Delete(k)
		}
		for k := range tx.Range(At(Journal)) {
			tx.Delete(k)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("free space in the store: %w", err)
	}
	return errors.Join(db.Check(), db.Close())
}

// awaitRoom fills the disk of a new store in the directory path with a file. awaitRoom checks that
// an update waits until the file is deleted, and that the ballast is created again.
func awaitRoom(path string) error {
	path = filepath.Join(path, "store.db")
	const ballast = 512 << 10
	changes := make(chan *Shortage, 100)
	db, err := Open(path, Options{Ballast: ballast, Shortage: func(s *Shortage) { changes <- s }})
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".other", make([]byte, 8<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("fill the disk: %w", err)
	}
	big := func(n int) func(*Tx) error {
		return func(tx *Tx) error { return Save(tx, At(Metrics).Uint(uint64(n)), strings.Repeat("x", 400_000)) }
	}
	n := 0
	for failed := 0; n < 100 && failed < 3; n++ { // at the first failure, the store deletes the ballast
		if err = db.Update(big(n)); errors.Is(err, ErrFull) {
			failed++
		}
	}
	if !errors.Is(err, ErrFull) || db.Shortage() == nil {
		return fmt.Errorf("after %d updates: %w, shortage %+v", n, err, db.Shortage())
	}
	updated := make(chan error, 1)
	go func() { updated <- db.UpdateWithRoom(context.Background(), big(n)) }()
	select {
	case err := <-updated:
		return fmt.Errorf("the update did not wait: %w", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := os.Remove(path + ".other"); err != nil {
		return err
	}
	if err := <-updated; err != nil {
		return err
	}
	var told *Shortage
	for n := len(changes); n > 0; n-- {
		told = <-changes
	}
	if told != nil || db.Shortage() != nil {
		return fmt.Errorf("the shortage is still reported: %+v", told)
	}
	if info, err := os.Stat(path + ".ballast"); err != nil || info.Size() != ballast {
		return fmt.Errorf("the ballast was not made again: %w", err)
	}
	return errors.Join(db.Check(), db.Close())
}

func TestAnUpdateOnAFullDiskWaitsForRoom(t *testing.T) {
	t.Parallel()
	onSmallDisk(t, "room")
}

func TestAStoreOutlivesAFullDisk(t *testing.T) {
	t.Parallel()
	onSmallDisk(t, "full")
}

// onSmallDisk runs a child on a file system of 4 MiB.
func onSmallDisk(t *testing.T, child string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "--mount",
		"sh", "-c", `mount -t tmpfs -o size=4m none "$1" && exec "$2"`, "sh", dir, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+child+":"+dir)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState.ExitCode() != childFailed { // the exit code is -1 if unshare is missing
		t.Skipf("no small file system can be mounted here; only the test that replaces the file by a full device has a full disk: %v: %s", err, out)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestNobodySeesACommitBeforeItIsOnDisk(t *testing.T) {
	t.Parallel()
	db, err := Open(filepath.Join(t.TempDir(), "store.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	b, ok := db.backend.(*bolt)
	if !ok {
		t.Fatalf("a store in a file has a %T", db.backend)
	}
	// Simulate a commit of bbolt whose sync has not returned: its pages are in the file, and the
	// store does not treat it as durable.
	b.committing.Lock()
	if err := b.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucket).Put(At(Modules).Str("a"), []byte("1"))
	}); err != nil {
		t.Fatal(err)
	}
	got := make(chan string)
	go func() {
		v := ""
		err := db.View(func(tx *Tx) error {
			v = string(tx.Get(At(Modules).Str("a")))
			return nil
		})
		got <- fmt.Sprint(v, err)
	}()
	select {
	case s := <-got:
		t.Fatalf("seen before the sync has returned: %s", s)
	case <-time.After(50 * time.Millisecond):
	}
	b.durable.Add(1)
	b.committing.Unlock()
	select {
	case s := <-got:
		if s != "1<nil>" {
			t.Errorf("after the sync: %s", s)
		}
	case <-time.After(90 * time.Second):
		t.Error("the view never ends")
	}
}
