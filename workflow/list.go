package workflow

import (
	"slices"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// makeList writes the list that t's node is repeated over.
func (m *move) makeList(b *bound, n *graph.Node, t *store.Task) error {
	list := &store.List{}
	var members []graph.Member
	var err error
	if n.Adopts {
		members, err = m.runningOf(t)
	} else if lister, ok := b.Steps[n.ID].(Lister); ok {
		members, list.Note, err = lister.Members(m.tx, Task{Task: *t})
	}
	if err != nil {
		return err
	}
	list.Len = len(members)
	if err := m.saveMembers(t, members); err != nil {
		return err
	}
	t.List = list
	return nil
}

func (m *move) saveMembers(t *store.Task, members []graph.Member) error {
	for i, member := range members {
		if err := store.SaveMember(m.tx, t.ID, i, member); err != nil {
			return err
		}
	}
	return nil
}

// nextMember does or starts the next member of the list that t stands for.
func (m *move) nextMember(b *bound, n *graph.Node, t *store.Task) (c *claim, wait bool, err error) {
	member, err := store.LoadMember[graph.Member](m.tx, t.ID, t.List.Next)
	if err != nil {
		return nil, false, err
	}
	here := member.Queue == "" || member.Queue == t.Queue
	if here && !t.List.Edge && !n.Adopts {
		c, err = m.claim(b, n, t)
		return c, false, err
	}
	m.unwait(t)
	store.DropMember(m.tx, t.ID, t.List.Next)
	t.List.Next++
	child := &store.Task{
		ID: m.newID(), Graph: t.Graph, Node: t.Node, Subject: store.Subject(member.Subject), Walk: t.Walk,
		Queued: m.now, Lenient: member.Lenient, Past: t.Past, Loop: t.Loop,
	}
	if here && !n.Adopts {
		child.Pos = store.Pos{Queue: t.Queue, Place: t.Place, Height: t.Height + 1}
		if err := store.SaveTask(m.tx, t); err != nil {
			return nil, false, err
		}
		return nil, false, m.put(child)
	}
	child.Queue, child.Solo = member.Queue, !t.List.Edge
	if err := m.startElsewhere(n, t, child, member.Wait); err != nil {
		return nil, false, err
	}
	return nil, false, store.SaveTask(m.tx, t)
}

// startElsewhere puts child, a member of the list t, in its own queue, or takes
// over the equal task that runs or waits there already.
func (m *move) startElsewhere(n *graph.Node, t, child *store.Task, wait bool) error {
	ref := &store.Ref{ID: t.ID, Pos: t.Pos}
	there, ok, err := m.equalTo(n, child)
	if err != nil {
		return err
	}
	if ok {
		if _, alive, err := m.list(there.Of); err != nil || alive || !wait {
			return err
		}
		there.Of = ref
		t.List.Open++
		return store.SaveTask(m.tx, there)
	}
	if n.Adopts {
		return nil // it has ended since the list was made
	}
	if wait {
		child.Of = ref
		t.List.Open++
	}
	return m.tail(child, child.Queue)
}

// equalTo returns the task about the same in t's queue that runs or waits.
func (m *move) equalTo(n *graph.Node, t *store.Task) (*store.Task, bool, error) {
	if there, ok, err := m.waiting(t); ok || err != nil {
		return there, ok, err
	}
	for there, err := range store.Tasks(m.tx, t.Queue) {
		if err != nil {
			return nil, false, err
		}
		same := there.Subject == t.Subject && (n.Adopts || there.Node == t.Node && there.Solo == t.Solo)
		if there.Claim != nil && same {
			return there, true, nil
		}
		if there.Place >= store.FirstPlace {
			break
		}
	}
	return nil, false, nil
}

// runningOf lists the tasks of t's module that run in other queues than t's.
func (m *move) runningOf(t *store.Task) ([]graph.Member, error) {
	var members []graph.Member
	for queue, err := range store.AllQueues(m.tx) {
		if err != nil {
			return nil, err
		}
		for other, err := range store.Tasks(m.tx, queue) {
			if err != nil {
				return nil, err
			}
			if m.claimed(other) && other.Subject.Module == t.Subject.Module && queue != t.Queue {
				members = append(members, graph.Member{Subject: graph.Subject(other.Subject), Queue: queue, Wait: true})
			}
			if other.Place >= store.FirstPlace {
				break
			}
		}
	}
	return members, nil
}

// endList lets t's step have the last word on the list and follows the node's
// edges.
func (m *move) endList(b *bound, n *graph.Node, t *store.Task) error {
	facts := make([]graph.Fact, 0, len(t.List.Facts))
	for _, f := range t.List.Facts {
		facts = append(facts, graph.Fact(f))
	}
	if ender, ok := b.Steps[n.ID].(Ender); ok {
		more, err := ender.End(m.tx, Task{Task: *t}, facts)
		if err != nil {
			return err
		}
		facts = append(facts, more...)
	}
	return m.complete(b, n, t, facts, nil)
}

// memberDone notes what the member that t stood at has reported.
func (m *move) memberDone(t *store.Task, facts []graph.Fact) error {
	store.DropMember(m.tx, t.ID, t.List.Next)
	t.List.Next++
	for _, f := range facts {
		if !slices.Contains(t.List.Facts, string(f)) {
			t.List.Facts = append(t.List.Facts, string(f))
		}
	}
	t.Claim = nil
	return store.SaveTask(m.tx, t)
}

// list returns the task that ref points to, and reports whether it is still
// there and a list.
func (m *move) list(ref *store.Ref) (*store.Task, bool, error) {
	if ref == nil {
		return nil, false, nil
	}
	t, ok, err := store.LoadTask(m.tx, ref.Pos)
	if err != nil || !ok || t.ID != ref.ID || t.List == nil {
		return nil, false, err
	}
	return t, true, nil
}

// countDown tells the list that ref points to that a member it waits for has
// ended. For a list that is gone it is nothing.
func (m *move) countDown(ref *store.Ref) error {
	t, ok, err := m.list(ref)
	if err != nil || !ok {
		return err
	}
	t.List.Open--
	m.touch(t.Queue)
	return store.SaveTask(m.tx, t)
}
