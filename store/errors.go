package store

import (
	"errors"
	"iter"
)

// Opening a store can return these errors. If it returns one of them, the records in the file are
// unchanged.
var (
	// ErrLocked means that another process has the file open. While an operator has the file open,
	// a command that needs data of the store asks this operator over its socket.
	ErrLocked = errors.New("store is in use by another process")

	// ErrCorrupt means that the file or a record in it cannot be decoded. If a transaction returns an error that wraps
	// ErrCorrupt and a RecordError, the rest of the store can be used. If Open returns ErrCorrupt, or if a transaction
	// returns it without a RecordError, restore a snapshot with [Restore].
	ErrCorrupt = errors.New("store is corrupt")

	// ErrNewer means that a newer version of the operator wrote the file. The version that wrote
	// the file, or a later version, can open the file.
	ErrNewer = errors.New("store was written by a newer version")

	// ErrNotStore means that the file is not a store.
	ErrNotStore = errors.New("file is not a store")
)

// A RecordError names a record that cannot be read, and the cause. An error that wraps a
// RecordError also wraps ErrCorrupt. If a transaction returns this error, the rest of the store can
// be used, and the record can be deleted by its key.
type RecordError struct {
	Key Key
	Err error
}

func (e *RecordError) Error() string {
	return "record " + e.Key.String() + " cannot be read: " + e.Err.Error()
}

// Unwrap returns the cause and ErrCorrupt.
func (e *RecordError) Unwrap() []error { return []error{e.Err, ErrCorrupt} }

// Readable yields the elements of the sequence all, except errors that wrap a RecordError. It yields all other errors.
func Readable[T any](all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range all {
			if _, unreadable := errors.AsType[*RecordError](err); !unreadable && !yield(v, err) {
				return
			}
		}
	}
}

// recordError wraps err in a RecordError for the record under k. recordError returns nil if err is
// nil.
func recordError(k Key, err error) error {
	if err == nil {
		return nil
	}
	return &RecordError{Key: append(Key(nil), k...), Err: err}
}

// Transactions can return these errors.
var (
	// ErrFull means that there is no space for the commit. The store is unchanged, and the caller
	// may try again.
	ErrFull = errors.New("no space left for the store")

	// ErrTooLarge means that a transaction writes more than fits in one commit, or that a key or a
	// value is too long. The caller must write less at once.
	ErrTooLarge = errors.New("transaction is too large")

	// ErrReadOnly means that a write was tried in a View, or in a store that is open for reading
	// only.
	ErrReadOnly = errors.New("store is open for reading only")

	// ErrStale means that another process has opened the store after this one. This process must
	// not write any more.
	ErrStale = errors.New("store belongs to a later epoch")

	// ErrPoisoned means that the store cannot be used any more, for example because a commit failed
	// and the content of the disk is unknown. The process must stop; the next one verifies the file.
	ErrPoisoned = errors.New("store is poisoned")

	// ErrFenced means that another operator may have replaced this process, which therefore must
	// not write any more. The next process repeats uncommitted work.
	ErrFenced = errors.New("store is fenced off")

	// ErrClosed means that the store was closed.
	ErrClosed = errors.New("store is closed")
)
