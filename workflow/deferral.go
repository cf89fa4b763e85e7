package workflow

import (
	"errors"
	"time"

	"addon-operator/store"
)

// deferral returns deferred tasks to their queues. A deferred task is in no queue until it is due.
// When the task is due, deferral puts it at the tail of its queue.
type deferral struct {
	*txn
	history  *history
	queues   *queues
	unique   *unique
	backlogs *backlogs
	limits   *limits
	arrivals *arrivals
}

// deferNew defers the new task t until the time due. Until then, no equal task joins t. The caller
// must set the Queue of t.
func (d *deferral) deferNew(t *store.Task, due time.Time) error {
	t.Due = due
	d.history.count(t.Run, 1)
	if f := d.observer.Looped; f != nil && t.Loop != nil {
		d.tx.OnCommit(func() { f(*t) })
	}
	if err := d.queues.save(t); err != nil {
		return err
	}
	return d.limits.armDeferred()
}

// enqueueDue puts the deferred tasks that are due at the tails of their queues.
func (d *deferral) enqueueDue() error {
	newer := newerTasks{limits: d.limits}
	err := eachDeferred(d.tx, func(t *store.Task) error {
		due, err := d.limits.due(t)
		if err != nil {
			return err
		}
		if d.now.Before(due) {
			return errEnough
		}
		return d.enqueueInOrder(t, &newer)
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	return errors.Join(newer.save(), d.limits.armDeferred())
}

// recheckDeferred checks the tasks that rate limits have deferred. If such a task is due,
// recheckDeferred puts it at the tail of its queue. A task is due at once if the interval of the
// rate limit of its hook has changed.
func (d *deferral) recheckDeferred() error {
	newer := newerTasks{limits: d.limits}
	err := eachDeferred(d.tx, func(t *store.Task) error {
		due, err := d.limits.due(t)
		if err != nil || t.Every == 0 || d.now.Before(due) {
			return err
		}
		return d.enqueueInOrder(t, &newer)
	})
	if errors.Is(err, errEnough) {
		d.later(followUp{work: recheckDeferred, queue: deferredTasks})
		err = nil
	}
	if err != nil {
		return err
	}
	return errors.Join(newer.save(), d.limits.armDeferred())
}

// enqueueInOrder puts t, a deferred task, at the tail of its queue. If a rate limit deferred t,
// newer tasks of the same hook can be in the queue already, behind tasks of other hooks.
// enqueueInOrder first defers these newer tasks, because otherwise they would start before t. If
// enqueueInOrder returns errEnough, a later transition must continue with t.
func (d *deferral) enqueueInOrder(t *store.Task, newer *newerTasks) error {
	if err := newer.deferFor(t); err != nil {
		return err
	}
	if !d.fits(costOf(t)) {
		return errEnough
	}
	with := newer.find(t)
	if err := d.enqueueDeferred(t); err != nil {
		return err
	}
	with.returned(t)
	return nil
}

// enqueueDeferred puts t, a deferred task, at the tail of its queue.
func (d *deferral) enqueueDeferred(t *store.Task) (err error) {
	d.tx.Delete(t.Key())
	separate := t.Every > 0 && !t.Waits // t is an event or has begun before, so t joins no equal waiting task
	d.unique.unwait(t)
	t.Due, t.Every = time.Time{}, 0
	if t.Slot, err = store.TailSlot(d.tx, t.Queue); err != nil {
		return err
	}
	if err := d.backlogs.follows(t); err != nil {
		return err
	}
	if !separate {
		d.history.count(t.Run, -1)
		return d.arrivals.enqueue(t)
	}
	d.queues.touch(t.Queue)
	return d.queues.save(t)
}

// expedite puts the deferred task t at the tail of its queue. If a rate limit deferred t, expedite also puts back all
// tasks of the same hook and queue that the limit has deferred. The limit does not apply to these tasks. If t is held
// instead of deferred, expedite returns ErrHeld.
func (d *deferral) expedite(t *store.Task) error {
	if t.IsHeld() {
		return heldError(d.tx, t)
	}
	if t.Every == 0 {
		return d.enqueueDeferred(t)
	}
	put := store.Deferral{Due: t.Due, Every: t.Every}
	if err := eachDeferred(d.tx, func(other *store.Task) error {
		if sameLimit(t, other) && put.Expedited.Before(other.ID) {
			put.Expedited = other.ID
		}
		return nil
	}); err != nil {
		return err
	}
	if err := d.limits.saveDeferral(t, put); err != nil {
		return err
	}
	return d.enqueueExpedited()
}

// exempt makes the next attempt at t, which is in a queue, ignore the rate limit of its hook.
func (d *deferral) exempt(t *store.Task) error {
	b, n, err := d.graphs.boundTo(t)
	if err != nil {
		return nil // a task of an unknown node is removed when it reaches the head of its queue
	}
	put, err := d.limits.deferralFor(b, n, t)
	if err != nil || put.Due.IsZero() {
		return err
	}
	p, err := d.limits.rateLimit(b, n, t, t.Subject)
	if err != nil {
		return err
	}
	put.Expedited = t.ID
	tasks := 0
	for other, err := range store.TasksFrom(d.tx, t.Queue, t.Slot) {
		if err != nil {
			return err
		}
		if other.ID != t.ID && (p.NoBatch || !b.alike(t, other)) || tasks == d.sizes.batch {
			break
		}
		if tasks++; put.Expedited.Before(other.ID) {
			put.Expedited = other.ID
		}
	}
	return d.limits.saveDeferral(t, put)
}

// enqueueExpedited puts the expedited tasks of all hooks at the tails of their queues, in the order
// of their due times.
func (d *deferral) enqueueExpedited() error {
	newer := newerTasks{limits: d.limits}
	err := eachDeferred(d.tx, func(t *store.Task) error {
		if t.Every == 0 {
			return nil
		}
		if _, bucket, err := bucketOf(d.tx, t.Subject); err != nil || !bucket.Deferrals[t.Queue].Expedites(t.ID) {
			return err
		}
		return d.enqueueInOrder(t, &newer)
	})
	if errors.Is(err, errEnough) {
		d.later(followUp{work: bringExpeditedTasks, queue: deferredTasks})
		err = nil
	}
	if err != nil {
		return err
	}
	return newer.save()
}
