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

// Options say how to open a store. The zero value is good.
type Options struct {
	// Clock tells the time of transactions; nil for the system's clock.
	Clock func() time.Time

	// Committed is told of each commit that was tried, how long it took by Clock
	// and how many keys it wrote; nil is silence. It holds up what is committed
	// next, and must not call Update or Close.
	Committed func(took time.Duration, writes int)

	// Shortage is told when commits begin to fail because the disk is full, and with nil when there is
	// room again; nil is silence. As Committed, it must return soon.
	Shortage func(*Shortage)

	// LockWait is how long to wait for another process to let go of the file;
	// zero for one second.
	LockWait time.Duration

	// Ballast is the size in bytes of a file kept beside the store, named as
	// it with ".ballast" added, that gives way when the disk is full; zero for none. With it,
	// space is kept for the note that the process has exited cleanly.
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
	if err := db.begin(); err != nil {
		return nil, openError(path, errors.Join(err, b.Close()))
	}
	b.ballast.fill()
	exits := exitsFile{path + ".clean-exits"}
	if o.Ballast > 0 {
		exits.prepare()
	}
	db.keepCleanExits(exits)
	return db, nil
}

// OpenReadOnly opens the store in the file at path, or a snapshot of one, for
// View only. Nothing is written, and others can read it at the same time; a
// store that an operator has open is ErrLocked.
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
	if err := db.identify(); err != nil {
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
		if err := b.Commit(0, identity()); err != nil {
			return nil, openError("memory", err)
		}
	}
	db := newDB("memory", b, o)
	if err := db.begin(); err != nil {
		return nil, openError("memory", err)
	}
	db.keepCleanExits(exitsIn{m})
	return db, nil
}

// begin starts a new epoch: it reads the identity of the store, upgrades it, increments the epoch, and moves unreadable
// records of the whole store to the table of damaged records.
func (db *DB) begin() error {
	if err := db.identify(); err != nil {
		return err
	}
	for _, step := range []func() error{db.upgrade, db.raiseEpoch, db.mend} {
		err := step()
		if errors.Is(err, ErrFull) {
			err = step() // a ballast may have given way
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// raiseEpoch makes the next epoch the one that can commit.
func (db *DB) raiseEpoch() error {
	raise := []Write{{Key: epochKey(), Value: number(db.epoch + 1)}, {Key: schemaKey(), Value: number(schema)}}
	if err := db.backend.Commit(db.epoch, raise); err != nil {
		return err
	}
	db.epoch++
	db.version = schema
	return nil
}

// identify reads schema, id and epoch.
func (db *DB) identify() error {
	r, err := db.backend.Reader()
	if err != nil {
		return err
	}
	defer r.Close()
	for _, f := range []struct {
		key  Key
		into any
	}{{schemaKey(), &db.version}, {idKey(), &db.id}, {epochKey(), &db.epoch}} {
		v, err := r.Get(f.key)
		if err != nil {
			return err
		}
		if v == nil {
			return corrupt("record %s is missing", f.key)
		}
		if err := damageOf(f.key, v); err != nil {
			return err
		}
		if err := json.Unmarshal(v, f.into); err != nil {
			return corrupt("record %s: %w", f.key, err)
		}
		if db.version > schema {
			return fmt.Errorf("%w: schema %d, this version knows %d", ErrNewer, db.version, schema)
		}
	}
	return nil
}

// identity returns the first records of a new store.
func identity() []Write {
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
