package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// flooded creates a store on disk, writes many records and deletes all of them but one. It returns
// the path of the store.
func flooded(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	kept := func(tx *Tx) error { return Save(tx, At(Modules).Str("kept"), strings.Repeat("k", 1000)) }
	if err := db.Update(kept); err != nil {
		t.Fatal(err)
	}
	event := bytes.Repeat([]byte("e"), 3000)
	for n := 0; n < 15_000; {
		if err := db.Update(func(tx *Tx) error {
			for ; n < 15_000 && !tx.Spent(); n++ {
				tx.Put(At(Payloads).Uint(uint64(n)), event)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for more := true; more; {
		if err := db.Update(func(tx *Tx) error {
			more = false
			for k := range tx.Range(At(Payloads)) {
				if more = tx.Spent(); more {
					return nil
				}
				tx.Delete(k)
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

// bytesWritten calls the function change, and returns the total size in bytes of the pages of the
// file at path that this call has modified.
func bytesWritten(t testing.TB, path string, change func() error) (written int) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := change(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at, size := 0, os.Getpagesize(); at < len(after); at += size {
		if at >= len(before) || !bytes.Equal(before[at:at+size], after[at:at+size]) {
			written += size
		}
	}
	return written
}

// BenchmarkCommitAfterAFlood measures the bytes that a commit of one record writes to a file in
// which 45 MB of records were written and deleted.
func BenchmarkCommitAfterAFlood(b *testing.B) {
	path := flooded(b)
	db, _ := onDisk(b, path, Options{}) // opens the store like Open, but does not compact it
	written := 0
	for b.Loop() {
		written += bytesWritten(b, path, func() error { return db.Update(put("a", "1")) })
	}
	b.ReportMetric(float64(written)/1024/float64(b.N), "KiB/commit")
	if err := db.Close(); err != nil {
		b.Error(err)
	}
}

func TestACommitAfterAFloodWritesNoMoreThanBefore(t *testing.T) {
	t.Parallel()
	path := flooded(t)
	o := Options{}
	db, _ := onDisk(t, path, o) // opens the store like Open, but does not compact it
	if err := db.Update(put("a", "1")); err != nil {
		t.Fatal(err)
	}
	written := bytesWritten(t, path, func() error { return db.Update(put("a", "2")) })
	if written == 0 || written > 32<<10 {
		t.Errorf("a commit of one record wrote %d bytes", written)
	}
	if err := errors.Join(db.Check(), db.Close()); err != nil {
		t.Error(err)
	}
}

func TestAStoreThatIsMostlyFreeIsCompactedWhenItIsOpened(t *testing.T) {
	t.Parallel()
	path := flooded(t)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := db.Compaction()
	if c == nil || c.Err != nil || c.Before != info.Size() || c.After > c.Before/4 {
		t.Fatalf("the compaction of the file of %d bytes is %+v", info.Size(), c)
	}
	if got := value(t, db, "kept"); len(got) != 1002 || db.Epoch() != 2 {
		t.Errorf("kept %d bytes, in epoch %d", len(got), db.Epoch())
	}
	if _, err := Open(path, Options{LockWait: 1}); !errors.Is(err, ErrLocked) {
		t.Errorf("a second process opens the compacted store: %v", err)
	}
	if err := errors.Join(db.Update(put("a", "1")), db.Check(), db.Close()); err != nil {
		t.Fatal(err)
	}
	db, err = Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if db.Compaction() != nil || value(t, db, "a") != "1" {
		t.Errorf("opened again: %+v, a is %q", db.Compaction(), value(t, db, "a"))
	}
	if names, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(names) > 0 {
		t.Errorf("left behind: %q, %v", names, err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestCompactWritesANewFileOfAnUnusedStore(t *testing.T) {
	t.Parallel()
	path := made(t, 3000)
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Compact(path, Options{LockWait: 1}); !errors.Is(err, ErrLocked) {
		t.Errorf("a store in use is compacted: %v", err)
	}
	id := db.ID()
	if err := errors.Join(db.Update(put("a", "1")), db.Close()); err != nil {
		t.Fatal(err)
	}
	if c, err := Compact(path, Options{}); err != nil || c.Before == 0 || c.After == 0 {
		t.Errorf("got %+v, %v", c, err)
	}
	if db, err = Open(path, Options{}); err != nil {
		t.Fatal(err)
	}
	if db.ID() != id || db.Epoch() != 3 || value(t, db, "a") != "1" {
		t.Errorf("id %s, epoch %d, a is %q", db.ID(), db.Epoch(), value(t, db, "a"))
	}
	if err := errors.Join(db.Check(), db.Close()); err != nil {
		t.Error(err)
	}
}

func TestAFileThatRootReplacesKeepsItsOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can change the owner of a file")
	}
	const owner = 65532
	snapshot := made(t, 10)
	for name, replace := range map[string]func(path string) error{
		"compact": func(path string) error {
			_, err := Compact(path, Options{})
			return err
		},
		"restore": func(path string) error {
			_, err := Restore(path, snapshot, RestoreOptions{OtherStore: true})
			return err
		},
	} {
		path := made(t, 10)
		if err := os.Chown(path, owner, owner); err != nil {
			t.Fatal(err)
		}
		if err := replace(path); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var is unix.Stat_t
		if err := unix.Stat(path, &is); err != nil {
			t.Fatal(err)
		}
		if is.Uid != owner || is.Gid != owner {
			t.Errorf("%s: the owner is %d:%d", name, is.Uid, is.Gid)
		}
	}
}

func TestACompactionInPiecesKeepsEveryRecord(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const records = 5
	for n := range uint64(records) {
		if err := db.Update(func(tx *Tx) error {
			return Save(tx, At(Metrics).Uint(n), strings.Repeat("m", compactPiece/2))
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Compact(path, Options{}); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(path, Options{}); err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := db.View(func(tx *Tx) error {
		for range tx.Range(At(Metrics)) {
			n++
		}
		return nil
	}); err != nil || n != records {
		t.Errorf("%d of %d records are left: %v", n, records, err)
	}
	if err := errors.Join(db.Check(), db.Close()); err != nil {
		t.Error(err)
	}
}

// compactOne opens the store at path, and checks the store. Open compacts the store. compactOne is the main function
// of a process that the test kills.
func compactOne(path string) error {
	runtime.LockOSThread() // all system calls must be on one thread, because strace counts the calls of each thread separately
	db, err := Open(path, Options{})
	if err != nil {
		return err
	}
	return errors.Join(db.Check(), db.Close())
}

func TestACompactionThatIsKilledLeavesAWholeStore(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace kills at a system call, and is not installed")
	}
	whole, err := os.ReadFile(flooded(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"fdatasync:signal=KILL:when=1", "fdatasync:signal=KILL:when=3", "rename,renameat,renameat2:signal=KILL:when=1", "fsync:signal=KILL:when=1"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store.db")
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), strace, "-f", "-qq", "-o", os.DevNull, "-e", "inject="+at, os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"=compact:"+path)
			out, err := cmd.CombinedOutput()
			if err != nil && cmd.ProcessState.ExitCode() > 0 && cmd.ProcessState.ExitCode() != childFailed && cmd.ProcessState.ExitCode() != 137 {
				t.Skipf("strace may not trace here: %s", out)
			}
			if err == nil {
				t.Error("it was not killed")
			}
			db, err := Open(path, Options{})
			if err != nil {
				t.Fatalf("%v after %s", err, out)
			}
			if got := value(t, db, "kept"); len(got) != 1002 {
				t.Errorf("kept %d bytes", len(got))
			}
			if err := errors.Join(db.Check(), db.Close()); err != nil {
				t.Error(err)
			}
			if names, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(names) > 0 {
				t.Errorf("left behind: %q, %v", names, err)
			}
		})
	}
}

func TestAStoreThatCannotBeCompactedIsUsedAsItIs(t *testing.T) {
	t.Parallel()
	path := flooded(t)
	if err := os.Mkdir(fmt.Sprintf("%s/.%s.compact", filepath.Dir(path), filepath.Base(path)), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := db.Compaction(); c == nil || c.Err == nil || len(value(t, db, "kept")) != 1002 {
		t.Errorf("compaction %+v", c)
	}
	if err := errors.Join(db.Update(put("a", "1")), db.Close()); err != nil {
		t.Error(err)
	}
}
