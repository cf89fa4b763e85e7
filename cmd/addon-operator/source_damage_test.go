package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"addon-operator/store"
)

// TestACommandThatFindsDamageInAStoreEndsWithIt damages the pages of the store file that have runs, but not the page
// that is read when the store is opened. A command that reads a damaged page must print no data, and exit with
// exitCorrupt.
func TestACommandThatFindsDamageInAStoreEndsWithIt(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	path := s.path("store.db")
	db := makeStore(t, path)
	if err := db.Update(func(tx *store.Tx) error {
		for id := range uint64(2000) {
			if err := store.Save(tx, store.RunKey(id+1), store.Run{ID: id + 1, Graph: "lifecycle", Trigger: "start"}); err != nil {
				return err
			}
		}
		return store.Save(tx, store.ModuleKey("first"), store.Module{State: store.On, Enabled: true})
	}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, db)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for page := range len(file) / os.Getpagesize() {
		p := file[page*os.Getpagesize():][:os.Getpagesize()]
		if bytes.Count(p, []byte(`"trigger":"start"`)) > 5 && !bytes.Contains(p, []byte("schema")) {
			p[10]-- // the header of the page counts one record less
			damaged++
		}
	}
	if damaged < 20 {
		t.Fatalf("%d damaged pages", damaged)
	}
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"status", "diagnose", "workflow list", "workflow inspect 7", "why 7", "timeline", "store check", "store dump runs", "raw /workflow/list.json"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			cmd := asked(t, path, verb)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			exit := (*exec.ExitError)(nil)
			if !errors.As(err, &exit) || exit.ExitCode() != exitCorrupt || stdout.Len() > 0 {
				t.Errorf("%v, want code %d and no output\n%s", err, exitCorrupt, stdout.String())
			}
			for _, part := range []string{path, "store is corrupt", "page ", "; restore a snapshot with addon-operator store restore"} {
				if !strings.Contains(stderr.String(), part) {
					t.Errorf("stderr does not contain %q:\n%s", part, stderr.String())
				}
			}
		})
	}
}
