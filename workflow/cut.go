package workflow

import (
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// cut sees to it that what follows t's node is done anew. A walk that has not
// begun the node needs nothing; one that is past its beginning is taken down to
// it; where there is none, t goes to the tail of the main queue.
func (m *move) cut(b *bound, t *store.Task) error {
	past, before, err := m.stacks(b, graph.NodeID(t.Node), t.Walk)
	if err != nil {
		return err
	}
	if len(past) == 0 && len(before) == 0 {
		return m.tail(t, Main)
	}
	for _, stack := range past {
		if err := m.takeDown(stack, t); err != nil {
			return err
		}
	}
	if len(past) == 0 {
		r := recordOf(t, store.Joined)
		r.Queue, r.Into = Main, before[0].ID.String()
		m.join(t.Walk, before[0].Walk)
		return m.record(r)
	}
	return nil
}

// stacks returns the stacks of the main queue that are past the beginning of
// node, top first, and the tasks that come to it yet. Those of walk except are
// left out.
func (m *move) stacks(b *bound, node graph.NodeID, except uint64) (past [][]*store.Task, before []*store.Task, err error) {
	var stack []*store.Task
	sort := func() {
		if len(stack) == 0 {
			return
		}
		bottom := stack[len(stack)-1]
		switch {
		case bottom.Walk == except || bottom.Graph != b.Graph.Name:
		case bottom.Past == string(node):
			past = append(past, stack)
		case b.Graph.Leads(graph.NodeID(bottom.Node), node):
			before = append(before, bottom)
		}
		stack = nil
	}
	for t, err := range store.Tasks(m.tx, Main) {
		if err != nil {
			return nil, nil, err
		}
		if len(stack) > 0 && stack[0].Place != t.Place {
			sort()
		}
		stack = append(stack, t)
	}
	sort()
	return past, before, nil
}

// takeDown takes stack away but for what must come to its end, and puts t, as
// part of the stack's walk, in its stead.
func (m *move) takeDown(stack []*store.Task, t *store.Task) error {
	bottom := *stack[len(stack)-1]
	kept, err := m.clearStack(stack, t)
	if err != nil {
		return err
	}
	if kept != nil && kept.Height == bottom.Height {
		store.DropTask(m.tx, &store.Task{Pos: kept.Pos})
		kept.Height++
		if err := store.SaveTask(m.tx, kept); err != nil {
			return err
		}
	}
	next := *t
	next.ID, next.Walk, next.Pos, next.Of = m.newID(), bottom.Walk, bottom.Pos, nil
	m.join(t.Walk, bottom.Walk)
	return m.put(&next)
}

// clearStack takes the tasks of stack away as superseded by next, and what
// their lists have waiting elsewhere. It returns the task on top if that must
// come to its end: a delete past its uninstall, or one that has begun its
// effects, which then has no successors.
func (m *move) clearStack(stack []*store.Task, next *store.Task) (kept *store.Task, err error) {
	for i, old := range stack {
		n := m.e.graphs[old.Graph].nodes[graph.NodeID(old.Node)]
		if i == 0 && (old.Journal || n.Finishes && (old.List == nil || !old.List.Edge)) {
			old.Orphan = old.Orphan || !n.Finishes
			kept = old
			if err := store.SaveTask(m.tx, old); err != nil {
				return nil, err
			}
			continue
		}
		if old.List != nil && old.List.Open > 0 {
			if err := m.dropMembers(old); err != nil {
				return nil, err
			}
		}
		r := recordOf(old, store.Superseded)
		if next != nil {
			r.Into = next.ID.String()
		}
		if err := firstError(m.record(r), m.remove(old)); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// dropMembers takes away the members of list that wait in other queues. Those
// that run go on, and the list that next asks for the same takes them over.
func (m *move) dropMembers(list *store.Task) error {
	for queue, err := range store.AllQueues(m.tx) {
		if err != nil {
			return err
		}
		for t, err := range store.Tasks(m.tx, queue) {
			if err != nil {
				return err
			}
			if t.Of == nil || t.Of.ID != list.ID || m.claimed(t) || t.Journal {
				continue
			}
			if err := m.drop(t, store.Superseded, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// supersede takes down every run of node in the main queue, waiting or under
// way, in favour of walk.
func (m *move) supersede(b *bound, node graph.NodeID, walk uint64) error {
	past, before, err := m.stacks(b, node, walk)
	if err != nil {
		return err
	}
	for _, t := range before {
		past = append(past, []*store.Task{t})
	}
	for _, stack := range past {
		for _, t := range stack {
			m.join(t.Walk, walk)
		}
		if _, err := m.clearStack(stack, nil); err != nil {
			return err
		}
	}
	return nil
}
