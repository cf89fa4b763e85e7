package store

import (
	"errors"
	"fmt"
)

// Guard makes each later commit call check first. An error of check rejects the commit. An error
// that wraps ErrFenced also ends the store, which does not count as a crash of the process.
func (db *DB) Guard(check func() error) {
	db.commits.mu.Lock()
	defer db.commits.mu.Unlock()
	db.commits.guard = check
}

// Fence ends the store, because this process may not write any more.
func (db *DB) Fence(why error) {
	_ = db.NoteCleanExit() // if this fails, the end of this process looks like a crash
	db.lifetime.end(fmt.Errorf("%w: %w", ErrFenced, why))
}

// admit returns the error of the guard.
func (c *committer) admit() error {
	c.mu.Lock()
	check := c.guard
	c.mu.Unlock()
	if check == nil {
		return nil
	}
	err := check()
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrFenced) {
		_ = c.db.NoteCleanExit() // as in Fence
		c.db.lifetime.end(err)
	}
	return fmt.Errorf("store: commit to %s is refused: %w", c.db.path, err)
}
