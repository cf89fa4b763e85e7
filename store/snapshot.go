package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Snapshot writes a consistent copy of the store to w while commits go on.
// What it writes is a store itself.
func (db *DB) Snapshot(w io.Writer) error {
	if err := db.Err(); err != nil {
		return err
	}
	if err := db.backend.Snapshot(w); err != nil {
		return fmt.Errorf("store: snapshot of %s: %w", db.path, err)
	}
	return nil
}

// SnapshotFile writes a copy of the store to the file at path, which must be
// on the file system of its directory. When it returns nil the file is whole,
// durable and has been verified as Open does; otherwise what was at path is
// still there.
func (db *DB) SnapshotFile(path string) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".new-*")
	if err != nil {
		return fmt.Errorf("store: snapshot: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = db.Snapshot(f)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("store: snapshot to %s: %w", path, err)
	}
	copied, err := OpenReadOnly(f.Name(), Options{Clock: db.clock})
	if err != nil {
		return err
	}
	if err := copied.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("store: snapshot: %w", err)
	}
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("store: snapshot to %s: %w", path, err)
	}
	return nil
}
