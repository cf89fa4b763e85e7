package workflow

import (
	"bytes"

	"addon-operator/store"
)

// arrivals puts new tasks into queues and lanes. A new task is behind all older ones of its hook, be
// they in the queue, held or deferred, and joins the equal one that waits.
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

// tail puts t, which is new, at the tail of queue, unless an equal task waits
// there or t is an event that one of too many can say as well. Behind older tasks
// that are held it is held, too.
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

// front puts t at the front of queue, unless an equal task waits there.
func (a *arrivals) front(t *store.Task, queue string) (err error) {
	t.Queue, t.Depth = queue, 0
	if t.Slot, err = store.FrontSlot(a.tx, queue); err != nil {
		return err
	}
	return a.enqueue(t)
}

// enqueue writes t, which is new, at its place. Of two equal tasks that wait the
// one nearer the head stays; the run of the other points to it.
func (a *arrivals) enqueue(t *store.Task) error {
	if stays, err := a.enter(t); err != nil || !stays {
		return err
	}
	return a.queues.save(t)
}

// enter is put without writing t, and reports whether t stays and is yet to be
// saved.
func (a *arrivals) enter(t *store.Task) (stays bool, err error) {
	if a.unique.isUnique(t) {
		dropped, err := a.coalesce(t)
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

// coalesce makes one of t and an equal task that waits in the same queue, and
// reports whether that one stays in t's stead.
func (a *arrivals) coalesce(t *store.Task) (dropped bool, err error) {
	old, ok, err := equalWaiting(a.tx, t)
	if err != nil || !ok {
		return false, err
	}
	if nearer(t, old) {
		if t.Parent, err = a.parents.oneOf(t.Parent, old.Parent); err != nil {
			return false, err
		}
		return false, a.remover.drop(old, store.Joined, t)
	}
	if old.IsHeld() { // no fan-out waits for it
		if err := a.lanes.joinHeld(old, t); err != nil {
			return true, err
		}
		return true, a.parents.countDown(t.Parent, nil)
	}
	of, err := a.parents.oneOf(old.Parent, t.Parent)
	if err != nil {
		return false, err
	}
	if again := a.continueOnFailure && t.Parent != nil && old.Failed != nil && a.now.Before(old.Due); of != old.Parent || again {
		old.Parent = of
		if again { // a converge comes to it
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

// nearer reports whether a is done before b. What runs beside others of a list is
// done before what waits behind that list.
// What was put off was there before.
func nearer(a, b *store.Task) bool {
	if a.Later() != b.Later() {
		return a.Later()
	}
	if (a.HomeQueue == "") != (b.HomeQueue == "") {
		return a.HomeQueue != ""
	}
	return bytes.Compare(a.Pos.Key(), b.Pos.Key()) < 0
}

// holdNew puts t, which is new, into lane k.
func (a *arrivals) holdNew(k store.LaneKey, t *store.Task, reason *store.Reason) error {
	t.Pos, t.Lane = store.Pos{Queue: k.Queue}, k.Kind
	stays, err := a.enter(t)
	if err != nil || !stays {
		return err
	}
	return a.lanes.enterLane(k, t, reason)
}

// tailOfOwn puts t, the first task of a run, at the tail of the queue of such runs.
func (a *arrivals) tailOfOwn(t *store.Task) error { return a.tail(t, queueOf(t.Subject)) }
