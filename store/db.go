package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A DB is an open store. It may be used by many goroutines.
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

// ID returns the store's id, made at random when the store was created.
func (db *DB) ID() string { return db.identity.id }

// Epoch returns the number of this Open of the store, starting at 1.
func (db *DB) Epoch() uint64 { return db.identity.epoch }

// Now returns the time by the store's clock, as transactions see it.
func (db *DB) Now() time.Time { return db.clock().Round(0).UTC() }

// Damaged returns the keys of records whose checksum did not match when the store was opened, the
// first hundred of them. A read of such a record returns a RecordError.
func (db *DB) Damaged() []Key { return db.backend.Damaged() }

// MovedAtOpen returns the records that could not be read when the store was opened, and were moved to the
// table of damaged records.
func (db *DB) MovedAtOpen() []Damaged { return db.movedAtOpen }

// Done returns a channel that is closed when the store accepts no more transactions. Err then
// returns the reason.
func (db *DB) Done() <-chan struct{} { return db.lifetime.done }

// Err returns nil while the store can be used, ErrPoisoned with its cause
// after a commit failed, and ErrClosed after Close.
func (db *DB) Err() error { return db.lifetime.reason() }

// poison ends the store because of err. The process must end, because only the next Open can verify
// the content of the file.
func (db *DB) poison(err error) {
	_ = db.NoteCleanExit() // if this fails, the end of this process looks like a crash
	db.lifetime.end(fmt.Errorf("%w: %w; stop the process, the next one verifies %s", ErrPoisoned, err, db.path))
}

// View calls fn with a transaction that reads the last commit before it. Later commits do not
// change what fn reads. A write in fn fails the View with ErrReadOnly. A long View prevents the
// file from reusing space. fn must not call Update, because both could wait for each other. If the
// store is open for reading only and a View finds damage in its structure, the store ends: Err and
// all further Views return the error of that View.
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

// Close waits for the running transactions, fails the waiting ones, and
// releases the file. It returns nil when the store was closed before.
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
