package workflow

import (
	"errors"
	"slices"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// routes follows the edges of a graph. A finished task is replaced by the tasks of exactly those edges
// whose facts hold.
type routes struct {
	*txn
	queues       *queues
	parents      *parents
	remover      *remover
	arrivals     *arrivals
	deferral     *deferral
	rewinds      *rewinds
	cancellation *cancellation
}

// complete takes the finished task t away and puts the tasks of every edge
// whose facts hold: those that stay here on t's place, the first on top. The
// last of these goes on with t's work under t's id, and what waits for t waits
// for it.
func (r *routes) complete(b *bound, n *graph.Node, t *store.Task, facts []graph.Fact, lists map[graph.FanOut][]graph.Item) error {
	if t.Abandoned || t.Detached {
		return r.remover.leave(t, facts)
	}
	var here []*store.Task
	// Until it is known what takes its place t keeps it: the tail of a queue that
	// was empty without it would be there.
	if err := r.queues.saveTop(); err != nil {
		return err
	}
	for _, edge := range b.Graph.Next(n.ID, facts) {
		next, err := r.take(b, edge, t, lists[edge.ForEach])
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
		last.ID = t.ID // it goes on with the same piece of work
	}
	height := t.Depth
	for i, next := range slices.Backward(here) {
		next.Pos = store.Pos{Queue: t.Queue, Slot: t.Slot, Depth: height}
		height++
		if err := r.stack(next, i == 0); err != nil {
			return err
		}
	}
	return nil
}

// startsOver reports whether next follows t by an edge that closes a loop. Then it is a new piece of
// work: hooks that ran in the last pass run again, and may tell the passes apart by the task's id.
func startsOver(t, next *store.Task) bool {
	return next.Loop != nil && (t.Loop == nil || *next.Loop != *t.Loop)
}

// stack puts t, which is on a place that is taken, there; top says that it is
// what stands there first.
func (r *routes) stack(t *store.Task, top bool) error {
	if t.CancelsPending {
		if err := r.cancellation.cancelPending(t); err != nil {
			return err
		}
	}
	stays, err := r.arrivals.enter(t)
	switch {
	case err != nil || !stays:
		return err
	case top:
		r.queues.setTop(t)
		return nil
	}
	return r.queues.save(t)
}

// take follows edge from the finished task t. It returns the task that is to
// stand on t's place, if there is one; others it puts where they belong.
func (r *routes) take(b *bound, edge graph.Edge, t *store.Task, items []graph.Item) (*store.Task, error) {
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
			return nil, r.deferral.enqueueLater(next, r.now.Add(delay(next.Loop.N-freeLoops+1)))
		}
	}
	if edge.Place != graph.Stack {
		return nil, r.send(b, edge, next, queueOf(next.Subject))
	}
	next.Past, next.Rewinds, next.CancelsPending, next.HomeQueue = t.Past, t.Rewinds, edge.CancelsPending, t.HomeQueue
	if edge.ForEach == "" {
		next.Failed = t.Failed
		return next, nil
	}
	next.FanOut = &store.FanOut{Len: len(items), Edge: true}
	return next, saveItems(r.tx, next, items)
}

// loop counts one closing more of the circle that t's node closes.
func loop(t *store.Task) *store.Loop {
	l := &store.Loop{From: t.Node, N: 1}
	if t.Loop != nil && t.Loop.From == t.Node {
		l.N += t.Loop.N
	}
	return l
}

// wakeFailed has failing tasks tried again at once.
func (rt *retries) wakeFailed() error {
	err := eachHead(rt.tx, func(t *store.Task) error {
		if t.Failed == nil || !rt.now.Before(t.Due) {
			return nil
		}
		if !rt.fits(costOf(t)) {
			rt.later(followUp{work: wakeFailedTasks, queue: Main})
			return errEnough
		}
		t.Due = rt.now
		rt.queues.touch(t.Queue)
		return rt.queues.save(t)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// send puts t, which is of a place of its own, where edge says.
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
