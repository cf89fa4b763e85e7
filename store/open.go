package store

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// schema is the version of tables and records this package reads and writes.
const schema = 1

func schemaKey() Key { return At(Meta).Str("schema") }
func idKey() Key     { return At(Meta).Str("id") }
func epochKey() Key  { return At(Meta).Str("epoch") }

// Options say how to open a store. The zero value is good.
type Options struct {
	// Clock tells the time of transactions; nil for the system's clock.
	Clock func() time.Time

	// LockWait is how long to wait for another process to let go of the file;
	// zero for one second.
	LockWait time.Duration
}

func (o Options) clock() func() time.Time {
	if o.Clock != nil {
		return o.Clock
	}
	return time.Now //nolint:forbidigo // this is the clock
}

// Open opens the store in the file at path for a new life: the epoch is
// raised, durably. A missing file is created, in a missing directory not.
// The errors are ErrLocked, ErrCorrupt, ErrNewer, ErrNotStore and those of
// the file system; with each of them the file is as it was.
func Open(path string, o Options) (*DB, error) {
	f, err := lock(path, os.O_RDWR, o.wait())
	if errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			return nil, fmt.Errorf("store: create %s: %w", path, err)
		}
		f, err = lock(path, os.O_RDWR, o.wait())
	}
	if err != nil {
		return nil, openError(path, err)
	}
	b, err := openBolt(path, false, held(f))
	if err != nil {
		return nil, openError(path, errors.Join(err, f.Close()))
	}
	return begin(newDB(path, b, o))
}

// OpenReadOnly opens the store in the file at path, or a snapshot of one, for
// View only. Nothing is written, and others can read it at the same time; a
// store that an operator has open is ErrLocked.
func OpenReadOnly(path string, o Options) (*DB, error) {
	f, err := lock(path, os.O_RDONLY, o.wait())
	if err != nil {
		return nil, openError(path, err)
	}
	b, err := openBolt(path, true, held(f))
	if err != nil {
		return nil, openError(path, errors.Join(err, f.Close()))
	}
	db := newDB(path, b, o)
	db.readOnly = true
	if err := db.identify(); err != nil {
		return nil, openError(path, errors.Join(err, b.Close()))
	}
	return db, nil
}

// OpenMemory opens the store in m for a new life, and makes it when m is empty.
func OpenMemory(m *Memory, o Options) (*DB, error) {
	b := memory{m}
	if m.view().Len() == 0 {
		if err := b.Commit(0, identity()); err != nil {
			return nil, openError("memory", err)
		}
	}
	return begin(newDB("memory", b, o))
}

// begin begins a new life: it reads who the store is and raises the epoch.
func begin(db *DB) (*DB, error) {
	err := db.identify()
	if err == nil {
		err = db.backend.Commit(db.epoch, []Write{{epochKey(), encode(db.epoch + 1)}})
		db.epoch++
	}
	if err != nil {
		return nil, openError(db.path, errors.Join(err, db.backend.Close()))
	}
	return db, nil
}

// identify reads schema, id and epoch.
func (db *DB) identify() error {
	r, err := db.backend.Reader()
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // nothing was written
	version := 0
	for _, f := range []struct {
		key  Key
		into any
	}{{schemaKey(), &version}, {idKey(), &db.id}, {epochKey(), &db.epoch}} {
		v, err := r.Get(f.key)
		if err != nil {
			return err
		}
		if v == nil {
			return fmt.Errorf("%w: record %s is missing", ErrNotStore, f.key)
		}
		if err := json.Unmarshal(v, f.into); err != nil {
			return fmt.Errorf("%w: record %s: %w", ErrCorrupt, f.key, err)
		}
		if version > schema {
			return fmt.Errorf("%w: schema %d, this version knows %d", ErrNewer, version, schema)
		}
	}
	return nil
}

// identity returns the first records of a new store.
func identity() []Write {
	writes := []Write{{schemaKey(), encode(schema)}, {idKey(), encode(rand.Text())}, {epochKey(), encode(0)}}
	slices.SortFunc(writes, func(a, b Write) int { return bytes.Compare(a.Key, b.Key) })
	return writes
}

// encode returns a number or a string of letters as JSON.
func encode[T int | uint64 | string](v T) []byte {
	b, _ := json.Marshal(v) // cannot fail for these types
	return b
}

// checkEpoch returns ErrStale unless stored is the record of epoch; no record is epoch 0.
func checkEpoch(stored []byte, epoch uint64) error {
	if stored == nil && epoch == 0 || string(stored) == strconv.FormatUint(epoch, 10) {
		return nil
	}
	return fmt.Errorf("%w: epoch %d is stored, this is %d", ErrStale, stored, epoch)
}

func (o Options) wait() time.Duration {
	if o.LockWait > 0 {
		return o.LockWait
	}
	return time.Second
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
	}
	return fmt.Errorf("store: open %s: %w%s", path, err, advice)
}

// held gives bbolt the file whose lock is already held.
func held(f *os.File) func(string, int, os.FileMode) (*os.File, error) {
	return func(string, int, os.FileMode) (*os.File, error) { return f, nil }
}

// lock opens the file at path and locks it, for others' reading when flag is
// os.O_RDONLY, for nobody else otherwise.
func lock(path string, flag int, wait time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, err
	}
	how := unix.LOCK_EX | unix.LOCK_NB
	if flag == os.O_RDONLY {
		how = unix.LOCK_SH | unix.LOCK_NB
	}
	const pause = 20 * time.Millisecond
	for ; ; wait -= pause {
		err = unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		if wait <= 0 {
			err = ErrLocked
			break
		}
		time.Sleep(pause)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// create makes a new store at path: in a file beside it, which gets its name
// when it is whole and on disk, so that a crash leaves a store or no file.
func create(path string) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone already when all went well
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(err, f.Close())
	}
	b, err := newBolt(f)
	if err != nil {
		return err
	}
	if err := errors.Join(b.Commit(0, identity()), b.Close()); err != nil {
		return err
	}
	// Unlike a rename, a link never takes the place of a file made meanwhile.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(dir)
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
