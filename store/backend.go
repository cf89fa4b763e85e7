package store

import "io"

// A Backend stores keys and values, in the order of the keys' bytes. One goroutine at a time writes
// to it, and many can read.
type Backend interface {
	// Reader returns a view of the last successful commit. Later commits do not change it.
	Reader() (Reader, error)

	// Commit makes all writes durable, or none. It returns ErrStale unless epoch is the stored
	// epoch. After ErrStale or ErrFull nothing was written. After any other error it is unknown
	// whether the writes are on disk. The writes are in the order of their keys, each key once. The
	// backend may keep the keys and values, because nobody changes them, but not the slice writes.
	Commit(epoch uint64, writes []Write) error

	// Limits returns the maximum size of one Commit.
	Limits() Limits

	// Recovered tells the backend that a commit has succeeded after others had failed with ErrFull.
	Recovered()

	// Snapshot writes a copy of the last successful commit, which OpenReadOnly and Open accept.
	Snapshot(w io.Writer) error

	// Damaged returns the keys of the records that were found damaged when the backend was opened,
	// up to a limit. For the value of such a record, damageOf returns an error.
	Damaged() []Key

	// Check verifies the structure of the backend, for example the pages of its file. It returns all
	// problems as one error.
	Check() error

	// Close waits for readers and releases everything.
	Close() error
}

// A Reader is a view of one commit, for one goroutine at a time. The returned slices must not be
// changed, and are valid until the reader is closed.
type Reader interface {
	// Get returns the value under k; nil if there is none. An empty value is not nil.
	Get(k Key) ([]byte, error)

	// Range calls yield for every key k with from <= k < to, in ascending order or, with down, in
	// descending order, until yield returns false. If to is nil, there is no upper bound.
	Range(from, to Key, down bool, yield func(Key, []byte) bool) error

	// Skim is like Range, but does not compare the values with their checksums.
	Skim(from, to Key, down bool, yield func(Key, []byte) bool) error

	// Version returns a number that is greater for a later commit, as long as the backend is open.
	Version() uint64

	// Close ends the view.
	Close() error
}

// Limits is the maximum size of one commit: the number of keys, and the bytes of keys and values
// together.
type Limits struct {
	Ops   int
	Bytes int
}

// A Write is a key with its new value. A nil value deletes the key.
type Write struct {
	Key   Key
	Value []byte

	run uint64 // while the write is pending: the number of its transaction
}

func (w Write) size() int { return len(w.Key) + len(w.Value) }
