package workflow

import (
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// startElsewhere puts child, a member of the list t, in its own queue, or takes
// over the equal task that is there already. t is yet to be saved.
func (m *transition) startElsewhere(n *graph.Node, t, child *store.Task, wait bool) error {
	ref := &store.Ref{ID: t.ID, Pos: t.Pos}
	there, ok, err := m.equalTo(n, child)
	if err != nil {
		return err
	}
	if ok && there.IsHeld() {
		return m.joinHeld(there, child)
	}
	if ok && child.HomeQueue != "" && there.Queue == child.HomeQueue {
		ok = false // it stands behind the list and is made one with child
	}
	if !ok && n.JoinsRunning {
		return nil // it has ended since the list was made
	}
	if !ok {
		if wait {
			child.Parent = ref
			t.FanOut.Open++
		}
		return m.tail(child, child.Queue)
	}
	if !wait || there.Parent != nil && there.Parent.ID == t.ID {
		return nil
	}
	if _, alive, err := m.fanOut(there.Parent); err != nil || alive && !n.JoinsRunning {
		return err // that list waits for it, which is enough
	}
	if err := m.countDown(there.Parent, nil); err != nil {
		return err
	}
	there.Parent = ref
	t.FanOut.Open++
	return m.save(there)
}

// equalTo returns the task about the same in t's queue that waits or has begun.
func (m *transition) equalTo(n *graph.Node, t *store.Task) (*store.Task, bool, error) {
	if there, ok, err := m.waiting(t); ok || err != nil {
		return there, ok, err
	}
	for there, err := range m.heads(t.Queue) {
		if err != nil {
			return nil, false, err
		}
		begun := (there.Claim != nil || there.Failed != nil) && (n.JoinsRunning || !there.Abandoned)
		if begun && there.Graph == t.Graph && there.Subject == t.Subject && (n.JoinsRunning || there.Node == t.Node && there.Detached == t.Detached) {
			return there, true, nil
		}
	}
	return nil, false, nil
}

// runningOf lists the tasks of t's module that run in other queues than t's, or
// have begun their effects there.
func (m *transition) runningOf(t *store.Task) (items []graph.Item, err error) {
	err = m.eachHead(func(other *store.Task) error {
		if (m.claimed(other) || other.Journal) && other.Queue != t.Queue &&
			other.Graph == t.Graph && other.Subject.Module == t.Subject.Module {
			items = append(items, graph.Item{Subject: graph.Subject(other.Subject), Queue: other.Queue, Wait: true})
		}
		return nil
	})
	return items, err
}
