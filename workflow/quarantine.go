package workflow

import (
	"errors"
	"fmt"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// quarantine sets aside what t is about, or member where t stands for a list.
// Of a module all else that waits is taken away; a list of global hooks takes
// its next member.
func (m *move) quarantine(b *bound, t *store.Task, member graph.Member, crashes int) error {
	q := store.Killer{
		ID: m.newID(), Graph: t.Graph, Node: t.Node, Subject: t.Subject, Queue: home(t), Walk: t.Walk, At: m.now, Crashes: crashes,
	}
	if t.List != nil {
		q.Subject = store.Subject(member.Subject)
	}
	r := recordOf(t, store.Quarantined)
	r.Subject, r.Into = q.Subject, q.ID.String()
	r.Detail = fmt.Sprintf("the process died %d times while it ran, the last time while nothing else did", crashes)
	err := firstError(m.record(r), m.endAlone(t), m.saveTop())
	if err != nil {
		return err
	}
	inList := q.Subject.Module == "" && t.List != nil
	if inList {
		m.memberDone(t, nil)
		if err := m.saveTop(); err != nil {
			return err
		}
	} else if err := m.takeAway(b, t, &q); err != nil {
		return err
	}
	if err := firstError(store.Save(m.tx, store.KillerKey(q.ID), q), m.dropHeld(&q, t, inList)); err != nil {
		return err
	}
	if f := m.e.observer.Quarantined; f != nil {
		m.tx.OnCommit(func() { f(q) })
	}
	return nil
}

// takeAway takes t away. What is of nodes that cover ranges q keeps, with all that
// one run does at once: it says what the run is about.
func (m *move) takeAway(b *bound, t *store.Task, q *store.Killer) error {
	if n := b.nodes[graph.NodeID(t.Node)]; n == nil || !n.Ranges {
		return m.leave(t, nil)
	}
	last := max(t.Place, t.Claim.End)
	for other, err := range store.TasksFrom(m.tx, t.Queue, t.Place) {
		if err != nil {
			return err
		}
		if other.Place > last {
			return nil
		}
		if err := firstError(store.LoadPayload(m.tx, other), m.leave(other, nil)); err != nil {
			return err
		}
		kept := *other
		kept.Claim, kept.Failed, kept.Journal, kept.Chunks = nil, nil, false, 0
		q.Tasks = append(q.Tasks, kept)
	}
	return nil
}

// dropHeld takes away what waits and q holds. What it leaves, as one move takes
// away only so much, is dropped when it comes to its turn.
func (m *move) dropHeld(q *store.Killer, list *store.Task, inList bool) error {
	drop := func(t *store.Task) error {
		switch {
		case inList && t.ID == list.ID, t.Journal, !q.Holds(t.Graph, t.Node, t.Subject):
			return nil
		case !m.fits(costOf(t)):
			return errEnough
		}
		return m.dropFor(t, q)
	}
	err := m.each("", func(t, holder *store.Task) error {
		if holder != nil {
			return nil // it is being done, or has begun its effects, and comes to its end
		}
		return drop(t)
	})
	if err == nil {
		err = m.eachLater(drop)
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// dropFor takes t away as q holds it.
func (m *move) dropFor(t *store.Task, q *store.Killer) error {
	r := recordOf(t, store.Dropped)
	r.Into = q.ID.String()
	r.Detail = "what it is about is in quarantine"
	return firstError(m.record(r), m.leave(t, nil))
}

// heldBy returns what is set aside and holds what is about s at t's node, if
// anything does.
func (m *move) heldBy(t *store.Task, s store.Subject) (*store.Killer, error) {
	return m.holds(t.Graph, t.Node, s)
}

func (m *move) holds(graph, node string, s store.Subject) (*store.Killer, error) {
	for q, err := range store.AllKillers(m.tx) {
		if err != nil {
			return nil, err
		}
		if q.Holds(graph, node, s) {
			return &q, nil
		}
	}
	return nil, nil
}

// Release has what was set aside as id be done again: the run it was part of
// begins anew at the tail of its queue. Where something else that is set aside
// keeps it from being done, it is when that is released or skipped. The errors are
// ErrNoTask and the store's.
func (e *Engine) Release(id store.ID) error {
	return e.update(func(m *move) error {
		q, err := m.takeQuarantined(id)
		if err != nil {
			return err
		}
		return m.release(append(q.Released, *q))
	})
}

// release has what was set aside be done again, each as soon as nothing holds it.
func (m *move) release(released []store.Killer) error {
	for _, q := range released {
		q.Released = nil
		other, err := m.holds(q.Graph, q.Node, q.Subject)
		if err != nil {
			return err
		}
		if other != nil {
			other.Released = append(other.Released, q)
			if err := store.Save(m.tx, store.KillerKey(other.ID), *other); err != nil {
				return err
			}
			continue
		}
		if err := m.putBack(&q); err != nil {
			return err
		}
	}
	return nil
}

// putBack puts q's tasks, or its run, at the tail of their queue.
func (m *move) putBack(q *store.Killer) error {
	if len(q.Tasks) == 0 {
		return m.startOver(q)
	}
	for i := range q.Tasks {
		t := &q.Tasks[i]
		t.ID, t.Waits, t.Of = m.newID(), false, nil
		if err := m.tail(t, q.Queue); err != nil {
			return err
		}
	}
	return nil
}

// takeQuarantined returns what was set aside as id, which it is not any more.
func (m *move) takeQuarantined(id store.ID) (*store.Killer, error) {
	q, ok, err := store.Load[store.Killer](m.tx, store.KillerKey(id))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("task %s: %w", id, ErrNoTask)
	}
	m.tx.Delete(store.KillerKey(id))
	return &q, nil
}

// startOver puts the first node of the run that q was part of at the main
// queue's tail; of a list of global hooks, the hook alone.
func (m *move) startOver(q *store.Killer) error {
	b := m.e.graphs[q.Graph]
	if b == nil || b.nodes[graph.NodeID(q.Node)] == nil {
		return nil // this version has no such work
	}
	n := b.nodes[graph.NodeID(q.Node)]
	t := m.follow(b, graph.Edge{To: b.first(n)}, q.Walk, q.Subject)
	if q.Subject.Module == "" && n.Each != "" && q.Subject.Hook != "" {
		t.Node, t.Subject, t.Solo = q.Node, q.Subject, true
	}
	return m.tail(t, Main)
}

// first returns the node at which a run that n is part of begins: where it goes
// back to after a failure, or where it is about a module, the first under the same
// heading.
func (b *bound) first(n *graph.Node) graph.NodeID {
	if n.Back != "" {
		return n.Back
	}
	if n.Of == graph.OfModule {
		for i := range b.Graph.Nodes {
			if other := &b.Graph.Nodes[i]; other.Group == n.Group {
				return other.ID
			}
		}
	}
	return n.ID
}

// skipQuarantined forgets what was set aside as id. What only that kept from being
// done is done.
func (e *Engine) skipQuarantined(id store.ID, by, reason string) error {
	return e.update(func(m *move) error {
		if store.ForgetDamaged(m.tx, id) {
			return nil
		}
		q, err := m.takeQuarantined(id)
		if err != nil {
			return err
		}
		return firstError(m.record(store.Record{
			Walk: q.Walk, Task: q.ID, Node: q.Node, Subject: q.Subject, Queue: q.Queue, State: store.Skipped, Detail: skippedBy(by, reason),
		}), m.release(q.Released))
	})
}

func skippedBy(by, reason string) string { return fmt.Sprintf("skipped by %s: %s", by, reason) }
