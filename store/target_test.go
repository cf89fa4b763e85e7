package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// linked returns the path of a symbolic link to another link, which leads to the file at path.
func linked(t *testing.T, path string) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Symlink(path, filepath.Join(dir, "second.db")), os.Symlink("second.db", filepath.Join(dir, "store.db"))); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "store.db")
}

// replacedBehindLinks checks that the links that linked has made are the only files in their directory, and that they
// lead to another file than before.
func replacedBehindLinks(t *testing.T, link string, before os.FileInfo) {
	t.Helper()
	files, err := os.ReadDir(filepath.Dir(link))
	if err != nil || len(files) != 2 || files[0].Type() != os.ModeSymlink || files[1].Type() != os.ModeSymlink {
		t.Errorf("the directory of the links has %v, %v", files, err)
	}
	if after, err := os.Stat(link); err != nil || os.SameFile(before, after) {
		t.Errorf("the links lead to the same file as before: %v", err)
	}
}

func TestACompactionReplacesTheFileToWhichLinksLead(t *testing.T) {
	t.Parallel()
	path := made(t, 100)
	link := linked(t, path)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Compact(link, Options{}); err != nil {
		t.Fatal(err)
	}
	replacedBehindLinks(t, link, before)
}

// TestARelativeLinkLeadsFromItsRealDirectory has a link to the directory of the link to the store. The kernel follows that
// link before "..".
func TestARelativeLinkLeadsFromItsRealDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "volume", "links"), 0o700),
		os.Symlink("../store.db", filepath.Join(dir, "volume", "links", "store.db")),
		os.Symlink(filepath.Join("volume", "links"), filepath.Join(dir, "links")),
	); err != nil {
		t.Fatal(err)
	}
	to, err := target(filepath.Join(dir, "links", "store.db"))
	if want := filepath.Join(dir, "volume", "store.db"); err != nil || to != want {
		t.Errorf("it leads to %q, not to %q: %v", to, want, err)
	}
}

func TestARestoreReplacesTheFileToWhichLinksLead(t *testing.T) {
	t.Parallel()
	path, snapshot := mustRestorable(t)
	link := linked(t, path)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Restore(link, snapshot, RestoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	replacedBehindLinks(t, link, before)
	if aside, err := os.Lstat(path + ".replaced.1"); err != nil || !os.SameFile(before, aside) || r.Aside != path+".replaced.1" {
		t.Errorf("the replaced file is %q: %v", r.Aside, err)
	}
	if err := checkRestored(path); err != nil {
		t.Error(err)
	}
}

func TestALoopOfLinksLeadsToNoStore(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "store.db")
	if err := os.Symlink("store.db", link); err != nil {
		t.Fatal(err)
	}
	if to, err := target(link); !errors.Is(err, unix.ELOOP) {
		t.Errorf("it leads to %q, %v", to, err)
	}
}
