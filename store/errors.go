package store

import "errors"

// These errors can be returned when a store is opened. The file is left as it was.
var (
	// ErrLocked means that another process has the file open. A verb that wants
	// to look into a live store asks the operator over its socket instead.
	ErrLocked = errors.New("store is in use by another process")

	// ErrCorrupt means that the file or a record in it cannot be decoded. Rename the file
	// and restore a snapshot.
	ErrCorrupt = errors.New("store is corrupt")

	// ErrNewer means that a newer version of the operator wrote the file. That
	// version or a later one can open it.
	ErrNewer = errors.New("store was written by a newer version")

	// ErrNotStore means that the file is something else than a store.
	ErrNotStore = errors.New("file is not a store")
)

// A RecordError says which record cannot be read, and why. Errors that hold one are ErrCorrupt. The
// rest of the store can be used: the record can be taken away by its key.
type RecordError struct {
	Key Key
	Err error
}

func (e *RecordError) Error() string {
	return "record " + e.Key.String() + " cannot be read: " + e.Err.Error()
}

// Unwrap returns the cause and ErrCorrupt.
func (e *RecordError) Unwrap() []error { return []error{e.Err, ErrCorrupt} }

// recordError returns err, which a record's reader has returned, as a RecordError.
func recordError(k Key, err error) error {
	if err == nil {
		return nil
	}
	return &RecordError{Key: append(Key(nil), k...), Err: err}
}

// These errors can be returned by transactions.
var (
	// ErrFull means that there is no space for the commit. Nothing of it is
	// kept, the store is as before, and the caller may try again.
	ErrFull = errors.New("no space left for the store")

	// ErrTooLarge means that one transaction writes more than a commit can
	// hold, or a key or value larger than the backend takes. Its writer has to
	// cut it into pieces.
	ErrTooLarge = errors.New("transaction is too large")

	// ErrReadOnly means that a write was tried in a View, or in a store that
	// was opened for reading only.
	ErrReadOnly = errors.New("store is open for reading only")

	// ErrStale means that another process has opened the store since, so this
	// one must no longer write.
	ErrStale = errors.New("store belongs to a later epoch")

	// ErrPoisoned means that a commit failed, so nobody knows what is on disk.
	// The process has to stop; the next one verifies the file.
	ErrPoisoned = errors.New("store is poisoned by a failed commit")

	// ErrFenced means that this process may not write any more, because another
	// operator may have taken its place. What it did not commit is done by the
	// next process.
	ErrFenced = errors.New("store is fenced off")

	// ErrClosed means that the store was closed.
	ErrClosed = errors.New("store is closed")
)
