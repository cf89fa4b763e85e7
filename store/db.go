package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A DB is an open store. Several goroutines may use a DB at the same time.
type DB struct {
	path     string
	backend  Backend
	clock    func() time.Time
	identity identity
	readOnly bool
	ids      atomic.Uint64

	lifetime *lifetime
	commits  *committer
	room     *roomWatch
	exits    *cleanExits
	copying  sync.Mutex // held by SnapshotFile
	entering func()     // called by each Update; can be nil

	compaction  *Compaction // nil if the file was not compacted
	movedAtOpen []Damaged
}

func newDB(path string, b Backend, o Options) *DB {
	db := &DB{
		path: path, backend: b, clock: o.clock(),
		lifetime: newLifetime(),
		room:     newRoomWatch(o, b.Recovered),
	}
	db.commits = newCommitter(db, o.Committed)
	return db
}

// ID returns the store's id, a random text that was chosen when the store was created.
func (db *DB) ID() string { return db.identity.id }

// Epoch returns the epoch of the store, a number that each Open increases. A store that is open for reading only has
// the epoch of the last Open.
func (db *DB) Epoch() uint64 { return db.identity.epoch }

// Now returns the time by the store's clock, as transactions see it.
func (db *DB) Now() time.Time { return db.clock().Round(0).UTC() }

// ReserveSpace creates the ballast file again if the store has deleted it and the disk has enough free space. The
// commit that ends a shortage does the same, but often the disk has too little space then.
func (db *DB) ReserveSpace() { db.backend.Recovered() }

// Damaged reads all records, and returns the keys of the records whose checksums do not match: at most one hundred
// keys. Load returns an error that wraps a RecordError for such a record. Commits do not wait for Damaged.
func (db *DB) Damaged() ([]Key, error) {
	if err := db.Err(); err != nil {
		return nil, err
	}
	damaged, err := db.backend.Damaged()
	if err != nil {
		return nil, fmt.Errorf("store: verify the records of %s: %w", db.path, err)
	}
	return damaged, nil
}

// MovedAtOpen returns the replaceable records that Open could not read, and moved to the table of damaged records; see
// [IsReplaceable].
func (db *DB) MovedAtOpen() []Damaged { return db.movedAtOpen }

// Done returns a channel that is closed when the store accepts no more transactions. Afterwards Err
// returns the reason.
func (db *DB) Done() <-chan struct{} { return db.lifetime.done }

// Err returns nil while the store accepts transactions. Afterwards it returns the reason why it does not:
//   - ErrPoisoned with its cause, for example after a failed commit
//   - ErrFenced after a call of Fence, or after the guard returned ErrFenced
//   - ErrClosed after Close
//   - ErrCorrupt after a View found damage in a store that is open for reading only
func (db *DB) Err() error { return db.lifetime.reason() }

// poison makes the store reject all further transactions because of err. Afterwards the process
// must end, because only the next Open can verify the content of the file.
func (db *DB) poison(err error) {
	_ = db.NoteCleanExit() // if this call fails, the next process treats the end of this process as a crash
	db.lifetime.end(fmt.Errorf("%w: %w; stop the process, the next one verifies %s", ErrPoisoned, err, db.path))
}

// View calls fn with a transaction that reads the state after the last commit. Later commits do not change what fn
// reads. If fn writes, View returns ErrReadOnly. Pages that commits free during a View cannot be reused before the View
// ends, so a long View can make the file grow. fn must not call Update, because the View and the Update could wait for
// each other. If the store is open for reading only and a View finds damage in the structure of the file, the store
// accepts no more transactions: Err and all further Views return the error of that View.
func (db *DB) View(fn func(*Tx) error) (err error) {
	if err := db.Err(); err != nil {
		return err
	}
	r, err := db.backend.Reader()
	if err != nil {
		return fmt.Errorf("store: read %s: %w", db.path, err)
	}
	tx := &Tx{db: db, reader: r}
	defer func() {
		tx.reader = nil
		if cerr := r.Close(); err == nil {
			err = cerr
		}
	}()
	err = fn(tx)
	if db.readOnly && errors.Is(tx.err, ErrCorrupt) {
		err = withAdvice(fmt.Errorf("store: read %s: %w", db.path, tx.err))
		db.lifetime.end(err)
		return err
	}
	if err != nil {
		return err
	}
	return tx.err
}

// Close waits for the running transactions and releases the file. If the commit of a call of Update has not begun when
// Close is called, the writes of that call are discarded, and that call returns ErrClosed. A second call of Close does
// nothing and returns nil.
func (db *DB) Close() error {
	db.lifetime.end(ErrClosed)
	if !db.commits.close() {
		return nil
	}
	if err := db.backend.Close(); err != nil {
		return fmt.Errorf("store: close %s: %w", db.path, err)
	}
	return nil
}
