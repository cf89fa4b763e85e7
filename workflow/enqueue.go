package workflow

import (
	"bytes"

	"addon-operator/store"
)

// arrivals puts new tasks into queues and lanes. At the tail of a queue, a new task is placed
// behind all older tasks of its hook, whether they are queued, held or deferred. Of two equal
// waiting tasks of a unique node, only one stays.
type arrivals struct {
	*txn
	history  *history
	queues   *queues
	unique   *unique
	backlogs *backlogs
	parents  *parents
	lanes    *lanes
	remover  *remover
	limits   *limits
}

// tail puts the new task t at the tail of the given queue. If older tasks of its lane are held, t
// is held behind them. If a rate limit defers older tasks of its hook, t is deferred with them.
// tail does not add t if an equal waiting task is nearer to the head, or if t is coalesced with a
// waiting event of the same object.
func (a *arrivals) tail(t *store.Task, queue string) (err error) {
	t.Queue, t.Depth = queue, 0
	lane, held, err := a.lanes.laneFor(t)
	if err != nil {
		return err
	}
	if held {
		t.Lane = lane.Kind
	} else if t.Slot, err = store.TailSlot(a.tx, queue); err != nil {
		return err
	}
	if coalesced, err := a.backlogs.coalesceEvent(t); coalesced || err != nil {
		return err
	}
	if held {
		return a.holdNew(lane, t, nil)
	}
	if err := a.enqueue(t); err != nil {
		return err
	}
	return a.limits.joinDeferred(t)
}

// front puts t at the front of the given queue. t replaces an equal task that waits in this queue.
// If the equal task is deferred, held or in a parallel queue, t joins it instead.
func (a *arrivals) front(t *store.Task, queue string) (err error) {
	t.Queue, t.Depth = queue, 0
	if t.Slot, err = store.FrontSlot(a.tx, queue); err != nil {
		return err
	}
	return a.enqueue(t)
}

// enqueue writes the new task t at its position. Of two equal waiting tasks, the one nearer to the
// head stays. The run of the removed task then refers to the run of the task that stays.
func (a *arrivals) enqueue(t *store.Task) error {
	if stays, err := a.enter(t); err != nil || !stays {
		return err
	}
	return a.queues.save(t)
}

// enter is like enqueue, but does not write t. If the result stays is true, the caller must save t.
// Otherwise, t has joined an equal task.
func (a *arrivals) enter(t *store.Task) (stays bool, err error) {
	if a.unique.isUnique(t) {
		dropped, err := a.joinEqual(t)
		if err != nil || dropped {
			return false, err
		}
		t.Waits = true
		a.unique.mark(t)
	}
	a.history.count(t.Run, 1)
	a.queues.touch(t.Queue)
	return true, nil
}

// joinEqual merges t with an equal task that waits, if there is one. joinEqual reports whether t is
// dropped because the equal task stays.
func (a *arrivals) joinEqual(t *store.Task) (dropped bool, err error) {
	old, ok, err := equalWaiting(a.tx, t)
	if err != nil || !ok {
		return false, err
	}
	if nearer(t, old) {
		return false, a.replace(old, t)
	}
	if old.IsHeld() { // because no fan-out task waits for a held task
		if err := a.lanes.joinHeld(old, t); err != nil {
			return true, err
		}
		return true, a.parents.countDown(t.Parent, nil)
	}
	parent, err := a.parents.oneOf(old.Parent, t.Parent)
	if err != nil {
		return false, err
	}
	changed := dropSkips(old, t)
	if again := a.continueOnFailure && t.Parent != nil && old.Failed != nil && a.now.Before(old.Due); parent != old.Parent || again || changed {
		old.Parent = parent
		if again { // because a new converge does not wait for the retry delay
			old.Due = a.now
			a.queues.touch(old.Queue)
		}
		if err := a.queues.save(old); err != nil {
			return false, err
		}
	}
	r := recordOf(t, store.Joined)
	r.Into = old.ID.String()
	a.history.count(t.Run, 0)
	a.history.join(t.Run, old.Run)
	return true, a.history.record(r)
}

// replace removes old, a waiting task, because the equal task t is nearer to the head. If t has no
// parent, it gets the parent of old. If t has a parent, t keeps it, and the parent of old stops
// waiting. The parent of old also stops waiting if t is held, because no task waits for a held task. The caller saves t.
func (a *arrivals) replace(old, t *store.Task) (err error) {
	dropSkips(t, old)
	if t.IsHeld() {
		if err := a.remover.drop(old, store.Joined, t); err != nil {
			return err
		}
		return a.parents.countDown(old.Parent, nil)
	}
	if t.Parent, err = a.parents.oneOf(t.Parent, old.Parent); err != nil {
		return err
	}
	return a.remover.drop(old, store.Joined, t)
}

// nearer reports whether a is nearer to the head than b. Deferred and held tasks are treated as
// nearer than queued tasks, because in most cases they are older. Tasks in parallel queues are
// treated as nearer than the tasks of their home queue.
func nearer(a, b *store.Task) bool {
	if a.IsOutOfQueue() != b.IsOutOfQueue() {
		return a.IsOutOfQueue()
	}
	if (a.HomeQueue == "") != (b.HomeQueue == "") {
		return a.HomeQueue != ""
	}
	return bytes.Compare(a.Pos.Key(), b.Pos.Key()) < 0
}

// holdNew holds the new task t in lane k, unless t joins an equal waiting task. If reason is nil,
// the lane keeps its reason.
func (a *arrivals) holdNew(k store.LaneKey, t *store.Task, reason *store.Reason) error {
	t.Pos, t.Lane = store.Pos{Queue: k.Queue}, k.Kind
	stays, err := a.enter(t)
	if err != nil || !stays {
		return err
	}
	return a.lanes.enterLane(k, t, reason)
}

// tailOfOwn puts t, the first task of a run, at the tail of the default queue of its subject.
func (a *arrivals) tailOfOwn(t *store.Task) error { return a.tail(t, queueOf(t.Subject)) }
