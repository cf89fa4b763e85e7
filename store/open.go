package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Open opens the store in the file at path. Open verifies the pages of the file, but not the checksums of the records.
// Open compacts a large file that consists mostly of free pages, and durably raises the epoch. Open creates a missing
// file, but not a missing directory. Open returns ErrLocked, ErrCorrupt, ErrNewer, ErrNotStore, ErrFull or an error of
// the file system. After one of the first four errors, the records in the file are unchanged.
func Open(path string, o Options) (*DB, error) {
	db, err := openOrCreate(path, o)
	if err == nil {
		return db, nil
	}
	err = openError(path, err)
	if errors.Is(err, ErrNotStore) {
		return nil, fmt.Errorf("%w, or a path without a file for a new store", err)
	}
	return nil, err
}

// openOrCreate is like Open, but returns errors without the path of the store.
func openOrCreate(path string, o Options) (*DB, error) {
	f, err := lock(path, os.O_RDWR, o.wait())
	if errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			return nil, err
		}
		f, err = lock(path, os.O_RDWR, o.wait())
	}
	if err != nil {
		return nil, err
	}
	b, err := openBolt(f, false)
	if err != nil {
		return nil, err
	}
	b.ballast = ballast{path: path + ".ballast", size: o.Ballast}
	b, compaction, err := b.compactIfFree(path)
	if err != nil {
		return nil, err
	}
	db := newDB(path, b, o)
	db.compaction = compaction
	exits := exitsFile{path + ".clean-exits"}
	db.exits = readCleanExits(exits)
	if err := begin(db); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	b.ballast.fill()
	if o.Ballast > 0 {
		exits.prepare()
	}
	return db, nil
}

// OpenReadOnly opens the store in the file at path, or a snapshot of one, for View only.
// OpenReadOnly writes nothing, and several processes can read the file at the same time.
// OpenReadOnly returns ErrLocked if an operator uses the store.
func OpenReadOnly(path string, o Options) (*DB, error) {
	db, err := openReadOnly(path, o)
	if err != nil {
		return nil, openError(path, err)
	}
	return db, nil
}

// OpenToQuery opens the store like OpenReadOnly, but does not verify the whole file. Each page is
// verified when it is first read. So the time to open the store does not depend on the size of the
// file.
func OpenToQuery(path string, o Options) (*DB, error) {
	db, err := openToQuery(path, o)
	if err != nil {
		return nil, openError(path, err)
	}
	return db, nil
}

func openToQuery(path string, o Options) (*DB, error) {
	f, err := lock(path, os.O_RDONLY, o.wait())
	if err != nil {
		return nil, err
	}
	b, err := openPages(f)
	if err != nil {
		return nil, err
	}
	return newReadOnly(path, b, o)
}

// openReadOnly does the work of OpenReadOnly. It adds neither the path nor advice to errors.
func openReadOnly(path string, o Options) (*DB, error) {
	f, err := lock(path, os.O_RDONLY, o.wait())
	if err != nil {
		return nil, err
	}
	b, err := openBolt(f, true)
	if err != nil {
		return nil, err
	}
	return newReadOnly(path, b, o)
}

// newReadOnly returns a DB that only reads from b. If newReadOnly returns an error, it has closed
// b.
func newReadOnly(path string, b Backend, o Options) (db *DB, err error) {
	db = newDB(path, b, o)
	db.readOnly = true
	if db.identity, err = identify(b); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return db, nil
}

// OpenMemory opens the store in m with a new epoch. If m is empty, OpenMemory first creates a store
// in m.
func OpenMemory(m *Memory, o Options) (*DB, error) {
	b := memory{m}
	m.mu.Lock()
	m.crashed = false
	m.mu.Unlock()
	if v := m.view(); v.len == 0 {
		if err := b.Commit(0, newIdentity()); err != nil {
			return nil, openError("memory", err)
		}
	}
	db := newDB("memory", b, o)
	db.entering = m.Entering
	db.exits = readCleanExits(exitsIn{m})
	if err := begin(db); err != nil {
		return nil, openError("memory", err)
	}
	return db, nil
}

// begin starts a new epoch: it reads the identity of the store, upgrades the store, and raises the
// epoch. begin moves the replaceable records that cannot be read to the table of damaged records, and
// creates the secret for redacted values if the store has none.
func begin(db *DB) (err error) {
	if db.identity, err = identify(db.backend); err != nil {
		return err
	}
	// The note of clean exits can have epochs of another store that was at the same path. If an older copy has replaced
	// the file of this store, the note can also have later epochs of this store. The epoch of this process must not be
	// in the note.
	used := db.exits.newest()
	raise := func(db *DB) error { return raiseEpoch(db.backend, &db.identity, used) }
	move := func(db *DB) (err error) {
		db.movedAtOpen, err = moveUnreadable(db)
		return err
	}
	for _, step := range []func(*DB) error{upgrade, raise, move, addRedaction} {
		err := step(db)
		if errors.Is(err, ErrFull) {
			err = step(db) // the failed commit may have deleted the ballast, which frees space
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openError adds to err the path of the store and advice for the user.
func openError(path string, err error) error {
	return withAdvice(fmt.Errorf("store: open %s: %w", path, err))
}

// withAdvice adds to err advice for the user.
func withAdvice(err error) error {
	advice := ""
	switch {
	case errors.Is(err, ErrLocked):
		advice = "; stop the operator that uses it, or ask that operator over its debug socket"
	case errors.Is(err, ErrCorrupt):
		advice = "; restore a snapshot with addon-operator store restore, or rename the file and start with a new store"
	case errors.Is(err, ErrNewer):
		advice = "; use that version of the operator or a later one, or restore a snapshot from before the upgrade"
	case errors.Is(err, ErrNotStore):
		advice = "; give the path of a store"
	case errors.Is(err, ErrFull):
		advice = "; free space on its file system"
	}
	return fmt.Errorf("%w%s", err, advice)
}
