package store

import "io"

// A Backend keeps keys and values, in the order of the keys' bytes. It is
// written by one goroutine at a time and read by many.
type Backend interface {
	// Reader returns a view of the last commit that succeeded, for as long as
	// it is open: later commits do not change it.
	Reader() (Reader, error)

	// Commit makes all writes durable, or none, provided that the epoch stored
	// under the epoch's key is the one given; otherwise the error is ErrStale.
	// ErrFull promises that nothing was written; after any other error nobody
	// knows. The writes are in the order of their keys, each key once. Keys
	// and values may be kept, nobody changes them; the slice they come in is
	// the caller's again when Commit returns.
	Commit(epoch uint64, writes []Write) error

	// Limits returns how much one Commit takes.
	Limits() Limits

	// Recovered says that a commit had room after others had failed with ErrFull.
	Recovered()

	// Snapshot writes a copy of the last commit that succeeded, in a form that
	// OpenReadOnly and Open accept.
	Snapshot(w io.Writer) error

	// Damaged returns the keys of the records that were found damaged when the backend was opened, the
	// first of them if there are many. Their values are those that damageOf knows.
	Damaged() []Key

	// Check reports what is wrong with the backend's own structure.
	Check() error

	// Close waits for readers and releases everything.
	Close() error
}

// A Reader is a view of one commit. It may be used by one goroutine at a time.
// What it returns must not be changed and is gone when the reader is closed.
type Reader interface {
	// Get returns the value under k, nil if there is none; an empty value is not nil.
	Get(k Key) ([]byte, error)

	// Range calls yield for every key k with from <= k < to, upwards or, with
	// down, downwards, until yield returns false. A nil to is behind all keys.
	Range(from, to Key, down bool, yield func(Key, []byte) bool) error

	// Close ends the view.
	Close() error
}

// Limits is how much one commit takes: the number of keys, and the bytes of
// keys and values together.
type Limits struct {
	Ops   int
	Bytes int
}

// A Write is one key's new value; a nil value takes the key away.
type Write struct {
	Key   Key
	Value []byte

	run uint64 // number of the transaction that wrote it, while it is pending
}

func (w Write) size() int { return len(w.Key) + len(w.Value) }
