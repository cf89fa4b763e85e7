package module

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
)

// watchOf returns a watch of no directory, and the errors that it reports.
func watchOf(t *testing.T) (w *watch, failed *[]string) {
	t.Helper()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := watcher.Close(); err != nil {
			t.Error(err)
		}
	})
	failed = new([]string)
	return &watch{watcher: watcher, reported: map[string]bool{}, failed: func(err error) { *failed = append(*failed, err.Error()) }}, failed
}

// watched returns the watched directories below root, sorted.
func watched(w *watch, root string) []string {
	var dirs []string
	for _, path := range w.watcher.WatchList() {
		dirs = append(dirs, strings.TrimPrefix(path, root))
	}
	slices.Sort(dirs)
	return dirs
}

func TestDirectoriesOfModulesAreWatchedWithoutThoseOfTools(t *testing.T) {
	t.Parallel()
	root, elsewhere := t.TempDir(), t.TempDir()
	for _, dir := range []string{"010-web/hooks/sub", "010-web/.git", "010-web/hooks/venv/lib", "010-web/hooks/node_modules/a", ".hidden"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(root, "values.yaml"), nil, 0o600),
		os.Mkdir(filepath.Join(elsewhere, "hooks"), 0o700),
		os.Symlink(elsewhere, filepath.Join(root, "020-linked")),
		os.Symlink(elsewhere, filepath.Join(root, "010-web", "templates")),
		os.Symlink("nowhere", filepath.Join(root, "030-unmounted")),
	); err != nil {
		t.Fatal(err)
	}
	w, failed := watchOf(t)
	w.addAll([]string{root})
	want := []string{"", "/010-web", "/010-web/hooks", "/010-web/hooks/sub", "/020-linked", "/020-linked/hooks"}
	if diff := cmp.Diff(want, watched(w, root)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := os.MkdirAll(filepath.Join(root, "040-new", "hooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.addAll([]string{root})
	if diff := cmp.Diff(append(want, "/040-new", "/040-new/hooks"), watched(w, root)); diff != "" {
		t.Errorf("with a new module (-want +got):\n%s", diff)
	}
	if len(*failed) != 0 {
		t.Errorf("reported errors %q", *failed)
	}
}

func TestADirectoryThatCannotBeWatchedIsReportedOnceAndHidesNoOther(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	missing := filepath.Join(root, "missing")
	w, failed := watchOf(t)
	w.addAll([]string{missing, root})
	w.addAll([]string{missing, root})
	want := []string{"directory " + missing + " is not watched: no such file or directory; run addon-operator reload after changes, or raise fs.inotify.max_user_watches"}
	if diff := cmp.Diff(want, *failed); diff != "" {
		t.Errorf("reported errors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{""}, watched(w, root)); diff != "" {
		t.Errorf("watched (-want +got):\n%s", diff)
	}
}
