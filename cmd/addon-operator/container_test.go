package main

import (
	"io"
	"os"
	"testing"

	"addon-operator/store"
)

func TestTheIdentityOfAContainerIsItsFirstProcessAndItsRootFileSystem(t *testing.T) {
	t.Parallel()
	stat := []byte("1 (a) odd (name) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 99 98\n")
	if got := startTime(stat); got != "4711" {
		t.Errorf("the start time is %q", got)
	}
	mounts := []byte("22 1 0:21 / / rw - overlay overlay upperdir=/a\n23 22 0:5 / /proc rw - proc proc rw\n24 22 0:30 / / rw - overlay overlay upperdir=/b\n")
	if got := rootMount(mounts); got != "0:30 / / rw - overlay overlay upperdir=/b" {
		t.Errorf("the root file system is %q", got)
	}
	if startTime(nil) != "" || rootMount(nil) != "" {
		t.Error("what cannot be read is not left out")
	}
}

func TestAProcessKnowsWhetherTheLastOneRanInItsContainer(t *testing.T) {
	t.Parallel()
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	mark := containerFile(t.TempDir(), db.ID())
	expect := func(want bool, why string) {
		t.Helper()
		if is, err := mark.inNewContainer(); is != want || err != nil {
			t.Errorf("%s: new container %t, %v", why, is, err)
		}
	}
	expect(true, "the file is missing")
	if err := mark.write(); err != nil {
		t.Fatal(err)
	}
	expect(false, "the file is of this container")
	if err := os.WriteFile(string(mark), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(true, "the file is of another container")

	// A process that is killed while it writes must not leave a part of the identity.
	before, err := os.Open(string(mark))
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	if err := mark.write(); err != nil {
		t.Fatal(err)
	}
	expect(false, "the file is of this container again")
	if b, err := io.ReadAll(before); string(b) != "another" || err != nil {
		t.Errorf("the file was not replaced but written: it contained %q, %v", b, err)
	}
}
