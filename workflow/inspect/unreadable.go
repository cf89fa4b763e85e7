package inspect

import (
	"bytes"
	"errors"
	"iter"
	"slices"

	"addon-operator/store"
	"addon-operator/workflow"
)

// unreadable collects the records that could not be read. A snapshot leaves them out and shows
// a problem for each.
type unreadable struct{ records []*store.RecordError }

// pass returns nil if err is about a record that cannot be read, and adds the record. It returns
// every other err.
func (u *unreadable) pass(err error) error {
	record := (*store.RecordError)(nil)
	if !errors.As(err, &record) {
		return err
	}
	same := func(other *store.RecordError) bool { return bytes.Equal(other.Key, record.Key) }
	if !slices.ContainsFunc(u.records, same) {
		u.records = append(u.records, record)
	}
	return nil
}

// load returns the record under k, and false if there is none or if it cannot be read.
func load[T any](s *scan, k store.Key) (v T, ok bool, err error) {
	v, ok, err = store.Load[T](s.tx, k)
	return v, ok, s.unreadable.pass(err)
}

// readable yields the records of all that can be read.
func readable[T any](s *scan, all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range all {
			passed := err != nil
			if err = s.unreadable.pass(err); passed && err == nil {
				continue
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

// damage returns a problem for each record that could not be read, and for those records of the
// whole store that the snapshot did not need.
func (s *scan) damage() ([]Problem, error) {
	whole, err := store.UnreadableRecords(s.tx)
	for _, record := range whole {
		err = errors.Join(err, s.unreadable.pass(record))
	}
	var out []Problem
	for _, record := range s.unreadable.records {
		out = append(out, storedProblem(store.Problem{
			Kind: store.DamagedRecord, Object: record.Key.String(), Error: record.Error(), Fix: s.repair(record), Since: s.now,
		}))
	}
	return out, err
}

// repair says what replaces an unreadable record.
func (s *scan) repair(record *store.RecordError) string {
	switch table := record.Key.Table(); {
	case workflow.Mendable(record) && s.live:
		return "wait: the operator moves the record to the table of damaged records when it needs it, and goes on without it"
	case workflow.Mendable(record):
		return "start the operator: it moves the record to the table of damaged records and goes on without it"
	case bytes.Equal(record.Key, store.RefusedConfigKey()):
		return "change the ConfigMap: the operator then writes the record again"
	case table == store.Problems:
		return "wait: the operator writes the record again when it finds the problem again"
	case table == store.History:
		return "none is needed: the record goes with the history of its run"
	default:
		return "restore a snapshot of the store: docs/operations.md says how"
	}
}
