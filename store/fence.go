package store

import (
	"errors"
	"fmt"
)

// Guard has check asked before each commit from now on. Its error refuses the
// commit; one in which errors.Is finds ErrFenced ends the store. The process
// that is fenced off does not count as crashed.
func (db *DB) Guard(check func() error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.guard = check
}

// Fence ends the store because this process may not write any more.
func (db *DB) Fence(why error) {
	_ = db.NoteCleanExit() // without it, the end of this process looks like a crash
	db.end(fmt.Errorf("%w: %w", ErrFenced, why))
}

// admit asks the guard.
func (db *DB) admit() error {
	db.mu.Lock()
	check := db.guard
	db.mu.Unlock()
	if check == nil {
		return nil
	}
	err := check()
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrFenced) {
		_ = db.NoteCleanExit() // as in Fence
		db.end(err)
	}
	return fmt.Errorf("store: commit to %s is refused: %w", db.path, err)
}
