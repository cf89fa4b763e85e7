package workflow

import (
	"fmt"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A Gater returns the reason why the hook of t cannot run yet, for example that another step must
// run first. The reason is one line for people. It is empty if the hook can run. Gate is called in
// a transaction and must not write. While t is the oldest held task of its lane, the engine calls
// Gate again at each start of the engine, and in each transition that ends a step of t's module or,
// if t has no module, a step without a module. So a change that lets the hook run must be part of
// such a transition, or come before one.
//
// Gate is called only for tasks of nodes with Batch, and for items in queues of their own that can
// run without their fan-out. If the answer is not empty, the task is held, and the answer is
// recorded with its lane, so that [BlockedBy] finds it without the step.
type Gater interface {
	Gate(tx *store.Tx, t *store.Task) (awaits string, err error)
}

// gate decides whether tasks can start. gate holds the head of a queue if [store.Reason.Holds] is
// true for the reason that blocks this task, or if older tasks that must start before it are held.
// Then the tasks behind it continue. Otherwise, gate leaves the task at the head.
type gate struct {
	*txn
	history   *history
	queues    *queues
	parents   *parents
	lanes     *lanes
	exclusive *exclusive
	remover   *remover
	arrivals  *arrivals
	limits    *limits
}

// blockedBy returns the reason why t, at the head of its queue, cannot start; nil if there is none.
// The reasons are those of [BlockedBy], and two that only t's step knows: the answer of a [Gater],
// and the rate limit of the hook. blockedBy writes nothing. b and n are nil if this version does
// not have the graph or the node of t.
func (g *gate) blockedBy(b *bound, n *graph.Node, t *store.Task) (*store.Reason, error) {
	if reason, err := BlockedBy(g.tx, t); reason != nil || err != nil || n == nil {
		return reason, err
	}
	if reason, err := g.startReason(b, n, t); reason != nil || err != nil {
		return reason, err
	}
	return g.limits.reason(b, n, t)
}

// heldBy returns the reason why t must be held, or stays held; nil if there is none.
func (g *gate) heldBy(b *bound, n *graph.Node, t *store.Task) (*store.Reason, error) {
	if reason, err := quarantineReason(g.tx, t); reason != nil || err != nil {
		return reason, err
	}
	return g.startReason(b, n, t)
}

// startReason returns the reason why the hook of t cannot run yet; nil if there is none.
func (g *gate) startReason(b *bound, n *graph.Node, t *store.Task) (*store.Reason, error) {
	gater, ok := b.Steps[n.ID].(Gater)
	if !ok || t.Journal || t.Abandoned {
		return nil, nil
	}
	if standalone, err := isStandalone(g.tx, t); err != nil || !standalone && !n.Batch {
		return nil, err
	}
	awaits := ""
	err := guard(n, "Gate", func() (err error) { awaits, err = gater.Gate(g.tx, t); return err })
	if err != nil {
		return nil, fmt.Errorf("gate of task %s at node %s: %w", t.ID, n.ID, err)
	}
	if awaits == "" {
		return nil, nil
	}
	return &store.Reason{Kind: store.AwaitsStart, Detail: awaits}, nil
}

// stop holds t, the head of its queue, if reason requires that t is held, or if older tasks that
// must start before t are held. stop reports whether it has held t.
func (g *gate) stop(b *bound, n *graph.Node, t *store.Task, reason *store.Reason) (held bool, err error) {
	if !reason.Holds() && (!n.Batch || t.Journal) {
		return false, nil
	}
	lane, ok, err := store.LoadLane(g.tx, laneOf(n, t))
	switch {
	case err != nil:
		return false, err
	case reason.Holds():
	case !ok || lane.Open && t.Slot > lane.After:
		return false, nil
	default:
		reason = nil
	}
	return true, g.hold(b, n, t, reason)
}

// hold moves t from the head of its queue to its lane. If reason is nil, the lane keeps the reason
// of its older tasks. If t is part of a run in progress, a task at the first node of the run is
// held instead. An item that can run without its fan-out is held itself, because no later run
// repeats it. If t is neither an event nor a schedule tick, and an equal task is in the lane already,
// t joins that task.
func (g *gate) hold(b *bound, n *graph.Node, t *store.Task, reason *store.Reason) error {
	if err := g.queues.saveTop(); err != nil {
		return err
	}
	k := laneOf(n, t)
	if !n.Batch {
		standalone, err := isStandalone(g.tx, t)
		if err != nil {
			return err
		}
		run := b.first(n) != n.ID || t.FanOut != nil
		if run && !standalone {
			return g.holdRun(b, n, t, *reason)
		}
		old, err := heldEqual(g.tx, k, t)
		if err != nil {
			return err
		}
		if old != nil {
			if err := g.lanes.joinHeld(old, t); err != nil {
				return err
			}
			return g.remover.removeLast(t, nil)
		}
		t.Past = ""
	}
	if err := countBatch(g.tx, t); err != nil {
		return err
	}
	parent := t.Parent
	t.Parent = nil
	g.tx.Delete(t.Key())
	g.queues.touch(t.Queue)
	if err := g.exclusive.endExclusive(t); err != nil {
		return err
	}
	if err := g.lanes.enterLane(k, t, reason); err != nil {
		return err
	}
	return g.parents.countDown(parent, nil)
}

// holdRun removes t, and holds a task at the first node of t's run instead. If such a task is held
// already, the run of t joins the run of that task. If the quarantine or pause does not hold the
// first node, as in a reload, a new run starts after the end of the quarantine or pause instead. If
// t is an item, its fan-out task is held later, when it continues.
func (g *gate) holdRun(b *bound, n *graph.Node, t *store.Task, reason store.Reason) error {
	if err := g.parents.returnItem(t); err != nil {
		return err
	}
	first := b.nodes[b.first(n)]
	next := g.follow(b, graph.Edge{To: first.ID}, t.Run, t.Subject)
	q, _, err := store.Load[store.QuarantinedItem](g.tx, store.QuarantineKey(reason.By))
	if err != nil {
		return err
	}
	if !q.Holds(next.Graph, next.Node, next.Subject) {
		if err := g.owe(&q, first.ID, t, t.Subject); err != nil {
			return err
		}
		return g.remover.removeLast(t, nil)
	}
	inheritID(next, t)
	next.Queue, next.Failed, next.Skips = queueOf(next.Subject), t.Failed, t.Skips
	if err := noteInterruption(g.tx, t); err != nil {
		return err
	}
	k := laneOf(first, next)
	old, err := heldEqual(g.tx, k, next)
	if err != nil {
		return err
	}
	if old != nil {
		if err := g.lanes.joinHeld(old, next); err != nil {
			return err
		}
		return g.remover.removeLast(t, nil)
	}
	if err := g.remover.removeLast(t, nil); err != nil {
		return err
	}
	return g.arrivals.holdNew(k, next, &reason)
}

// owe records that a new run must start at node when q ends, because t, or the item of t with the
// subject s, has been skipped.
func (g *gate) owe(q *store.QuarantinedItem, node graph.NodeID, t *store.Task, s graph.Subject) error {
	r := recordOf(t, store.Quarantined)
	r.Subject, r.Into = s, q.ID.String()
	r.Detail = q.Reason().Detail + "; when this ends, a new run starts at " + string(node)
	q.Rerun, q.RerunOf = string(node), t.Run
	if err := g.history.record(r); err != nil {
		return err
	}
	return store.Save(g.tx, store.QuarantineKey(q.ID), *q)
}
