package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"addon-operator/store"
)

// nowhere is a kubeconfig file that names an API server which does not respond.
const nowhere = `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],` +
	`"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}]}`

func TestAStoreThatCannotBeOpenedEndsTheStartAndIsLeftAlone(t *testing.T) {
	for _, test := range []struct {
		name    string
		prepare func(t *testing.T, path string)
		code    int
		says    string
	}{
		{"locked", func(t *testing.T, path string) {
			t.Helper()
			db := makeStore(t, path)
			t.Cleanup(func() { db.Close() })
		}, exitLocked, "in use by another process"},
		{"corrupt", func(t *testing.T, path string) {
			t.Helper()
			closeStore(t, makeStore(t, path))
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			info, _ := f.Stat()
			if _, err := f.WriteAt(make([]byte, info.Size()-2*4096), 2*4096); err != nil {
				t.Fatal(err)
			}
		}, exitCorrupt, "rename the file"},
		{"truncated", func(t *testing.T, path string) {
			t.Helper()
			closeStore(t, makeStore(t, path))
			if err := os.Truncate(path, 3*4096); err != nil {
				t.Fatal(err)
			}
		}, exitCorrupt, "restore a snapshot with addon-operator store restore"},
		{"no store", func(t *testing.T, path string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(strings.Repeat("dear diary, ", 5000)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, exitCorrupt, "not a store"},
		{"newer", func(t *testing.T, path string) {
			t.Helper()
			db := makeStore(t, path)
			if err := db.Update(func(tx *store.Tx) error { return store.Save(tx, store.At(store.Meta).Str("schema"), 999) }); err != nil {
				t.Fatal(err)
			}
			closeStore(t, db)
		}, exitNewer, "newer version"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newFixture(t)
			s.file("kubeconfig", nowhere)
			test.prepare(t, s.path("store.db"))
			before, err := os.ReadFile(s.path("store.db"))
			if err != nil {
				t.Fatal(err)
			}
			err = Run(t.Context(), readSettings(t, s.flags(s.path("kubeconfig"), "default")...), io.Discard)
			if exitCode(err) != test.code || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), s.path("store.db")) {
				t.Errorf("code %d, error %v", exitCode(err), err)
			}
			after, err := os.ReadFile(s.path("store.db"))
			if err != nil || string(after) != string(before) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
}

func makeStore(t *testing.T, path string) *store.DB {
	t.Helper()
	// If another test starts a process, the child process inherits the lock of a store that this process has opened.
	// The child process holds the lock until it executes its program, even if the store is closed.
	db, err := store.Open(path, store.Options{LockWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func closeStore(t *testing.T, db *store.DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAFullDiskEndsTheStartWithItsOwnCode(t *testing.T) {
	s := newFixture(t)
	s.file("kubeconfig", nowhere)
	disk := t.TempDir()
	start := process(t, append([]string{"start"}, append(s.flags(s.path("kubeconfig"), "default"), "--store", filepath.Join(disk, "store.db"))...)...)
	cmd := exec.CommandContext(t.Context(), "timeout", append([]string{
		"90", "unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
		`mount -t tmpfs -o size=64k none "$1" || exit 99
		dd if=/dev/zero of="$1/fill" bs=4096 2>/dev/null; files=$(ls -A "$1"); disk=$1; shift
		"$@"; code=$?
		[ "$files" = "$(ls -A "$disk")" ] || { ls -A "$disk"; exit 98; }; exit $code`,
		"sh", disk, start.Path,
	}, start.Args[1:]...)...)
	printed, err := cmd.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	if errors.Is(err, exec.ErrNotFound) || errors.As(err, &exit) && exit.ExitCode() == 99 {
		t.Skipf("no disk can be made here: %s", printed)
	}
	if exit == nil || exit.ExitCode() != exitFull || !strings.Contains(string(printed), "no space") {
		t.Errorf("%v: %s", err, printed)
	}
}

func TestADirectoryThatIsMissingIsAStartErrorThatNamesTheFlag(t *testing.T) {
	for flag, dir := range map[string]string{"--modules-dir": "modules", "--global-hooks-dir": "global-hooks"} {
		s := newFixture(t)
		s.file("kubeconfig", nowhere)
		if err := os.Remove(s.path(dir)); err != nil {
			t.Fatal(err)
		}
		err := Run(t.Context(), readSettings(t, s.flags(s.path("kubeconfig"), "default")...), io.Discard)
		if exitCode(err) != exitUsage || !strings.Contains(err.Error(), flag) {
			t.Errorf("code %d, error %v", exitCode(err), err)
		}
		if _, err := os.Stat(s.path("store.db")); err == nil {
			t.Error("a store was made")
		}
	}
}

func TestANamespaceThatIsNotKnownIsAStartError(t *testing.T) {
	s := newFixture(t)
	s.file("kubeconfig", nowhere)
	err := Run(context.Background(), readSettings(t, s.flags(s.path("kubeconfig"), "")...), io.Discard)
	if exitCode(err) != exitUsage || !strings.Contains(err.Error(), "--namespace") {
		t.Errorf("code %d, error %v", exitCode(err), err)
	}
}

func TestRecordsThatAreMovedWhenTheStoreIsOpenedAreCountedAndLogged(t *testing.T) {
	s := newFixture(t)
	db := makeStore(t, s.path("store.db"))
	if err := db.Update(func(tx *store.Tx) error {
		tx.Put(store.StartupKey(), []byte(`{"mode":`))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, db)
	s.file("kubeconfig", nowhere)
	s.start(s.path("kubeconfig"), "default", "--lease", "off")
	if got, want := s.get("/metrics"), `addon_operator_damaged_records_total{table="meta"} 1`; !strings.Contains(got, want) {
		t.Errorf("the metrics have no %s", want)
	}
	if log, want := s.log.String(), "moved unreadable record to the table of damaged records"; strings.Count(log, want) != 1 {
		t.Errorf("the log does not say once %q:\n%s", want, log)
	}
}
