package workflow

import (
	"errors"
	"fmt"

	"addon-operator/store"
)

// ErrNoTask is returned for an ID that names no pending task.
var ErrNoTask = errors.New("no pending task has this id")

// ErrRuns is returned for a task that is being done and cannot be changed.
var ErrRuns = errors.New("the task is running")

// Retry has the pending task id tried again at once. A task that runs, or is
// not waiting for its time, is left as it is.
func (e *Engine) Retry(id store.ID) error {
	return e.change(id, func(m *move, t *store.Task) error {
		t.Due = m.now
		m.touch(t.Queue)
		return store.SaveTask(m.tx, t)
	})
}

// Skip ends the pending task id as if it had succeeded and found nothing. Of a
// list it is the member in front that is passed over. The reason and by whom
// are kept in history.
func (e *Engine) Skip(id store.ID, by, reason string) error {
	return e.change(id, func(m *move, t *store.Task) error {
		b, n, err := m.e.boundTo(t)
		if err != nil {
			return err
		}
		r := recordOf(t, store.Skipped)
		r.Detail = fmt.Sprintf("skipped by %s: %s", by, reason)
		if t.Failed != nil {
			r.Subject, r.Error = t.Failed.Subject, t.Failed.Error
		}
		if err := m.record(r); err != nil {
			return err
		}
		if t.Journal {
			m.tx.Delete(store.JournalKey(t.ID))
			t.Journal = false
		}
		t.Failed, t.Claim = nil, nil
		t.Due = m.now
		m.touch(t.Queue)
		if t.List != nil && t.List.Next < t.List.Len {
			return m.memberDone(t, nil)
		}
		if t.List != nil {
			return fmt.Errorf("list %s only waits for its members; skip those: %w", t.ID, ErrRuns)
		}
		if n.Each != "" && !t.Solo {
			t.List = &store.List{}
		}
		return m.complete(b, n, t, nil, nil)
	})
}

// change runs fn on the pending task id, unless it runs.
func (e *Engine) change(id store.ID, fn func(*move, *store.Task) error) error {
	return e.update(func(m *move) error {
		for queue, err := range store.AllQueues(m.tx) {
			if err != nil {
				return err
			}
			covered := uint64(0)
			for t, err := range store.Tasks(m.tx, queue) {
				if err != nil {
					return err
				}
				if m.claimed(t) {
					covered = max(t.Claim.End, t.Place)
				}
				if t.ID != id {
					continue
				}
				if t.Place <= covered && covered > 0 {
					return fmt.Errorf("task %s at node %s: %w", id, t.Node, ErrRuns)
				}
				return fn(m, t)
			}
		}
		return fmt.Errorf("task %s: %w", id, ErrNoTask)
	})
}

// Withdraw takes the tasks of queue that match and are not being done away, as
// part of tx. It stops at the first error.
func Withdraw(tx *store.Tx, queue string, match func(*store.Task) bool) error {
	m := newMove(&Engine{}, tx)
	covered := uint64(0)
	for t, err := range store.Tasks(tx, queue) {
		if err != nil {
			return err
		}
		if m.claimed(t) {
			covered = max(t.Claim.End, t.Place)
			continue
		}
		if t.Place <= covered || !match(t) {
			continue
		}
		if err := firstError(m.record(recordOf(t, store.Dropped)), m.leave(t)); err != nil {
			return err
		}
	}
	return m.saveWalks()
}
