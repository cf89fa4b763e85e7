package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// A Tenure is the last epoch in which an operator took over its namespace with this store.
type Tenure struct {
	Epoch uint64    `json:"epoch"`
	Began time.Time `json:"began"`
}

// TenureKey returns the key of the Tenure record.
func TenureKey() Key { return At(Meta).Str("tenure") }

// A Copy marks a file as a copy of a store that was in use. The copy lacks the changes that were made to that store
// later. Epoch is the epoch of that store when the copy was made, and At is the time of the copy. If [Restore] made the
// file from a snapshot, Epoch and At are those of the snapshot.
type Copy struct {
	Epoch uint64    `json:"epoch"`
	At    time.Time `json:"at"`
	// If [Restore] made the file, Restored is the name of the snapshot, and Until is the end of [Restoration.Lost].
	// Otherwise both are zero.
	Restored string    `json:"restored,omitempty"`
	Until    time.Time `json:"until,omitzero"`
}

// Lost returns the span of time whose changes are missing in the copy. The end of the span is zero
// if it is unknown.
func (c Copy) Lost() *LostSpan {
	how := fmt.Sprintf("the store is a copy, made in epoch %d, of one that was in use", c.Epoch)
	if c.Restored != "" {
		how = fmt.Sprintf("the snapshot %s, made in epoch %d, was restored", c.Restored, c.Epoch)
	}
	return &LostSpan{How: how, From: c.At, To: c.Until}
}

// CopyKey returns the key of the Copy record.
func CopyKey() Key { return At(Meta).Str("copy") }

// MarkCopy writes a [Copy] to the store in the file at path, which must be a copy of a store in use. An operator that
// starts with the file reads this mark.
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

// A LostSpan is a span of time whose changes are missing in a store, for example because the store is an older copy.
type LostSpan struct {
	// How says in one sentence why the changes are missing.
	How  string    `json:"how"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// At is the time at which the pending work of the store was dropped because of the lost span.
	At time.Time `json:"at"`
}

// LostSpanKey returns the key of the last LostSpan.
func LostSpanKey() Key { return At(Meta).Str("lost span") }

func (l LostSpan) String() string {
	return fmt.Sprintf("%s; it is unknown what happened from %s to %s", l.How, l.From.UTC().Format(time.RFC3339), l.To.UTC().Format(time.RFC3339))
}

// DropWork deletes the pending work in the store and the [AllowedPurge], ends all runs, and keeps all other records.
// DropWork stores the argument lost as the reason, and ensures that the next start begins a new start run. DropWork
// uses transactions of bounded size. If the disk is full, DropWork waits for free space. If DropWork is interrupted, it
// must be called again.
func (db *DB) DropWork(ctx context.Context, lost LostSpan) error {
	return dropPending(func(fn func(*Tx) error) error { return db.UpdateWithRoom(ctx, fn) }, lost)
}

// dropPending implements [DB.DropWork]. It runs each of its transactions with the function update.
func dropPending(update func(func(*Tx) error) error, lost LostSpan) error {
	for more := true; more; {
		if err := update(func(tx *Tx) (err error) {
			more, err = dropWork(tx)
			return err
		}); err != nil {
			return err
		}
	}
	return update(func(tx *Tx) error {
		startup, _, err := Load[Startup](tx, StartupKey())
		if err != nil {
			return err
		}
		startup.Digest = "" // no code has this digest, so the next start begins a new start run
		lost.At = tx.Now()
		return errors.Join(Save(tx, StartupKey(), startup), Save(tx, LostSpanKey(), lost))
	})
}

// dropWork deletes pending work: queued, deferred and held tasks, journals, quarantined items, and addons
// configurations with their addons. It also deletes the [AllowedPurge], because a person has given this permission for
// a pending converge. dropWork keeps the history, the pauses, and the records of the cluster, the modules and the
// hooks. It ends all runs. dropWork stops when the budget of tx is spent, and reports whether it must be called again.
func dropWork(tx *Tx) (more bool, err error) {
	tx.Delete(ExclusiveKey())
	tx.Delete(PreparationKey())
	tx.Delete(AllowedPurgeKey())
	for t := range tables {
		if !tables[t].work {
			continue
		}
		if Table(t) == Quarantine {
			if more, err := dropQuarantined(tx); more || err != nil {
				return more, err
			}
			continue
		}
		if tx.Erase(At(Table(t))) {
			return true, nil
		}
	}
	for run, err := range RunsBackwards(tx) {
		if err != nil || run.Open == 0 {
			continue // other code reports an unreadable run
		}
		if tx.Spent() {
			return true, nil
		}
		run.Open, run.Ended = 0, tx.Now()
		if err := Save(tx, RunKey(run.ID), run); err != nil {
			return false, err
		}
	}
	return false, nil
}

// isPause reports whether the record under k is a pause, which is kept when pending work is dropped.
func isPause(tx *Tx, k Key) bool {
	if k.Table() != Quarantine {
		return false
	}
	q, _, err := Load[QuarantinedItem](tx, k)
	return err == nil && q.Paused != nil
}

// dropQuarantined deletes the quarantined tasks, and keeps the pauses. dropQuarantined stops when
// the budget of tx is spent, and reports whether tasks are left.
func dropQuarantined(tx *Tx) (more bool, err error) {
	for k := range tx.Range(At(Quarantine)) {
		if isPause(tx, k) {
			continue
		}
		if tx.Spent() {
			return true, nil
		}
		tx.Delete(k)
	}
	return false, nil
}
