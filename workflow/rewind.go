package workflow

import (
	"errors"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// mostRewinds is the maximum number of consecutive rewinds of a run. The run then continues to its
// end, so that it reaches its last modules in spite of constant changes.
const mostRewinds = 3

// stuckAfter is the number of consecutive failures after which a run is stuck. A stuck run cannot
// reach its end by itself, so a rewind loses nothing and is not counted.
const stuckAfter = 2

// rewinds moves runs of the main queue back to a node. A task that must not be interrupted ends
// before its run continues at that node.
type rewinds struct {
	*txn
	history  *history
	queues   *queues
	parents  *parents
	remover  *remover
	arrivals *arrivals
}

// rewind ensures that the work from the node of t on is done again. Runs that have begun the node
// are rewound to it, except those that were rewound too often in a row. If no run is rewound, t
// joins a run that has yet to reach the node. If there is no such run either, t is added to the
// tail of the main queue.
func (w *rewinds) rewind(b *bound, t *store.Task) error {
	past, before, err := stacks(w.tx, b, graph.NodeID(t.Node))
	if err != nil {
		return err
	}
	rewound := false
	for _, s := range past {
		stuck, err := w.isStuck(s)
		if err != nil {
			return err
		}
		if s.bottom().Rewinds >= mostRewinds && !stuck {
			continue
		}
		if err := w.replaceStack(s, t, stuck); err != nil {
			return err
		}
		rewound = true
	}
	switch {
	case rewound:
		return nil
	case len(before) == 0:
		return w.arrivals.tail(t, Main)
	}
	r := recordOf(t, store.Joined)
	r.Queue, r.Into = Main, before[0].bottom().ID.String()
	w.history.join(t.Run, before[0].bottom().Run)
	return w.history.record(r)
}

// isStuck reports whether the run of s is stuck: the task on top of s has failed at least stuckAfter times in a row, or
// the run waits for a queue whose first task has failed that often.
func (w *rewinds) isStuck(s stack) (stuck bool, err error) {
	top := s[0]
	if stuck = top.Failed.Total() >= stuckAfter; stuck || top.FanOut == nil || top.FanOut.Open == 0 {
		return stuck, nil
	}
	failing := func(t *store.Task) bool { return t.Failed.Total() >= stuckAfter }
	return awaitsHead(w.tx, failing, func(by *store.Task) bool { return by.ID == top.ID })
}

// stacks returns the stacks of the main queue and of the queue Parked whose runs have begun node,
// and those whose runs have yet to reach node. stacks leaves out abandoned stacks, because their
// runs do not continue.
func stacks(tx *store.Tx, b *bound, node graph.NodeID) (past, before []stack, err error) {
	var s stack
	sort := func() {
		if len(s) == 0 {
			return
		}
		switch t := s.bottom(); {
		case t.Graph != b.Graph.Name || t.Abandoned:
		case t.Past == string(node):
			past = append(past, s)
		case b.Graph.Leads(graph.NodeID(t.Node), node):
			before = append(before, s)
		}
		s = nil
	}
	for _, queue := range []string{Main, Parked} {
		for t, err := range store.Tasks(tx, queue) {
			if err != nil {
				return nil, nil, err
			}
			if len(s) > 0 && s[0].Slot != t.Slot {
				sort()
			}
			s = append(s, t)
		}
		sort()
	}
	return past, before, nil
}

// replaceStack removes s, except for a task that must end by itself. replaceStack puts a copy of t
// in the slot of s or, if s was parked, at the tail of the main queue. The copy belongs to the run
// of s. The parameter stuck says whether this run is stuck.
func (w *rewinds) replaceStack(s stack, t *store.Task, stuck bool) error {
	bottom := *s.bottom()
	next := *t
	next.ID, next.Run, next.Pos, next.Parent = w.newID(), bottom.Run, bottom.Pos, bottom.Parent
	if next.Rewinds = bottom.Rewinds; !stuck {
		next.Rewinds++
	}
	kept, err := w.cancelStack(s, next.ID.String())
	if err != nil {
		return err
	}
	if kept != nil && kept.ID == bottom.ID {
		if err := w.parents.lift(kept); err != nil {
			return err
		}
	}
	w.history.join(t.Run, bottom.Run)
	if bottom.Queue == Parked {
		return w.arrivals.tail(&next, Main)
	}
	return w.arrivals.enqueue(&next)
}

// cancelStack removes the tasks of s, and the items of their fan-outs that wait in other queues. The parameter into is
// the ID of the task that the history names as the replacement; empty if there is none. cancelStack returns the top
// task if that task must end by itself: an uninterruptible task, one that runs or has begun its effects, or a fan-out
// task whose items still run in parallel queues. Otherwise it returns nil.
func (w *rewinds) cancelStack(s stack, into string) (kept *store.Task, err error) {
	for i, old := range s {
		if i == 0 {
			keep, err := w.mustFinish(old)
			if err != nil {
				return nil, err
			}
			if keep {
				kept = old
				continue
			}
		}
		if _, err := w.cancelItems(old); err != nil {
			return nil, err
		}
		if err := noteInterruption(w.tx, old); err != nil {
			return nil, err
		}
		r := recordOf(old, store.Superseded)
		r.Into = into
		if err := w.history.record(r); err != nil {
			return nil, err
		}
		if err := w.remover.remove(old); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// mustFinish reports whether t, on top of a removed stack, must end by itself. If so, and the node
// of t is not Uninterruptible, mustFinish abandons t and removes the items of t that wait.
func (w *rewinds) mustFinish(t *store.Task) (bool, error) {
	_, n, err := w.graphs.boundTo(t)
	if err != nil {
		return false, nil //nolint:nilerr // a task at an unknown node need not finish
	}
	if n.Uninterruptible && (t.FanOut == nil || !t.FanOut.Edge) {
		return true, nil
	}
	if waitsForGroup(t) {
		return w.cancelWaitingItems(t)
	}
	if !t.Journal && !claimed(w.tx, t) {
		return false, nil
	}
	t.Abandoned = true
	dropped, err := w.cancelItems(t)
	if err != nil {
		return false, err
	}
	if t.FanOut != nil {
		t.FanOut.Open -= dropped
	}
	return true, w.queues.save(t)
}

// cancelItems removes the items of parent that wait in other queues, and returns their number.
// Running items continue, and the next fan-out task with an equal item takes them over, unless the
// item is Changed. Items that do not run but have begun their effects are abandoned: an equal item
// runs after these effects, because an earlier start may have begun them. In a parallel group, only
// the running step continues, and it gets no successors. The fan-out task keeps waiting for this
// step. Items beyond the budget of the transition stay: the next run of the node takes them over.
func (w *rewinds) cancelItems(parent *store.Task) (dropped int, err error) {
	if parent.FanOut == nil || parent.FanOut.Open == 0 {
		return 0, nil
	}
	err = eachQueued(w.tx, func(t, holder *store.Task) error {
		if t.Parent == nil || t.Parent.ID != parent.ID {
			return nil
		}
		if t.HomeQueue != "" {
			ended, err := w.cancelGroupItem(t)
			if ended {
				dropped++
			}
			return err
		}
		if holder != nil && (!t.Journal || t.Abandoned || claimed(w.tx, t)) {
			return nil
		}
		if !w.fits(costOf(t)) {
			return errEnough
		}
		if holder != nil {
			t.Abandoned = true
			return w.queues.save(t)
		}
		dropped++
		if err := noteInterruption(w.tx, t); err != nil {
			return err
		}
		return w.remover.drop(t, store.Superseded, nil)
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return dropped, err
}

// supersede cancels all runs that have begun node or have yet to reach it, and the deferred tasks at node. The run with
// the number run, which a start of the operator began, replaces them.
func (w *rewinds) supersede(b *bound, node graph.NodeID, run uint64) error {
	past, before, err := stacks(w.tx, b, node)
	if err != nil {
		return err
	}
	for _, s := range append(past, before...) {
		for _, t := range s {
			w.history.join(t.Run, run)
		}
		parent := s.bottom().Parent
		if _, err := w.cancelStack(s, ""); err != nil {
			return err
		}
		if err := w.parents.countDown(parent, nil); err != nil {
			return err
		}
	}
	return eachDeferred(w.tx, func(t *store.Task) error {
		if t.Graph != b.Graph.Name || t.Node != string(node) {
			return nil
		}
		w.history.join(t.Run, run)
		return w.remover.drop(t, store.Superseded, nil)
	})
}

// cancelWaitingItems removes the waiting tasks of t's items. cancelWaitingItems reports whether any
// item still runs. If an item still runs, t stays until the running items have ended, and starts no
// other item.
func (w *rewinds) cancelWaitingItems(t *store.Task) (bool, error) {
	dropped, err := w.cancelItems(t)
	if err != nil {
		return false, err
	}
	t.FanOut.Open -= dropped
	if t.FanOut.Open == 0 {
		return false, nil
	}
	t.Abandoned = true
	return true, w.queues.save(t)
}

// cancelGroupItem removes the run of an item in a parallel group. The parameter bottom is the last task of the run, for
// which the parent waits. If a step of the run must end by itself, its task stays and gets the parent of bottom. The
// result ended is true if no task of the run is left.
func (w *rewinds) cancelGroupItem(bottom *store.Task) (ended bool, err error) {
	var s stack
	for t, err := range store.Slot(w.tx, bottom.Queue, bottom.Slot) {
		if err != nil {
			return false, err
		}
		s = append(s, t)
	}
	kept, err := w.cancelStack(s, "")
	if err != nil || kept == nil {
		return err == nil, err
	}
	kept.Parent = bottom.Parent
	return false, w.queues.save(kept)
}
