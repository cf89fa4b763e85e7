package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Snapshot writes a consistent copy of the store to w while commits go on.
// What it writes is a store itself. The caller marks what it makes of it as a
// copy by MarkCopy, where the store is in use.
func (db *DB) Snapshot(w io.Writer) error {
	if err := db.Err(); err != nil {
		return err
	}
	if err := db.backend.Snapshot(w); err != nil {
		return fmt.Errorf("store: snapshot of %s: %w", db.path, err)
	}
	return nil
}

// SnapshotFile writes a copy of the store to the file at path, marked as a copy where the store is in use. When it
// returns nil the file is whole, durable and has been verified as Open does;
// otherwise what was at path is still there. The copy is made in a file beside
// it, which a crash may leave and the next SnapshotFile to path uses again.
func (db *DB) SnapshotFile(path string) error {
	db.copying.Lock()
	defer db.copying.Unlock()
	dir, base := filepath.Split(path)
	temp := filepath.Join(dir, "."+base+".new")
	if err := db.copyTo(temp); err != nil {
		return errors.Join(err, remove(temp))
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(fmt.Errorf("store: snapshot: %w", err), remove(temp))
	}
	if err := syncDir(filepath.Clean(dir + ".")); err != nil {
		return fmt.Errorf("store: snapshot to %s: %w", path, err)
	}
	return nil
}

// copyTo makes the file at path a durable copy of the store and verifies it.
func (db *DB) copyTo(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("store: snapshot: %w", err)
	}
	err = db.Snapshot(f)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("store: snapshot to %s: %w", path, fullOr(err))
	}
	if !db.readOnly {
		if err := MarkCopy(path, Options{Clock: db.clock}); err != nil {
			return err
		}
	}
	copied, err := OpenReadOnly(path, Options{Clock: db.clock})
	if err != nil {
		return err
	}
	return copied.Close()
}

// remove takes the file at path away if it is there.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
