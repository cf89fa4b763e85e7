package author_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVersionsInTheIndexAreOrderedAsSemanticVersions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, version := range []string{"1.9.0", "1.10.0", "1.10.0-rc.2", "1.10.0-rc.10", "0.1.0"} {
		writeAddon(t, filepath.Join(dir, "store-"+version), string(rune('a'+i)), "store", version)
	}
	if _, err := open(t, dir).WriteIndex(dir); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(read(t, filepath.Join(dir, "index.yaml")))) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "version: "); ok {
			got = append(got, version)
		}
	}
	if diff := cmp.Diff([]string{"1.10.0", "1.10.0-rc.10", "1.10.0-rc.2", "1.9.0", "0.1.0"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestARepositoryOfArchivesCanBeIndexedButNotPackedAgain(t *testing.T) {
	t.Parallel()
	dir, public := t.TempDir(), filepath.Join(t.TempDir(), "new", "public")
	writeAddon(t, filepath.Join(dir, "store-1.0.0"), "a", "store", "1.0.0")
	if names, err := open(t, dir).Package(public); err != nil || len(names) != 1 {
		t.Fatalf("packed %q, %v", names, err)
	}
	if names, err := open(t, public).Package(public); err == nil || err.Error() != public+" has archives only; there is no directory to pack" || names != nil {
		t.Errorf("packed %q, %v", names, err)
	}
	if entries, err := open(t, public).WriteIndex(public); err != nil || entries != 1 {
		t.Errorf("%d entries, %v", entries, err)
	}
	if got := lint(t, public); got != "store-1.0.0.tgz: OK\n" {
		t.Errorf("lint: %s", got)
	}
	entries, err := os.ReadDir(public)
	if err != nil || len(entries) != 2 { // no temporary file is left
		t.Errorf("files %v, %v", entries, err)
	}
	if info, err := os.Stat(filepath.Join(public, "index.yaml")); err != nil || info.Mode().Perm() != 0o644 { // so that a web server can read it
		t.Errorf("%v, %v", info, err)
	}
}
