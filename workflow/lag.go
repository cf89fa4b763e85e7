package workflow

import (
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// lagging moves the runs of failing modules to retry queues. The last task of a converge, step 8,
// starts after all runs that were moved out of this converge have ended.
type lagging struct {
	*txn
	queues   *queues
	parents  *parents
	remover  *remover
	arrivals *arrivals
	groups   *groups
}

// lagBehind is called when t, a task in the run of a module, has just failed. If ContinueOnFailure
// is set, lagBehind moves the run to the retry queue of the module, so that the tasks behind the run
// continue. In a converge, step 8 then waits for the moved run. If no step follows the fan-out that
// started the run, as after step 16, no task waits.
func (g *lagging) lagBehind(b *bound, t *store.Task) error {
	if !g.continueOnFailure || t.Abandoned && !t.OwnQueue {
		return nil
	}
	if t.Abandoned { // the run to move is that of the equal item, which waits behind the effects of t
		next, ok, err := equalWaiting(g.tx, t)
		if err != nil || !ok {
			return err
		}
		t = next
	}
	if t.OwnQueue { // t processes an item; the run to move is that of the fan-out task
		parent, ok, err := fanOutAt(g.tx, t.Parent)
		if err != nil || !ok || claimed(g.tx, parent) { // a running task cannot move; the next failure of t moves the run
			return err
		}
		if waits, err := g.waitsForRun(parent); err != nil || waits {
			return err // the next failure of t moves the run
		}
		t = parent
	}
	n := b.nodes[graph.NodeID(t.Node)]
	if n == nil || !inRetriedRun(b, n, t) {
		return nil
	}
	if homeQueue(t) != Main || t.Queue == retryQueue(t.Subject.Module) && (t.Parent == nil || t.Parent.Lags) {
		return nil // the run is already in its retry queue, or does not belong to the main queue
	}
	_, err := g.moveToRetryQueue(t)
	return err
}

// waitsForRun reports whether the head of t's queue is running, and belongs to another run of t's module. While this is
// the case, the run of t must not go on in another queue.
func (g *lagging) waitsForRun(t *store.Task) (bool, error) {
	head, ok, err := store.Head(g.tx, t.Queue)
	return ok && head.Slot != t.Slot && head.Subject.Module == t.Subject.Module && claimed(g.tx, head), err
}

// moveToRetryQueue moves the run of t to the retry queue of its module, if t is the top task of its slot. If the run is
// part of a converge, step 8 waits for the moved run.
func (g *lagging) moveToRetryQueue(t *store.Task) (moved bool, err error) {
	if err := g.queues.saveTop(); err != nil {
		return false, err
	}
	run, rest, err := runOf(g.tx, t)
	if err != nil || len(run) == 0 || run[0].ID != t.ID {
		return false, err
	}
	if err := g.lag(run, rest); err != nil {
		return false, err
	}
	return true, g.moveTo(run, retryQueue(t.Subject.Module))
}

// lag makes a task wait for a module's run, which must move to another queue. The parameter run
// has the tasks of this run, which are the upper tasks of a slot. The parameter rest has the other
// tasks of the slot, and the last of these tasks waits. If rest is empty, because the run is in a
// parallel queue, the last task below the fan-out task that started the run waits, and the fan-out
// task stops waiting.
func (g *lagging) lag(run, rest stack) error {
	bottom := run.bottom()
	var last *store.Task
	if len(rest) > 0 {
		last = rest.bottom()
		if last.ID == rest[0].ID && last.FanOut != nil && last.FanOut.Edge {
			last = nil // no step follows the fan-out, so no task must wait for run
		}
	} else if parent, ok, err := fanOutAt(g.tx, bottom.Parent); err != nil {
		return err
	} else if ok {
		if last, err = lastBelow(g.tx, parent); err != nil {
			return err
		}
		if err := g.parents.countDown(bottom.Parent, nil); err != nil {
			return err
		}
	} else if bottom.Parent != nil && bottom.Parent.Lags {
		return nil
	}
	return g.await(last, bottom)
}

// awaitBelow makes the last task below the fan-out task t wait for the parameter run, a task of a
// failing module, unless a task waits for it already. If no task is below t, no task waits. The
// caller saves run.
func (g *lagging) awaitBelow(t, run *store.Task) error {
	if awaited, err := g.parents.exists(run.Parent); err != nil || awaited {
		return err
	}
	last, err := lastBelow(g.tx, t)
	if err != nil {
		return err
	}
	return g.await(last, run)
}

// await makes the parameter last, the last task of a run, wait for the parameter run, the bottom
// task of the run of a failing module. If last is nil, no task waits. The caller saves run.
func (g *lagging) await(last, run *store.Task) error {
	run.Parent = nil
	if last == nil {
		return nil
	}
	last.Lagging++
	run.Parent = &store.Ref{ID: last.ID, Pos: last.Pos, Lags: true}
	return g.queues.save(last)
}

// moveTo moves run, the upper tasks of a slot, to the tail of queue. If run is in this queue
// already, moveTo only saves its bottom task.
func (g *lagging) moveTo(run stack, queue string) error {
	if run[0].Queue == queue {
		return g.queues.save(run.bottom())
	}
	slot, err := store.TailSlot(g.tx, queue)
	if err != nil {
		return err
	}
	g.queues.touch(run[0].Queue)
	for i, t := range run {
		depth := uint32(len(run) - 1 - i) //nolint:gosec // the length is small
		if err := g.parents.relocate(t, store.Pos{Queue: queue, Slot: slot, Depth: depth}, Main); err != nil {
			return err
		}
	}
	g.queues.touch(queue)
	return nil
}

// inRetriedRun reports whether t, a task at the node n, is part of a module's run that moves to a retry queue when it
// fails.
func inRetriedRun(b *bound, n *graph.Node, t *store.Task) bool {
	first := b.nodes[b.first(n)]
	return n.Scope == graph.ScopeModule && t.Subject.Module != "" && first != nil && first.RetryQueue
}

// divert moves t, the head of its queue, to another queue if t belongs to the main queue and cannot
// start. divert reports whether t was moved. A task that waits for lagging tasks moves to the queue
// Parked. If an earlier run of t's module is in the retry queue or in a parallel queue, the run of t
// moves behind it.
func (g *lagging) divert(b *bound, n *graph.Node, t *store.Task) (moved bool, err error) {
	interrupted := t.Claim != nil && t.Claim.Epoch != 0
	switch {
	case homeQueue(t) != Main || t.OwnQueue || t.Abandoned:
		return false, nil
	case t.Queue != Main || interrupted || t.Lagging == 0 && !n.RetryQueue:
		return g.followFailing(b, n, t)
	case t.Lagging > 0:
		slot, err := store.TailSlot(g.tx, Parked)
		if err != nil {
			return false, err
		}
		if err := g.queues.saveTop(); err != nil {
			return false, err
		}
		return true, g.parents.relocate(t, store.Pos{Queue: Parked, Slot: slot}, "")
	case t.FanOut != nil:
		return false, nil
	}
	queue, err := g.groups.retried(t, t.Subject.Module)
	if queue == "" && err == nil {
		queue, err = g.groups.leftOver(t, t.Subject.Module)
	}
	if queue == "" || err != nil {
		return false, err
	}
	if err := g.queues.saveTop(); err != nil {
		return false, err
	}
	run, rest, err := runOf(g.tx, t)
	if err != nil || len(run) != 1 {
		return false, err
	}
	if len(rest) > 0 {
		if err := g.lag(run, rest); err != nil {
			return false, err
		}
	}
	// Of two equal waiting tasks, the one in the parallel queue stays.
	next := *run[0]
	if err := g.remover.remove(run[0]); err != nil {
		return false, err
	}
	next.HomeQueue = Main
	return true, g.arrivals.tail(&next, queue)
}

// followFailing moves the run of t behind the tasks in the retry queue of its module, if there are any. There are such
// tasks if the run of t waited in a parallel queue behind the failing run. There are also such tasks if an earlier
// process interrupted the run of t, and the failing run was put before it, at the front of the main queue. If t has a
// journal, it stays: if its remaining effects waited, they could undo effects of the failing run.
func (g *lagging) followFailing(b *bound, n *graph.Node, t *store.Task) (moved bool, err error) {
	if !g.continueOnFailure || t.Journal || !inRetriedRun(b, n, t) || t.Queue == retryQueue(t.Subject.Module) {
		return false, nil
	}
	queue, err := g.groups.failing(t.Subject.Module)
	if queue == "" || err != nil {
		return false, err
	}
	return g.moveToRetryQueue(t)
}

// replaceParked removes the parked tasks of runs that have begun the node of t, because the run of t reaches the steps
// of these tasks itself. The result more is true if the budget was too small for some of these tasks. In this case, t
// starts after a later transition has removed the rest of them.
func (g *lagging) replaceParked(b *bound, t *store.Task) (more bool, err error) {
	for other, err := range store.Tasks(g.tx, Parked) {
		if err != nil {
			return false, err
		}
		if other.Graph != b.Graph.Name || other.Past != t.Node {
			continue
		}
		if !g.fits(costOf(other)) {
			g.claimHeadLater(t.Queue)
			return true, nil
		}
		if err := g.remover.drop(other, store.Superseded, t); err != nil {
			return false, err
		}
	}
	return false, nil
}
