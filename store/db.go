package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A DB is an open store. It may be used by many goroutines.
type DB struct {
	path     string
	backend  Backend
	limits   Limits
	clock    func() time.Time
	told     func(took time.Duration, writes int) // of commits
	id       string
	epoch    uint64
	version  int // of the schema
	readOnly bool
	ids      atomic.Uint64
	copying  sync.Mutex // held by SnapshotFile

	onShortage func(*Shortage)
	compaction *Compaction // nil without one
	exits      cleanExits  // nil in a store that is only read
	exited     []uint64    // what exits held when the store was opened
	noting     sync.Mutex  // held while exits is written

	movedAtOpen []Damaged

	mu      sync.Mutex
	idle    *sync.Cond // signalled when leading becomes false
	leading bool       // an Update runs
	waiting []*request // and these wait for their turn
	err     error
	closed  bool
	done    chan struct{}
	guard   func() error

	shortage  *Shortage
	roomAgain chan struct{} // closed when a shortage ends

	// Only the leader touches these.
	pending *pending
	writes  []Write
}

func newDB(path string, b Backend, o Options) *DB {
	db := &DB{
		path:    path,
		backend: b,
		limits:  b.Limits(),
		clock:   o.clock(),
		told:    o.Committed,
		done:    make(chan struct{}),
		pending: new(pending),

		onShortage: o.Shortage,
		roomAgain:  make(chan struct{}),
	}
	db.idle = sync.NewCond(&db.mu)
	return db
}

// ID returns the store's id, made at random when the store was created.
func (db *DB) ID() string { return db.id }

// Epoch returns the number of this Open of the store, counted from 1.
func (db *DB) Epoch() uint64 { return db.epoch }

// Now returns the time by the store's clock, as transactions see it.
func (db *DB) Now() time.Time { return db.clock().Round(0).UTC() }

// Damaged returns the keys of records whose checksum did not match when the store was opened, the
// first hundred of them. Reading one is a RecordError.
func (db *DB) Damaged() []Key { return db.backend.Damaged() }

// MovedAtOpen returns the records that could not be read when the store was opened, and were moved to the
// table of damaged records.
func (db *DB) MovedAtOpen() []Damaged { return db.movedAtOpen }

// Done returns a channel that is closed when the store takes no more
// transactions; Err then says why.
func (db *DB) Done() <-chan struct{} { return db.done }

// Err returns nil while the store can be used, ErrPoisoned with its cause
// after a commit failed, and ErrClosed after Close.
func (db *DB) Err() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.err
}

// end makes err the reason why the store takes no more transactions, unless there is one.
func (db *DB) end(err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.err == nil {
		db.err = err
		close(db.done)
	}
}

// View calls fn with a transaction that reads what is committed at its
// beginning, while commits go on. A write in it fails the View with
// ErrReadOnly. A long View keeps the file from reusing space, and a View in
// which an Update is called may never end.
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
	if err := fn(tx); err != nil {
		return err
	}
	return tx.err
}

// Close waits for the transactions that run, fails those that wait, and
// releases the file. It returns nil when the store was closed before.
func (db *DB) Close() error {
	db.end(ErrClosed)
	db.mu.Lock()
	for db.leading {
		db.idle.Wait()
	}
	closed := db.closed
	db.closed = true
	db.mu.Unlock()
	if closed {
		return nil
	}
	if err := db.backend.Close(); err != nil {
		return fmt.Errorf("store: close %s: %w", db.path, err)
	}
	return nil
}
