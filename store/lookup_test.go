package store_test

import (
	"iter"
	"testing"
	"time"

	"addon-operator/store"
)

// inMemory opens a new store in memory, and closes it at the end of the test. The records of the store need not
// agree with each other. The variable now is the time of its transactions.
func inMemory(t *testing.T) (db *store.DB) {
	t.Helper()
	db, err := store.OpenMemory(new(store.Memory), store.Options{Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// now is the time of the stores that inMemory opens.
var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func view(t *testing.T, db *store.DB, fn func(*store.Tx) error) {
	t.Helper()
	if err := db.View(fn); err != nil {
		t.Fatal(err)
	}
}

// all returns the values of a sequence, up to its first error.
func all[T any](seq iter.Seq2[T, error]) (values []T, err error) {
	for v, err := range seq {
		if err != nil {
			return values, err
		}
		values = append(values, v)
	}
	return values, nil
}

// mustAll returns the values of a sequence without errors.
func mustAll[T any](t *testing.T, seq iter.Seq2[T, error]) []T {
	t.Helper()
	values, err := all(seq)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// ids returns the numbers of tasks.
func ids(tasks []*store.Task) (n []uint64) {
	for _, t := range tasks {
		n = append(n, t.ID.N)
	}
	return n
}
