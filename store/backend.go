package store

import "io"

// A Backend stores keys with values, in the byte order of the keys. One goroutine at a time can
// write to it, while many goroutines read.
type Backend interface {
	// Reader returns a view of the last successful commit. Later commits do not change the view.
	Reader() (Reader, error)

	// Commit makes all writes durable, or none. It returns ErrStale if epoch is not the stored
	// epoch. If Commit returns ErrStale or ErrFull, it has written nothing. After any other error,
	// it is unknown whether the writes are on disk. The caller must have sorted the writes by key,
	// with each key once, and must not change the keys and values later. The backend can keep the
	// keys and values after Commit has returned, but must not keep the slice itself.
	Commit(epoch uint64, writes []Write) error

	// Limits returns the maximum size of one Commit.
	Limits() Limits

	// Recovered tells the backend that the disk may have free space again after commits had failed with ErrFull.
	Recovered()

	// Snapshot writes a copy of the data as it is after the last successful commit. OpenReadOnly
	// and Open accept the copy of a file. RestoreMemory accepts the copy of a Memory.
	Snapshot(w io.Writer) error

	// Damaged reads all records of the last commit, and returns the keys of the damaged ones, up to
	// a limit. For the value of such a record, damageOf returns an error, or the value cannot be decoded.
	Damaged() ([]Key, error)

	// Check verifies the structure of the stored data, for example the pages of a file. It returns
	// the problems that it finds, up to a limit, as one error.
	Check() error

	// Close releases the backend's resources. A backend with a file first waits until all readers are closed.
	Close() error
}

// A Reader is a view of the data after one commit. One goroutine at a time can use it. The caller
// must not change the slices that a Reader returns; they are valid until the Reader is closed.
type Reader interface {
	// Get returns the value under k; nil if there is none. An empty value is not nil.
	Get(k Key) ([]byte, error)

	// Range calls yield for every key k with from <= k < to, until yield returns false. The order
	// of the keys is ascending or, if down is true, descending. If to is nil, there is no upper
	// bound.
	Range(from, to Key, down bool, yield func(Key, []byte) bool) error

	// Skim is like Range, but does not compare the values with their checksums.
	Skim(from, to Key, down bool, yield func(Key, []byte) bool) error

	// Version returns a number that identifies the commit. As long as the backend is open, later
	// commits have greater numbers.
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

	run uint64 // number of the transaction that wrote it; used only while the write is pending
}

func (w Write) size() int { return len(w.Key) + len(w.Value) }
