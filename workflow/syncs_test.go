package workflow_test

import (
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"addon-operator/store"
)

// syncsACommit is the number of fdatasync calls in a bbolt commit: one after the pages, and one
// after the meta page.
const syncsACommit = 2

// BenchmarkSyncsOfAChain counts the syncs of a run through a chain of nodes.
func BenchmarkSyncsOfAChain(b *testing.B) {
	tr := record(b, 1)
	commits := 0
	for b.Loop() {
		path := filepath.Join(b.TempDir(), "store.db")
		made := commitsIn(b, path, func(db *store.DB) {
			if err := db.Update(func(tx *store.Tx) error { return put(tx, tr.before) }); err != nil {
				b.Fatal(err)
			}
		})
		opened := commitsIn(b, path, func(*store.DB) {}) // counts the commits that opening the store makes, because they are not part of the run
		chained := commitsIn(b, path, func(db *store.DB) { processRuns(b, db, 1, nil) })
		commits = (chained - opened) - (opened - made)
	}
	b.ReportMetric(syncsACommit*float64(commits)/benchNodes, "fdatasync/task")
	b.ReportMetric(0, "ns/op")
}

// commitsIn opens the store, calls the function use with it, and returns the number of commits to the
// file of the store since its creation.
func commitsIn(b *testing.B, path string, use func(*store.DB)) int {
	b.Helper()
	db, err := store.Open(path, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	use(db)
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	file, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	commits := 0
	err = file.View(func(tx *bbolt.Tx) error { commits = tx.ID(); return nil })
	if err != nil {
		b.Fatal(err)
	}
	return commits
}
