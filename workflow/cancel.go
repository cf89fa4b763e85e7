package workflow

import (
	"fmt"

	"addon-operator/store"
)

// Cancel ends the attempt that does the task id: its step is told by its context, and a hook gets
// SIGTERM. Cancel does not wait for the end of the step. The errors are ErrNoTask, ErrNotRunning and
// the store's.
func (e *Engine) Cancel(id store.ID, why Cancellation) error {
	if e.attempts.cancel(func(c *claim) bool { return c.covers(id) }, why) > 0 {
		return nil
	}
	pending := false
	if err := e.db.View(func(tx *store.Tx) error {
		for t, err := range store.AllTasks(tx) {
			if err != nil {
				return err
			}
			pending = pending || t.ID == id
		}
		return nil
	}); err != nil {
		return err
	}
	if !pending {
		return fmt.Errorf("task %s: %w", id, ErrNoTask)
	}
	return fmt.Errorf("task %s: %w", id, ErrNotRunning)
}

// CancelWhere cancels all attempts under way for whose task match returns true, and returns how many
// there were.
func (e *Engine) CancelWhere(match func(Task) bool, why Cancellation) int {
	return e.attempts.cancel(func(c *claim) bool { return match(c.task) }, why)
}
