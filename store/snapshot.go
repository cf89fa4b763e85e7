package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Snapshot writes a consistent copy of the store to w while commits continue. The copy is a complete store. Unless the
// store is open for reading only, it can change after the copy, so the caller must mark the copy with MarkCopy.
func (db *DB) Snapshot(w io.Writer) error {
	if err := db.Err(); err != nil {
		return err
	}
	if err := db.backend.Snapshot(w); err != nil {
		return fmt.Errorf("store: snapshot of %s: %w", db.path, err)
	}
	return nil
}

// SnapshotFile writes a copy of the store to the file at path. Unless the store is open for reading only, SnapshotFile
// marks the copy with MarkCopy. When SnapshotFile returns nil, the file is complete, durable and verified. The copy is
// first written to a temporary file in the same directory, so an error while writing leaves the file at path unchanged.
// A crash can leave the temporary file: the next SnapshotFile to path replaces it, and RemoveUnfinished removes it.
func (db *DB) SnapshotFile(path string) error {
	db.copying.Lock()
	defer db.copying.Unlock()
	dir, base := filepath.Split(path)
	temp := filepath.Join(dir, "."+base+unfinished)
	if err := copyTo(db, temp); err != nil {
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

// unfinished is the end of the name of the temporary file of a snapshot.
const unfinished = ".new"

// copyTo writes a durable copy of the store to the file at path and verifies it.
func copyTo(db *DB, path string) error {
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

// remove removes the file at path if it exists.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
