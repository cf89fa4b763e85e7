package workflow

import (
	"errors"

	"addon-operator/store"
)

// pendingCancels removes the pending tasks of a module that is being deleted. If this takes several
// transitions, pendingCancels stores a mark for the module, with an ID and a slot. While the mark
// exists, no task of the module with an older ID begins, except in the slot of the mark. If the
// task with CancelsPending is removed, the mark is deleted too. Otherwise the mark could cancel a
// later task of the same deletion, because that task has another slot.
type pendingCancels struct {
	*txn
	queues  *queues
	parents *parents
	remover *remover
}

// cancelPending removes the waiting tasks of t's module: those in queues, deferred tasks and held
// tasks. Running tasks, and tasks that have begun their effects, are abandoned: they end, and their
// results are ignored. The tasks in the slot of t, and tasks that were added after the cancellation
// began, are kept. If there are more tasks than one transition can remove, t.CancelsPending stays
// set, and a mark stays in the store until continueCancel has removed the remaining tasks. While
// the mark exists, a remaining task that reaches the head of its queue does not start: the engine
// drops it.
func (c *pendingCancels) cancelPending(t *store.Task) error {
	mark, marked, err := store.Load[store.Ref](c.tx, cancelKey(t))
	if err != nil {
		return err
	}
	if !marked {
		mark = store.Ref{ID: c.newID(), Pos: t.Pos} // because t's own id can be older than the tasks that t cancels
	}
	by := *t
	by.ID = mark.ID
	err = eachHead(c.tx, func(other *store.Task) error {
		switch {
		case other.DropEffects || !cancels(&by, other) || !claimed(c.tx, other) && !other.Journal:
			return nil
		case !c.fits(costOf(other)):
			return errEnough
		}
		return c.abandon(t, other)
	})
	if err == nil {
		err = c.cancelWaiting(&by)
	}
	if err == nil {
		err = c.cancelOutsideQueues(&by)
	}
	if errors.Is(err, errEnough) {
		t.CancelsPending = true
		return store.Save(c.tx, cancelKey(t), mark)
	}
	t.CancelsPending = false
	c.tx.Delete(cancelKey(t))
	return err
}

// abandon abandons other, which t cancels and which is running or has begun its effects. Step 6a waits only for tasks
// of other queues. So in the queue of t, abandon moves other to the front: an interrupted effect is executed before the
// deletion continues. If the last attempt of other has failed, abandon drops it instead, so that the deletion does not
// wait for an effect that fails again.
func (c *pendingCancels) abandon(t, other *store.Task) error {
	other.Abandoned, other.DropEffects = true, true
	switch {
	case other.Queue != t.Queue || claimed(c.tx, other):
		return c.queues.save(other)
	case other.Claim == nil || other.Claim.Epoch == 0:
		return c.remover.dropCanceled(other)
	}
	slot, err := store.FrontSlot(c.tx, other.Queue)
	if err != nil {
		return err
	}
	other.Claim.End = 0 // the other tasks of its batch stay, and are removed as waiting tasks
	return c.parents.relocate(other, store.Pos{Queue: other.Queue, Slot: slot}, other.HomeQueue)
}

// cancelWaiting removes from the queues the tasks that t cancels. A task that a running attempt or
// a journal covers is not removed, but abandoned.
func (c *pendingCancels) cancelWaiting(t *store.Task) error {
	return eachQueued(c.tx, func(other, holder *store.Task) error {
		switch {
		case other.Abandoned || !cancels(t, other):
			return nil
		case !c.fits(costOf(other)):
			return errEnough
		case holder != nil:
			other.Abandoned, other.DropEffects = true, true
			return c.queues.save(other)
		}
		return c.remover.dropCanceled(other)
	})
}

// continueCancel continues the work of cancelPending in a later transition.
func (c *pendingCancels) continueCancel(t *store.Task) error {
	c.claimHeadLater(t.Queue)
	if err := c.cancelPending(t); err != nil {
		return err
	}
	return c.queues.save(t)
}

// cancels reports whether t cancels other: whether other is an older task of the same graph and
// module in another slot.
func cancels(t, other *store.Task) bool {
	return other.ID.Before(t.ID) && other.Graph == t.Graph && other.Subject.Module == t.Subject.Module &&
		(other.Queue != t.Queue || other.Slot != t.Slot)
}

// markAbandoned sets t.Abandoned and t.DropEffects if the mark of t's module cancels t. markAbandoned does not save t.
func (c *pendingCancels) markAbandoned(t *store.Task) error {
	if t.DropEffects || t.Subject.Module == "" {
		return nil
	}
	mark, ok, err := store.Load[store.Ref](c.tx, cancelKey(t))
	if err != nil || !ok {
		return err
	}
	if cancels(&store.Task{ID: mark.ID, Pos: mark.Pos, Graph: t.Graph, Subject: t.Subject}, t) {
		t.Abandoned, t.DropEffects = true, true
	}
	return nil
}

// cancelKey returns the key of the mark for the module of t. No queue has the empty name, so the
// key differs from the keys of the marks of waiting tasks.
func cancelKey(t *store.Task) store.Key {
	return store.At(store.Unique).Str("").Str(t.Graph).Str(t.Subject.Module)
}

// cancelOutsideQueues removes the deferred and held tasks that t cancels, until the budget is spent.
func (c *pendingCancels) cancelOutsideQueues(t *store.Task) error {
	return eachOut(c.tx, store.HeldTasksOf(c.tx, t.Subject.Module), func(other *store.Task) error {
		switch {
		case !cancels(t, other):
			return nil
		case !c.fits(costOf(other)):
			return errEnough
		}
		return c.remover.dropCanceled(other)
	})
}
