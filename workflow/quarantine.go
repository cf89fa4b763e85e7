package workflow

import (
	"fmt"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// quarantine moves the item that t is about to the quarantine, or item where t is a
// fan-out. All other work of its module or global hook is held from now on, each
// task when it comes to the head of its queue. A fan-out takes its next item.
func (m *transition) quarantine(b *bound, t *store.Task, item graph.Item, crashes int) error {
	q := store.QuarantinedItem{
		ID: m.newID(), Graph: t.Graph, Node: t.Node, Subject: t.Subject, Queue: homeQueue(t), Run: t.Run, At: m.now, Crashes: crashes,
	}
	if t.FanOut != nil {
		q.Subject = store.Subject(item.Subject)
	}
	r := recordOf(t, store.Quarantined)
	r.Subject, r.Into = q.Subject, q.ID.String()
	r.Detail = fmt.Sprintf("the process died %d times while it ran, the last time while nothing else did", crashes)
	if err := m.record(r); err != nil {
		return err
	}
	if err := m.endExclusive(t); err != nil {
		return err
	}
	if err := m.saveTop(); err != nil {
		return err
	}
	if err := m.takeItem(b, t, &q); err != nil {
		return err
	}
	if f := m.e.observer.Quarantined; f != nil {
		m.tx.OnCommit(func() { f(q) })
	}
	return store.Save(m.tx, store.QuarantineKey(q.ID), q)
}

// takeItem takes the item of q, which is t or the item in front of it, out of its
// queue. Events and ticks are held like all others of their hook.
func (m *transition) takeItem(b *bound, t *store.Task, q *store.QuarantinedItem) error {
	n := b.nodes[graph.NodeID(t.Node)]
	switch {
	case n.Batch:
		return m.holdItem(n, t, q)
	case t.FanOut != nil && q.Subject.Module == "":
		m.itemDone(t, nil)
		return m.saveTop()
	default:
		return m.leave(t, nil)
	}
}

// holdItem holds t and the tasks that its interrupted attempt covered.
func (m *transition) holdItem(n *graph.Node, t *store.Task, q *store.QuarantinedItem) error {
	last := max(t.Slot, t.Claim.End)
	if err := m.countBatch(t); err != nil {
		return err
	}
	claim := *t.Claim
	claim.Excused, claim.Crashes, claim.Exclusive = true, 0, false
	reason := q.Reason()
	for other, err := range store.TasksFrom(m.tx, t.Queue, t.Slot) {
		if err != nil {
			return err
		}
		if other.Slot > last {
			break
		}
		if q.Last = other.ID; other.ID == t.ID {
			q.First, other.Claim = other.ID, &claim
		}
		if other.Journal {
			store.DropJournal(m.tx, other.ID)
			other.Journal = false
		}
		m.unwait(other)
		m.tx.Delete(other.Key())
		if err := m.enterLane(laneOf(n, other), other, &reason); err != nil {
			return err
		}
	}
	m.touch(t.Queue)
	return nil
}

// Release lets the item in quarantine as id, and all work that it holds, be done. The
// run that the item was part of starts over at the tail of its queue; what is held
// follows in its order. Where another item in quarantine holds it as well, it goes on
// when that is released or skipped. The errors are ErrNoTask and the store's.
func (e *Engine) Release(id store.ID) error {
	return e.update(func(m *transition) error {
		q, err := m.takeQuarantined(id)
		if err != nil {
			return err
		}
		if err := m.startOver(q); err != nil {
			return err
		}
		return m.freeHeld(q)
	})
}

// freeHeld lets work go on that q held, which is not in quarantine any more.
func (m *transition) freeHeld(q *store.QuarantinedItem) error {
	m.changesModule(q.Subject.Module)
	for i := range q.Released { // by an older version
		if err := m.startOver(&q.Released[i]); err != nil {
			return err
		}
	}
	b := m.e.graphs[q.Graph]
	if q.Rerun == "" || b == nil || b.nodes[graph.NodeID(q.Rerun)] == nil {
		return nil
	}
	return m.tailOfOwn(m.follow(b, graph.Edge{To: graph.NodeID(q.Rerun)}, q.Run, q.Subject))
}

// takeQuarantined returns the item in quarantine as id, which it is not any more.
func (m *transition) takeQuarantined(id store.ID) (*store.QuarantinedItem, error) {
	q, ok, err := store.Load[store.QuarantinedItem](m.tx, store.QuarantineKey(id))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("task %s: %w", id, ErrNoTask)
	}
	m.tx.Delete(store.QuarantineKey(id))
	return &q, nil
}

// startOver puts the first node of the run that q was part of at the tail of the
// main queue or the configuration's; of a fan-out of global hooks at a start, the hook alone. Events and ticks
// are held, and need nothing.
func (m *transition) startOver(q *store.QuarantinedItem) error {
	b := m.e.graphs[q.Graph]
	switch {
	case b == nil || b.nodes[graph.NodeID(q.Node)] == nil:
		return nil // this version has no such work
	case len(q.Tasks) > 0:
		return m.putBack(q)
	case !q.First.IsZero():
		return nil
	}
	n := b.nodes[graph.NodeID(q.Node)]
	t := m.follow(b, graph.Edge{To: b.first(n)}, q.Run, q.Subject)
	if b.byItself(n, q.Subject) {
		t.Subject, t.Detached = q.Subject, true
	}
	// The item ran last in a process before the one that put it into quarantine.
	interrupted := store.Claim{Epoch: q.ID.Epoch - 1, Excused: true}
	if err := store.Save(m.tx, store.InterruptionKey(q.Graph, q.Node, q.Subject), interrupted); err != nil {
		return err
	}
	return m.tailOfOwn(t)
}

// tailOfOwn puts t, the first task of a run, at the tail of the queue of such runs.
func (m *transition) tailOfOwn(t *store.Task) error { return m.tail(t, queueOf(t.Subject)) }

// byItself reports whether n's item about s, a global hook, is done again without
// the others of its fan-out: those of a start are, as a start is not repeated.
func (b *bound) byItself(n *graph.Node, s store.Subject) bool {
	return s.Module == "" && s.Hook != "" && n.ForEach != "" && !n.Unique && b.first(n) == n.ID
}

// putBack puts the tasks that an older version kept with q at the tail of their
// queue.
func (m *transition) putBack(q *store.QuarantinedItem) error {
	for i := range q.Tasks {
		t := &q.Tasks[i]
		t.ID, t.Waits, t.Parent = m.newID(), false, nil
		if err := m.tail(t, q.Queue); err != nil {
			return err
		}
	}
	return nil
}

// first returns the node at which a run that n is part of begins: where it goes
// back to after a failure, or the first under the same heading, where that is of a
// module's run or of a run of which only one waits. All work about a configuration
// begins at the node that triggers lead to.
func (b *bound) first(n *graph.Node) graph.NodeID {
	if n.RetryFrom != "" {
		return n.RetryFrom
	}
	if n.Scope == graph.ScopeConfiguration {
		return b.entry(n)
	}
	for i := range b.Graph.Nodes {
		other := &b.Graph.Nodes[i]
		if other.Group != n.Group {
			continue
		}
		if n.Scope == graph.ScopeModule || n.Scope == graph.ScopeAll && other.Unique {
			return other.ID
		}
		break
	}
	return n.ID
}

// entry returns the first node of n's scope that a trigger leads to, n's own where there is none.
func (b *bound) entry(n *graph.Node) graph.NodeID {
	for _, edge := range b.Graph.Edges {
		if edge.On != "" && b.nodes[edge.To].Scope == n.Scope {
			return edge.To
		}
	}
	return n.ID
}

// skipQuarantined forgets the item in quarantine as id. The work that it held goes
// on.
func (e *Engine) skipQuarantined(id store.ID, by, reason string) error {
	return e.update(func(m *transition) error {
		if store.ForgetDamaged(m.tx, id) {
			return nil
		}
		q, err := m.takeQuarantined(id)
		if err != nil {
			return err
		}
		r := store.Record{
			Run: q.Run, Task: q.ID, Node: q.Node, Subject: q.Subject, Queue: q.Queue, State: store.Skipped, Detail: skippedBy(by, reason),
		}
		if err := m.record(r); err != nil {
			return err
		}
		if err := m.skipItem(q); err != nil {
			return err
		}
		return m.freeHeld(q)
	})
}

// skipItem takes the held tasks of q's item away.
func (m *transition) skipItem(q *store.QuarantinedItem) error {
	if q.First.IsZero() {
		return nil
	}
	k := store.LaneKey{Queue: q.Queue, Module: q.Subject.Module, Hook: q.Subject.Hook, Kind: store.Reactions}
	for t, err := range store.HeldTasks(m.tx, k) {
		if err != nil {
			return err
		}
		if t.ID.Before(q.First) {
			continue
		}
		if q.Last.Before(t.ID) {
			break
		}
		if err := m.leave(t, nil); err != nil {
			return err
		}
	}
	return nil
}

func skippedBy(by, reason string) string { return fmt.Sprintf("skipped by %s: %s", by, reason) }
