// Package storetest opens stores for tests, and tests backends.
package storetest

import (
	"path/filepath"
	"testing"

	"addon-operator/store"
)

// Open returns a new store in a file of its own. When the test ends, the store is checked, if it still
// accepts transactions, and closed.
func Open(t testing.TB) *store.DB {
	t.Helper()
	db, err := store.Open(filepath.Join(t.TempDir(), "store.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return checked(t, db)
}

// Memory returns a new store in memory. When the test ends, the store is checked, if it still accepts
// transactions, and closed.
func Memory(t testing.TB) *store.DB {
	t.Helper()
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return checked(t, db)
}

func checked(t testing.TB, db *store.DB) *store.DB {
	t.Helper()
	t.Cleanup(func() {
		if db.Err() == nil {
			if err := db.Check(); err != nil {
				t.Error(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}
