package workflow

import (
	"errors"
	"fmt"
	"strings"

	"addon-operator/store"
)

// Retry retries the pending task with the given ID at once. The next attempt ignores the rate limit
// of the hook. If the limit deferred the task, the tasks that were deferred with it run too. Retry
// records an action with the reason and the name of the person. An empty name means that the
// operator itself retries the task; then Retry records no action. The errors are ErrNoTask,
// ErrQuarantined, ErrRuns, ErrHeld, ErrNotFailed and those of the store.
func (e *Engine) Retry(id store.ID, by, reason string) error {
	return e.change(id, store.Action{Verb: "task retry", By: by, Reason: reason}, func(m *transition, t *store.Task) error {
		if t.Failed == nil && !t.Due.After(m.now) {
			return notFailedError(m.tx, t)
		}
		t.Due = m.now
		m.queues.touch(t.Queue)
		if err := m.queues.save(t); err != nil {
			return err
		}
		return m.deferral.exempt(t)
	}, func(m *transition, t *store.Task) error { return m.deferral.expedite(t) })
}

// notFailedError returns the error for a retry of t, which is in a queue and has not failed. The error says what t
// waits for.
func notFailedError(tx *store.Tx, t *store.Task) error {
	head, ok, err := store.Head(tx, t.Queue)
	if err != nil {
		return err
	}
	if ok && head.ID != t.ID {
		return fmt.Errorf("task %s: %w: it waits behind task %s (%s) in queue %s", t.ID, ErrNotFailed, head.ID, taskName(head), t.Queue)
	}
	reason, err := BlockedBy(tx, t)
	if err != nil {
		return err
	}
	if reason != nil {
		return fmt.Errorf("task %s: %w: %s", t.ID, ErrNotFailed, reason.Detail)
	}
	return fmt.Errorf("task %s: %w: it is next in queue %s", t.ID, ErrNotFailed, t.Queue)
}

// taskName names the node and the subject of t.
func taskName(t *store.Task) string { return strings.TrimSpace(t.Node + " " + t.Subject.String()) }

// Skip ends the failed step of the pending task with the given ID, or its current step if none has
// failed, as if the step had succeeded without any fact. In a fan-out, Skip skips only the item to
// which this step belongs. If the run of the task has started over after the failure, the run
// continues at once. If the task is in quarantine, its run starts over. The run then passes over
// the step each time it reaches the step, until the run ends, returns to a node at which runs
// begin, or is joined by another request. Skip deletes a damaged record with this ID. The history
// has the reason and the name of the person. The errors are ErrNoTask, ErrRuns, ErrWaitsForItems,
// and those of the store and of the step, if it is a [Skipper].
func (e *Engine) Skip(id store.ID, by, reason string) error {
	skip := func(m *transition, t *store.Task, end func(*store.Task) error) error {
		step, ahead, err := m.skips.stepToSkip(t)
		if err != nil {
			return err
		}
		r := recordOf(t, store.Skipped)
		r.Node, r.Subject, r.Detail = step.Node, step.Subject, skippedBy(by, reason)
		if f := t.Failed.Of(step); f != nil {
			r.Error = f.Error
		}
		if err := m.history.record(r); err != nil {
			return err
		}
		if ahead {
			return m.skips.skipLater(t, step)
		}
		return end(t)
	}
	err := e.change(id, store.Action{Verb: "task skip", By: by, Reason: reason},
		func(m *transition, t *store.Task) error { return skip(m, t, m.skips.skip) },
		func(m *transition, t *store.Task) error { return skip(m, t, m.skips.skipOut) })
	if errors.Is(err, ErrNoTask) || errors.Is(err, ErrQuarantined) {
		return e.update(func(m *transition) error { return m.quarantines.skip(id, by, reason) })
	}
	return err
}

// change records the action a for the pending task with the given ID. After that, it calls fn if
// the task is in a queue, or the function later if the task is deferred or held. If the task is
// running, or is covered by the journal of another task, change returns ErrRuns and calls neither fn
// nor later. If no pending task has this ID, change returns ErrQuarantined for an item in
// quarantine, and otherwise ErrNoTask.
func (e *Engine) change(id store.ID, a store.Action, fn, later func(*transition, *store.Task) error) error {
	return e.update(func(m *transition) error {
		err := eachQueued(m.tx, func(t, holder *store.Task) error {
			if t.ID != id {
				return nil
			}
			if holder != nil && (holder.ID != id || claimed(m.tx, t)) {
				return fmt.Errorf("task %s at node %s: %w", id, t.Node, ErrRuns)
			}
			if err := errors.Join(m.addTaskAction(a, t), fn(m, t)); err != nil {
				return err
			}
			return errFound
		})
		if err == nil {
			err = eachOut(m.tx, store.AllHeldTasks(m.tx), func(t *store.Task) error {
				if t.ID != id {
					return nil
				}
				if err := errors.Join(m.addTaskAction(a, t), later(m, t)); err != nil {
					return err
				}
				return errFound
			})
		}
		switch {
		case errors.Is(err, errFound):
			return nil
		case err == nil:
			return notPendingError(m.tx, id)
		}
		return err
	})
}

// notPendingError returns the error for an id that no pending task has: ErrQuarantined if an item in quarantine has
// this id, otherwise ErrNoTask.
func notPendingError(tx *store.Tx, id store.ID) error {
	q, ok, err := store.Load[store.QuarantinedItem](tx, store.QuarantineKey(id))
	switch {
	case err != nil:
		return err
	case ok && q.Paused == nil:
		return fmt.Errorf("task %s: %w", id, ErrQuarantined)
	default:
		return fmt.Errorf("task %s: %w", id, ErrNoTask)
	}
}

// addTaskAction records the action a for the task t, unless the operator itself did it.
func (m *transition) addTaskAction(a store.Action, t *store.Task) error {
	if a.By == "" {
		return nil
	}
	a.What, a.Task, a.Run, a.Queue, a.Subject = t.ID.String(), t.ID, t.Run, t.Queue, t.Subject
	if t.Failed != nil && t.FanOut != nil {
		a.Subject = t.Failed.Subject // the subject of the item that failed
	}
	return store.AddAction(m.tx, a)
}

// Release ends the quarantine of the item with this id. The run of the item starts over at the tail
// of its queue. The work that was held because of the item follows in order. Work that something
// else holds as well, such as a pause, stays held. Release records an action with the reason and
// the name of the person. The errors are ErrNoTask, ErrNotQuarantined, ErrHeld and those of the
// store.
func (e *Engine) Release(id store.ID, by, reason string) error {
	return e.update(func(m *transition) error {
		if err := m.quarantines.release(id, by, reason); !errors.Is(err, ErrNoTask) {
			return err
		}
		return notQuarantinedError(m.tx, id)
	})
}

// notQuarantinedError returns the error for a release of a task that is not in quarantine. The error names the state of
// the task.
func notQuarantinedError(tx *store.Tx, id store.ID) error {
	t, err := pendingTask(tx, id)
	switch {
	case err != nil:
		return err
	case t == nil:
		return fmt.Errorf("task %s: %w", id, ErrNoTask)
	case t.IsHeld():
		return heldError(tx, t)
	default:
		return fmt.Errorf("task %s: %w", id, ErrNotQuarantined)
	}
}
