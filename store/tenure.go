package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// A Tenure is the last epoch in which this store was worked on as the one of its namespace.
type Tenure struct {
	Epoch uint64    `json:"epoch"`
	Began time.Time `json:"began"`
}

// TenureKey returns the key of the Tenure.
func TenureKey() Key { return At(Meta).Str("tenure") }

// A Copy marks a file as a copy of a store that was in use: the store went on, and the copy does not know how.
type Copy struct {
	Epoch uint64    `json:"epoch"`
	At    time.Time `json:"at"`
}

// CopyKey returns the key of the mark.
func CopyKey() Key { return At(Meta).Str("copy") }

// MarkCopy marks the file at path as a copy of a store that was in use. The operator that opens it reads the mark.
func MarkCopy(path string, o Options) error {
	f, err := lock(path, os.O_RDWR, o.wait())
	if err != nil {
		return openError(path, err)
	}
	b, err := openBolt(f, false)
	if err != nil {
		return openError(path, err)
	}
	db := newDB(path, b, o)
	db.identity, err = identify(b)
	if err == nil {
		var mark []byte
		if mark, err = json.Marshal(Copy{Epoch: db.Epoch(), At: db.clock().Round(0).UTC()}); err == nil {
			err = b.Commit(db.Epoch(), []Write{{Key: CopyKey(), Value: mark}})
		}
	}
	if err = errors.Join(err, b.Close()); err != nil {
		return fmt.Errorf("store: mark the copy %s: %w", path, err)
	}
	return nil
}

// DropWork deletes pending work: tasks in queues and due later, journals, claims, what is quarantined. What remains is
// what is known of the cluster, of modules and of hooks, and history. Its runs end. It stops when the budget of tx is
// spent, and reports whether there is more.
func DropWork(tx *Tx) (more bool, err error) {
	tx.Delete(ExclusiveKey())
	tx.Delete(PreparationKey())
	for t := range tables {
		if !tables[t].work {
			continue
		}
		if tx.Erase(At(Table(t))) {
			return true, nil
		}
	}
	for w, err := range RunsBackwards(tx) {
		if err != nil || w.Open == 0 {
			continue // a record that cannot be read is named elsewhere
		}
		if tx.Spent() {
			return true, nil
		}
		w.Open, w.Ended = 0, tx.Now()
		if err := Save(tx, RunKey(w.ID), w); err != nil {
			return false, err
		}
	}
	return false, nil
}
