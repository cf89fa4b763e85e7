package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"addon-operator/store"
)

// ErrNotRunning is returned for a task of which no attempt is under way.
var ErrNotRunning = errors.New("the task is not running")

// A Cancellation is why an attempt is canceled. The attempt fails with it, unless Skip is set.
type Cancellation struct {
	// By is who canceled it.
	By     string
	Reason string
	// Skip ends the task as if it had succeeded and found nothing.
	Skip bool
}

// A canceledError is the cause of the context of a canceled attempt.
type canceledError struct{ Cancellation }

// Error returns the cancellation as a short clause: "canceled by mia: it hangs".
func (c *canceledError) Error() string {
	text := "canceled by " + c.By
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	return text
}

// covers reports whether the attempt of c does the task id, alone or in a batch.
func (c *claim) covers(id store.ID) bool {
	return slices.ContainsFunc(c.task.Batch, func(t *store.Task) bool { return t.ID == id })
}

// beginAttempt gives the attempt of c, whose claim has just been committed, a context that
// [Engine.Cancel] can end.
func (e *Engine) beginAttempt(c *claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.ctx, c.cancel = context.WithCancelCause(e.ctx)
	e.attempts[c] = struct{}{}
}

// endAttempt notes that the step of c has returned. From then on it cannot be canceled.
func (e *Engine) endAttempt(c *claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.attempts, c)
	e.loaded -= c.size
	c.cancel(nil)
}

// load counts n more bytes of payloads of batches under way, and returns how many they take.
func (e *Engine) load(n int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.loaded += n
	return e.loaded
}

// load counts the payloads of a batch that the transition claims. A transition of the
// engine's own counts them at once, as others are committed together with it.
func (m *transition) load(n int) {
	if m.own {
		m.loaded += n
		m.e.load(n)
		return
	}
	m.tx.OnCommit(func() { m.e.load(n) })
}

// Cancel ends the attempt that does the task id: its step is told by its context, and a hook gets
// SIGTERM. Cancel does not wait for the end of the step. The errors are ErrNoTask, ErrNotRunning and
// the store's.
func (e *Engine) Cancel(id store.ID, why Cancellation) error {
	if e.cancelAttempts(func(c *claim) bool { return c.covers(id) }, why) > 0 {
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
	return e.cancelAttempts(func(c *claim) bool { return match(c.task) }, why)
}

func (e *Engine) cancelAttempts(match func(*claim) bool, why Cancellation) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.attempts {
		if match(c) {
			c.cancel(&canceledError{why})
			n++
		}
	}
	return n
}

// canceled returns why the attempt of ctx was canceled, nil if it was not.
func canceled(ctx context.Context) *canceledError {
	why := (*canceledError)(nil)
	if errors.As(context.Cause(ctx), &why) {
		return why
	}
	return nil
}

// pass ends c's task, whose attempt was canceled, as if it had succeeded and found nothing. Of a
// fan-out task it ends the item.
func (m *transition) pass(c *claim, why *canceledError) (*claim, error) {
	t, err := m.reload(c)
	if err != nil {
		return nil, err
	}
	r := recordOf(t, store.Skipped)
	r.Subject, r.Try, r.Detail = c.task.Subject, c.task.Try, skippedBy(why.By, why.Reason)
	if len(c.task.Batch) > 1 {
		r.Merged = len(c.task.Batch)
	}
	if err := m.record(r); err != nil {
		return nil, err
	}
	m.settle(c, t)
	if err := m.endExclusive(t); err != nil {
		return nil, err
	}
	if err := m.endBatch(c, t); err != nil {
		return nil, err
	}
	t.Failed, t.Due = nil, m.now
	if t.FanOut != nil && !t.Abandoned {
		m.itemDone(t, nil)
	} else if err := m.complete(c.bound, c.node, t, nil, nil); err != nil {
		return nil, err
	}
	return m.advance(t.Queue)
}
