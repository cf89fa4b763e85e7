package store

import (
	"errors"
	"fmt"
)

// Guard makes the store call check before each later commit, instead of the check of an earlier call of Guard. If check
// returns an error, the commit is rejected. If the error wraps ErrFenced, the store also accepts no more transactions,
// and a clean exit of the process is noted.
func (db *DB) Guard(check func() error) {
	db.commits.mu.Lock()
	defer db.commits.mu.Unlock()
	db.commits.guard = check
}

// Fence makes the store reject all further transactions, because this process must not write any more. Afterwards Err
// returns ErrFenced with the given cause. If the store accepted no more transactions before the call, Err stays as it
// was.
func (db *DB) Fence(why error) {
	_ = db.NoteCleanExit() // if this call fails, the next process treats the end of this process as a crash
	db.lifetime.end(fmt.Errorf("%w: %w", ErrFenced, why))
}

// admit calls the guard, if there is one, and returns its error.
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
