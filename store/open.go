package store

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"
)

func schemaKey() Key { return At(Meta).Str("schema") }
func idKey() Key     { return At(Meta).Str("id") }
func epochKey() Key  { return At(Meta).Str("epoch") }

// Options are the options of an open store. The zero value is usable.
type Options struct {
	// Clock returns the time of transactions. The default is the system's clock.
	Clock func() time.Time

	// Committed is called after each attempt to commit, with its duration by Clock and the number of written keys.
	// The next commit waits for it, so it must return soon. It must not call Update or Close.
	Committed func(took time.Duration, writes int)

	// Shortage is called with a shortage when commits begin to fail because the disk is full, and with nil when there
	// is room again. It must return soon, and must not call Update or Close.
	Shortage func(*Shortage)

	// LockWait is how long to wait until another process closes the file. The default is one second.
	LockWait time.Duration

	// Ballast is the size in bytes of a file beside the store, with its name and ".ballast". It is deleted when the
	// disk is full, so that the store can still be written. With a ballast, the space for the note of clean exits is
	// allocated, too. There is none by default.
	Ballast int64
}

func (o Options) clock() func() time.Time {
	if o.Clock != nil {
		return o.Clock
	}
	return time.Now //nolint:forbidigo // this is the clock
}

func (o Options) wait() time.Duration {
	if o.LockWait > 0 {
		return o.LockWait
	}
	return time.Second
}

// Open opens the store in the file at path. It verifies the file and durably increments the epoch. It
// compacts a file that is mostly free. It creates a missing file, but not a missing directory. The
// errors are ErrLocked, ErrCorrupt, ErrNewer, ErrNotStore, ErrFull and those of the file system. After
// an error the file is unchanged.
func Open(path string, o Options) (*DB, error) {
	f, err := lock(path, os.O_RDWR, o.wait())
	if errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			return nil, openError(path, err)
		}
		f, err = lock(path, os.O_RDWR, o.wait())
	}
	if err != nil {
		return nil, openError(path, err)
	}
	b, err := openBolt(f, false)
	if err != nil {
		return nil, openError(path, err)
	}
	b.ballast = ballast{path: path + ".ballast", size: o.Ballast}
	b, compaction, err := b.compactIfFree(path)
	if err != nil {
		return nil, openError(path, err)
	}
	db := newDB(path, b, o)
	db.compaction = compaction
	if err := begin(db); err != nil {
		return nil, openError(path, errors.Join(err, b.Close()))
	}
	b.ballast.fill()
	exits := exitsFile{path + ".clean-exits"}
	if o.Ballast > 0 {
		exits.prepare()
	}
	db.exits = readCleanExits(exits)
	return db, nil
}

// OpenReadOnly opens the store in the file at path, or a snapshot of one, for View only. It writes nothing, and
// several processes can read the file at the same time. A store that an operator uses is ErrLocked.
func OpenReadOnly(path string, o Options) (*DB, error) {
	f, err := lock(path, os.O_RDONLY, o.wait())
	if err != nil {
		return nil, openError(path, err)
	}
	b, err := openBolt(f, true)
	if err != nil {
		return nil, openError(path, err)
	}
	db := newDB(path, b, o)
	db.readOnly = true
	if db.identity, err = identify(b); err != nil {
		return nil, openError(path, errors.Join(err, b.Close()))
	}
	return db, nil
}

// OpenMemory opens the store in m with a new epoch, and creates it if m is empty.
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
	if err := begin(db); err != nil {
		return nil, openError("memory", err)
	}
	db.exits = readCleanExits(exitsIn{m})
	return db, nil
}

// begin starts a new epoch: it reads the identity of the store, upgrades it, increments the epoch, and moves unreadable
// records of the whole store to the table of damaged records.
func begin(db *DB) (err error) {
	if db.identity, err = identify(db.backend); err != nil {
		return err
	}
	raise := func(db *DB) error { return raiseEpoch(db.backend, &db.identity) }
	move := func(db *DB) (err error) {
		db.movedAtOpen, err = moveUnreadable(db)
		return err
	}
	for _, step := range []func(*DB) error{upgrade, raise, move} {
		err := step(db)
		if errors.Is(err, ErrFull) {
			err = step(db) // a ballast may have given way
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// An identity is what the first records of a store contain.
type identity struct {
	schema int
	id     string
	epoch  uint64
}

// raiseEpoch makes the next epoch the one that can commit.
func raiseEpoch(b Backend, i *identity) error {
	raise := []Write{{Key: epochKey(), Value: number(i.epoch + 1)}, {Key: schemaKey(), Value: number(schema)}}
	if err := b.Commit(i.epoch, raise); err != nil {
		return err
	}
	i.epoch++
	i.schema = schema
	return nil
}

// identify reads the identity of the store in b.
func identify(b Backend) (i identity, err error) {
	r, err := b.Reader()
	if err != nil {
		return i, err
	}
	defer r.Close()
	for _, f := range []struct {
		key  Key
		into any
	}{{schemaKey(), &i.schema}, {idKey(), &i.id}, {epochKey(), &i.epoch}} {
		v, err := r.Get(f.key)
		if err != nil {
			return i, err
		}
		if v == nil {
			return i, corrupt("record %s is missing", f.key)
		}
		if err := damageOf(f.key, v); err != nil {
			return i, err
		}
		if err := json.Unmarshal(v, f.into); err != nil {
			return i, corrupt("record %s: %w", f.key, err)
		}
		if i.schema > schema {
			return i, fmt.Errorf("%w: schema %d, this version knows %d", ErrNewer, i.schema, schema)
		}
	}
	return i, nil
}

// newIdentity returns the first records of a new store.
func newIdentity() []Write {
	id := []byte(strconv.Quote(rand.Text()))
	writes := []Write{{Key: schemaKey(), Value: number(schema)}, {Key: idKey(), Value: id}, {Key: epochKey(), Value: number(0)}}
	slices.SortFunc(writes, func(a, b Write) int { return bytes.Compare(a.Key, b.Key) })
	return writes
}

// number returns n as JSON.
func number(n uint64) []byte { return strconv.AppendUint(nil, n, 10) }

// checkEpoch returns ErrStale unless stored is the record of epoch; no record is epoch 0.
func checkEpoch(stored []byte, epoch uint64) error {
	if stored == nil && epoch == 0 || string(stored) == strconv.FormatUint(epoch, 10) {
		return nil
	}
	return fmt.Errorf("%w: epoch %s is stored, this is %d", ErrStale, stored, epoch)
}

// openError adds the path and what to do.
func openError(path string, err error) error {
	advice := ""
	switch {
	case errors.Is(err, ErrLocked):
		advice = "; stop the operator that uses it, or ask that operator over its debug socket"
	case errors.Is(err, ErrCorrupt):
		advice = "; set the file aside and restore a snapshot, or start without one"
	case errors.Is(err, ErrNewer):
		advice = "; use that version of the operator or a later one"
	case errors.Is(err, ErrNotStore):
		advice = "; give the path of a store, or of no file to begin a new one"
	case errors.Is(err, ErrFull):
		advice = "; free space on its file system"
	}
	return fmt.Errorf("store: open %s: %w%s", path, err, advice)
}
