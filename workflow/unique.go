package workflow

import (
	"bytes"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// enqueue writes t, which is new, at its place. Of two equal tasks that wait the
// one nearer the head stays; the run of the other points to it.
func (m *transition) enqueue(t *store.Task) error {
	if stays, err := m.enter(t); err != nil || !stays {
		return err
	}
	return m.save(t)
}

// enter is put without writing t, and reports whether t stays and is yet to be
// saved.
func (m *transition) enter(t *store.Task) (stays bool, err error) {
	if m.isUnique(t) {
		dropped, err := m.coalesce(t)
		if err != nil || dropped {
			return false, err
		}
		t.Waits = true
		m.tx.Put(uniqueKey(t), t.Key())
	}
	m.count(t.Run, 1)
	m.touch(t.Queue)
	return true, nil
}

// isUnique reports whether only one of t's kind may wait.
func (m *transition) isUnique(t *store.Task) bool {
	if t.Detached {
		return true
	}
	if t.FanOut != nil && t.FanOut.Edge {
		return false
	}
	b := m.e.graphs[t.Graph]
	return b != nil && b.nodes[graph.NodeID(t.Node)] != nil && b.nodes[graph.NodeID(t.Node)].Unique
}

// coalesce makes one of t and an equal task that waits in the same queue, and
// reports whether that one stays in t's stead.
func (m *transition) coalesce(t *store.Task) (dropped bool, err error) {
	old, ok, err := m.waiting(t)
	if err != nil || !ok {
		return false, err
	}
	if nearer(t, old) {
		if t.Parent, err = m.oneOf(t.Parent, old.Parent); err != nil {
			return false, err
		}
		return false, m.drop(old, store.Joined, t)
	}
	if old.IsHeld() { // no fan-out waits for it
		if err := m.joinHeld(old, t); err != nil {
			return true, err
		}
		return true, m.countDown(t.Parent, nil)
	}
	of, err := m.oneOf(old.Parent, t.Parent)
	if err != nil {
		return false, err
	}
	if again := m.e.ContinueOnFailure && t.Parent != nil && old.Failed != nil && m.now.Before(old.Due); of != old.Parent || again {
		old.Parent = of
		if again { // a converge comes to it
			old.Due = m.now
			m.touch(old.Queue)
		}
		if err := m.save(old); err != nil {
			return false, err
		}
	}
	r := recordOf(t, store.Joined)
	r.Into = old.ID.String()
	m.count(t.Run, 0)
	m.join(t.Run, old.Run)
	return true, m.record(r)
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

// oneOf returns the list that goes on waiting for a task which two may name:
// the first if it is still there. The second then waits no longer, as it would
// not had it found the task there.
func (m *transition) oneOf(first, second *store.Ref) (*store.Ref, error) {
	if first != nil && second != nil && first.Lags {
		if _, ok, err := m.taskAt(first); err != nil || !ok {
			return second, err
		}
		return first, m.countDown(second, nil)
	}
	if first == nil || second == nil || first.ID == second.ID {
		if first == nil {
			return second, nil
		}
		return first, nil
	}
	if _, ok, err := m.fanOut(first); err != nil || !ok {
		return second, err
	}
	return first, m.countDown(second, nil)
}

// waiting returns the task equal to t that waits in t's queue, in one that
// stands in for it, or out of it until it is due.
func (m *transition) waiting(t *store.Task) (*store.Task, bool, error) {
	k := m.tx.Get(uniqueKey(t))
	if k == nil {
		return nil, false, nil
	}
	return store.LoadAt(m.tx, store.Key(k))
}

// unwait marks t as no longer waiting.
func (m *transition) unwait(t *store.Task) {
	if t.Waits {
		t.Waits = false
		m.tx.Delete(uniqueKey(t))
	}
}

// drop takes the waiting task t away with all that belongs to it. into is what
// goes on in its stead, if anything does.
func (m *transition) drop(t *store.Task, state store.State, into *store.Task) error {
	r := recordOf(t, state)
	if into != nil {
		r.Into = into.ID.String()
		m.join(t.Run, into.Run)
	}
	if err := m.record(r); err != nil {
		return err
	}
	return m.remove(t)
}

// remove takes t away. The list that waits for it is not told: another task
// takes t's part.
func (m *transition) remove(t *store.Task) error {
	if m.top == t {
		m.top = nil
	}
	m.unwait(t)
	store.DropTask(m.tx, t)
	m.count(t.Run, -1)
	m.touch(t.Queue)
	if err := m.leaveBacklog(t); err != nil {
		return err
	}
	if err := m.leaveLane(t); err != nil {
		return err
	}
	return m.endExclusive(t)
}

// leave takes t away with nothing to follow it, and tells the list that waits
// for it.
func (m *transition) leave(t *store.Task, facts []graph.Fact) error {
	if err := m.remove(t); err != nil {
		return err
	}
	return m.countDown(t.Parent, facts)
}

func uniqueKey(t *store.Task) store.Key {
	return store.At(store.Unique).Str(homeQueue(t)).Str(t.Graph).Str(t.Node).Str(t.Subject.Module).Str(t.Subject.Hook).Str(t.Subject.Binding).
		Opt(t.Subject.Configuration)
}
