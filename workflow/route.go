package workflow

import (
	"slices"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// routes follows the edges of a graph. routes replaces a finished task by the tasks of exactly
// those edges whose conditions are true.
type routes struct {
	*txn
	queues         *queues
	parents        *parents
	remover        *remover
	arrivals       *arrivals
	deferral       *deferral
	rewinds        *rewinds
	pendingCancels *pendingCancels
}

// complete replaces the finished task t by the tasks of all edges whose conditions are true. If t is abandoned, or is
// an item in a queue of its own, complete follows no edge. The tasks with the place Stack get the slot of t, with the
// task of the first edge on top. The bottom task takes over the parent of t. The bottom task also takes over the id of
// t, unless it is a fan-out task or its edge closes a loop.
func (r *routes) complete(b *bound, n *graph.Node, t *store.Task, facts []graph.Fact, lists map[graph.FanOut][]graph.Item) error {
	if t.Abandoned || t.OwnQueue {
		return r.remover.removeLast(t, facts)
	}
	var here []*store.Task
	// t keeps its slot until its successors are known. Otherwise, a successor that is added to the
	// tail of a queue without other tasks would get the slot of t.
	if err := r.queues.saveTop(); err != nil {
		return err
	}
	for _, edge := range b.Graph.Next(n.ID, facts) {
		next, err := r.takeEdge(b, edge, t, lists[edge.ForEach])
		if err != nil {
			return err
		}
		if next != nil {
			here = append(here, next)
		}
	}
	if err := r.remover.remove(t); err != nil {
		return err
	}
	if len(here) == 0 {
		return r.parents.countDown(t.Parent, nil)
	}
	last := here[len(here)-1]
	last.Parent = t.Parent
	if last.FanOut == nil && !startsOver(t, last) {
		last.ID = t.ID // because the bottom task continues the work of t
	}
	depth := t.Depth
	for i, next := range slices.Backward(here) {
		next.Pos = store.Pos{Queue: t.Queue, Slot: t.Slot, Depth: depth}
		depth++
		if err := r.stack(next, i == 0); err != nil {
			return err
		}
	}
	return nil
}

// startsOver reports whether the edge from t to next closes a loop. If so, next is new work: the hooks of the loop run
// again, and can distinguish the two passes by the id of the task.
func startsOver(t, next *store.Task) bool {
	return next.Loop != nil && (t.Loop == nil || *next.Loop != *t.Loop)
}

// stack adds t to the slot of its position. The parameter top says whether t becomes the top task of the slot.
func (r *routes) stack(t *store.Task, top bool) error {
	if t.CancelsPending {
		// The slot must not be empty while tasks are canceled. Otherwise, a parked task would get the slot if its last
		// lagging task is canceled.
		if err := r.queues.save(t); err != nil {
			return err
		}
		if err := r.pendingCancels.cancelPending(t); err != nil {
			return err
		}
	}
	stays, err := r.arrivals.enter(t)
	switch {
	case err != nil:
		return err
	case !stays:
		r.tx.Delete(t.Key()) // its header can be in the store already
		return nil
	case top:
		r.queues.setTop(t)
		return nil
	}
	return r.queues.save(t)
}

// takeEdge follows edge from the finished task t. takeEdge returns the task that takes the slot of
// t; nil if there is none. takeEdge adds tasks with other places to their queues. If the run has
// taken a loop edge too often in a row, takeEdge defers the task instead.
func (r *routes) takeEdge(b *bound, edge graph.Edge, t *store.Task, items []graph.Item) (*store.Task, error) {
	if edge.ForEach != "" && edge.Place != graph.Stack {
		for _, item := range items {
			next := r.follow(b, edge, t.Run, item.Subject)
			if err := r.send(b, edge, next, queueOf(next.Subject)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	if edge.ForEach != "" && len(items) == 0 {
		return nil, nil
	}
	next := r.follow(b, edge, t.Run, t.Subject)
	next.Loop = t.Loop
	if edge.Loop {
		next.Loop = loop(t)
		if next.Loop.N >= freeLoops {
			next.Queue = queueOf(next.Subject)
			if edge.Place == graph.Stack {
				next.Queue = homeQueue(t)
			}
			return nil, r.deferral.deferNew(next, r.now.Add(delay(next.Loop.N-freeLoops+1)))
		}
	}
	if edge.Place != graph.Stack {
		return nil, r.send(b, edge, next, queueOf(next.Subject))
	}
	next.Past, next.Rewinds, next.CancelsPending, next.HomeQueue = t.Past, t.Rewinds, edge.CancelsPending, t.HomeQueue
	if edge.ForEach == "" {
		if !edge.Loop && !b.nodes[edge.To].Unique { // at a unique node, the work of other requests begins too
			next.Skips = t.Skips
		}
		next.Failed = t.Failed.Without(func(s store.StepRef) bool { return s.Node == t.Node }) // all items of the node have ended
		return next, nil
	}
	next.FanOut = &store.FanOut{Len: len(items), Edge: true}
	return next, saveItems(r.tx, next, items)
}

// loop returns the loop that an edge from t's node closes. The count of the loop is one more than
// in the loop of t, or 1 if t is in no pass of this loop.
func loop(t *store.Task) *store.Loop {
	l := &store.Loop{From: t.Node, N: 1}
	if t.Loop != nil && t.Loop.From == t.Node {
		l.N += t.Loop.N
	}
	return l
}

// send adds t, which gets a slot of its own, to queue at the place that edge names.
func (r *routes) send(b *bound, edge graph.Edge, t *store.Task, queue string) error {
	switch edge.Place {
	case graph.Rewind:
		return r.rewinds.rewind(b, t)
	case graph.Front:
		return r.arrivals.front(t, queue)
	default:
		return r.arrivals.tail(t, queue)
	}
}
