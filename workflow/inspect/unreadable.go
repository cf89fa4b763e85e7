package inspect

import (
	"bytes"
	"errors"
	"iter"
	"slices"

	"addon-operator/store"
)

// unreadable collects the records that could not be read. A snapshot omits these records and shows a
// problem for each of them.
type unreadable struct {
	tx      *store.Tx
	records []*store.RecordError
}

// pass returns nil if err means that a record cannot be read, and adds the record to u. pass returns every other error.
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

// load returns the record with the key k. ok is false if there is no such record, or if it cannot be
// read.
func load[T any](u *unreadable, k store.Key) (v T, ok bool, err error) {
	v, ok, err = store.Load[T](u.tx, k)
	return v, ok, u.pass(err)
}

// readable yields those records of the sequence that can be read. readable adds the other records
// to u.
func readable[T any](u *unreadable, all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range all {
			passed := err != nil
			if err = u.pass(err); passed && err == nil {
				continue
			}
			if !yield(v, err) {
				return
			}
		}
	}
}
