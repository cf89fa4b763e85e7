package store

import (
	"errors"
	"iter"
	"time"
)

// mostStarts is the maximum number of stored starts.
const mostStarts = 1000

// A Start describes a process that has begun to process the tasks of the store. The key of the record is the epoch of
// the process.
type Start struct {
	Epoch   uint64    `json:"epoch"`
	Began   time.Time `json:"began"`
	Version string    `json:"version,omitempty"`
	Pod     string    `json:"pod,omitempty"`
	// Crashed is the epoch of the process before this one if that process had no clean exit; otherwise zero.
	Crashed uint64 `json:"crashed,omitempty"`
	// Ended is the time at which the process stopped processing tasks. Ended is zero while the
	// process runs, and if the time could not be stored.
	Ended time.Time `json:"ended,omitzero"`
}

func startKey(epoch uint64) Key { return At(Starts).Uint(epoch) }

// AddStart records that the process of this epoch begins to process tasks. The caller must first
// have called [Ends.Begin] and saved its result, because AddStart reads which process crashed.
func AddStart(tx *Tx, version, pod string) error {
	s := Start{Epoch: tx.Epoch(), Began: tx.Now(), Version: truncated(version), Pod: truncated(pod)}
	ends, _, err := Load[Ends](tx, EndsKey())
	if damaged := (*RecordError)(nil); err != nil && !errors.As(err, &damaged) {
		return err
	}
	for before, err := range StartsBackwards(tx) {
		if err != nil {
			return err
		}
		if before.Epoch != s.Epoch {
			if ends.Crashed(before.Epoch) {
				s.Crashed = before.Epoch
			}
			break
		}
	}
	deleteOldest(tx, Starts, mostStarts-1)
	return Save(tx, startKey(s.Epoch), s)
}

// EndStart records that the process of this epoch stops processing tasks.
func EndStart(tx *Tx) error {
	s, ok, err := LoadStart(tx, tx.Epoch())
	if err != nil || !ok {
		return err
	}
	s.Ended = tx.Now()
	return Save(tx, startKey(s.Epoch), s)
}

// LoadStart returns the start of the process of an epoch. ok is false if there is no record of it, or if
// the record cannot be read.
func LoadStart(tx *Tx, epoch uint64) (s Start, ok bool, err error) {
	s, ok, err = Load[Start](tx, startKey(epoch))
	if damaged := (*RecordError)(nil); errors.As(err, &damaged) {
		return Start{}, false, nil
	}
	return s, ok, err
}

// StartsBackwards yields the starts, newest first. StartsBackwards skips records that cannot be
// read.
func StartsBackwards(tx *Tx) iter.Seq2[Start, error] { return readableBackwards[Start](tx, Starts) }

// readableBackwards yields the readable records of a table, newest first.
func readableBackwards[T any](tx *Tx, table Table) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for k := range tx.Backwards(At(table)) {
			v, _, err := Load[T](tx, k)
			if damaged := (*RecordError)(nil); errors.As(err, &damaged) {
				continue
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

// deleteOldest deletes all records of a table except the newest ones. The argument most is the number of records to
// keep. If the budget of tx is spent, deleteOldest stops early, and the oldest records stay.
func deleteOldest(tx *Tx, table Table, most int) {
	for k := range tx.Backwards(At(table)) {
		if most--; most >= 0 {
			continue
		}
		if tx.Spent() {
			return
		}
		tx.Delete(k)
	}
}
