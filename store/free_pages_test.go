package store

import (
	"os"
	"testing"

	"go.etcd.io/bbolt"
)

// listsFreePages verifies the file at path, and reports whether the newer meta page of the file refers to a list of
// free pages.
func listsFreePages(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	v, err := inspectBolt(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	return v.meta.freelist != noFreelist
}

// freePages returns the number of pages that bbolt can use again.
func freePages(t *testing.T, db *DB) int {
	t.Helper()
	b, ok := db.backend.(*bolt)
	if !ok {
		t.Fatalf("the backend is a %T", db.backend)
	}
	s := b.db.Stats()
	return s.FreePageN + s.PendingPageN
}

func TestACommitListsTheFreePagesUnlessThereAreMany(t *testing.T) {
	t.Parallel()
	path := made(t, 100)
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // an error of Close is not what this test checks
	commit := func(change func(*Tx)) {
		t.Helper()
		if err := db.Update(func(tx *Tx) error { change(tx); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	touch := func() { commit(func(tx *Tx) { tx.Put(At(Modules).Str("touched"), record) }) }
	// reopened opens the file with bbolt, and checks that bbolt finds the same number of free pages. If the file has no
	// list of them, bbolt searches the file. Then reopened opens the store again.
	reopened := func() {
		t.Helper()
		before := freePages(t, db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		raw, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
		if err != nil {
			t.Fatal(err)
		}
		after := raw.Stats().FreePageN
		if err := raw.Close(); err != nil {
			t.Fatal(err)
		}
		if db, err = Open(path, Options{}); err != nil {
			t.Fatal(err)
		}
		if before != after {
			t.Errorf("%d pages were free, and %d after the file was opened again", before, after)
		}
	}

	touch()
	if n := freePages(t, db); n == 0 || n > mostListed {
		t.Fatalf("%d free pages", n)
	}
	if !listsFreePages(t, path) {
		t.Error("few free pages are not listed: the next start searches the whole file for them")
	}
	reopened()

	large := make([]byte, (mostListed+100)*os.Getpagesize())
	commit(func(tx *Tx) { tx.Put(At(Modules).Str("large"), large) })
	commit(func(tx *Tx) { tx.Delete(At(Modules).Str("large")) })
	touch()
	if listsFreePages(t, path) {
		t.Errorf("%d free pages are listed: each commit writes them", freePages(t, db))
	}
	reopened()

	commit(func(tx *Tx) { tx.Put(At(Modules).Str("large"), large) })
	touch()
	if !listsFreePages(t, path) {
		t.Errorf("%d free pages are not listed, although they are few again", freePages(t, db))
	}
	reopened()
}
