package workflow

import (
	"context"
	"fmt"

	"addon-operator/store"
)

// Cancel cancels the context of the attempt that processes the task with the given ID. A hook gets
// SIGTERM. Then Cancel records who canceled the task and why, without waiting for the end of the
// step. While the disk is full, Cancel waits for space until ctx ends. The errors are ErrNoTask,
// ErrQuarantined, ErrNotRunning, ErrWaitsForItems and those of the store. If Cancel fails only
// because it cannot record the cancellation, the attempt is canceled nevertheless.
func (e *Engine) Cancel(ctx context.Context, id store.ID, why Cancellation) error {
	var task store.Task
	if e.attempts.cancel(func(c *claim) bool {
		if !c.covers(id) {
			return false
		}
		task = c.task.Task
		return true
	}, why) > 0 {
		task.ID = id // the claim has the first task of its batch, but id can be another task of the batch
		action := store.Action{Verb: "task cancel", By: why.By, Reason: why.Reason}
		err := e.db.WithRoom(ctx, func() error {
			return e.update(func(m *transition) error { return m.addTaskAction(action, &task) })
		})
		if err != nil {
			return fmt.Errorf("task %s is canceled, but the action cannot be recorded: %w", id, err)
		}
		return nil
	}
	return e.db.View(func(tx *store.Tx) error {
		t, err := pendingTask(tx, id)
		switch {
		case err != nil:
			return err
		case t == nil:
			return notPendingError(tx, id)
		case waitsForItems(t):
			return fmt.Errorf("task %s: %w", id, ErrWaitsForItems)
		default:
			return fmt.Errorf("task %s: %w", id, ErrNotRunning)
		}
	})
}

// CancelWhere cancels all running attempts for whose tasks the function match returns true.
// CancelWhere returns the number of canceled attempts.
func (e *Engine) CancelWhere(match func(Task) bool, why Cancellation) int {
	return e.attempts.cancel(func(c *claim) bool { return match(c.task) }, why)
}
