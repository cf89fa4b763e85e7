package module_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write writes files below dir. The argument files maps paths to texts. The text "x" creates an executable file, and
// a text that begins with "-> " creates a symlink. A path that ends with a slash creates a directory.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		target, isLink := strings.CutPrefix(text, "-> ")
		switch {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		case isLink:
			err = os.Symlink(target, path)
		case text == "x":
			err = os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755)
		default:
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// tree creates a directory with files, which are given as in [write].
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, files)
	return dir
}
