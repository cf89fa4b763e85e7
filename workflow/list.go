package workflow

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// makeList writes the list that t's node is repeated over.
func (m *move) makeList(b *bound, n *graph.Node, t *store.Task) (err error) {
	list := &store.List{}
	var members []graph.Member
	if n.Adopts {
		if members, err = m.runningOf(t); err != nil {
			return err
		}
	} else if lister, ok := b.Steps[n.ID].(Lister); ok {
		err := guard(n, "Members", func() (err error) {
			members, list.Note, err = lister.Members(m.tx, Task{Task: *t})
			return err
		})
		if err != nil {
			return &listError{placeOf(t), err}
		}
	}
	list.Len = len(members)
	t.List = list
	m.changes(t.Subject)
	return m.saveMembers(t, members)
}

func (m *move) saveMembers(t *store.Task, members []graph.Member) error {
	for i, member := range members {
		if err := store.SaveMember(m.tx, t.ID, i, member); err != nil {
			return err
		}
	}
	return nil
}

// goOn does or starts the next member of the list that t stands for, or ends
// the list after the last.
func (m *move) goOn(b *bound, n *graph.Node, t *store.Task) (c *claim, wait bool, err error) {
	l := t.List
	if l.Next == l.Len {
		if l.Edge {
			return nil, false, m.leave(t, nil)
		}
		return nil, false, m.endList(b, n, t)
	}
	member, err := store.LoadMember[graph.Member](m.tx, t.ID, l.Next)
	if err != nil {
		return nil, false, err
	}
	beside := false
	if l.Edge {
		seat, ready, err := m.seat(t, member)
		if err != nil || !ready {
			return nil, true, err
		}
		if beside = seat != ""; beside {
			member.Queue, member.Wait = seat, true
		}
	}
	here := !n.Adopts && doneHere(t, member.Queue)
	if here && !l.Edge {
		q, err := store.QuarantineOf(m.tx, t.Graph, t.Node, store.Subject(member.Subject))
		if err != nil {
			return nil, false, err
		}
		if q != nil && !t.Journal {
			return nil, false, m.passOver(b, n, t, member, q)
		}
		return m.begin(b, n, t, member)
	}
	m.unwait(t)
	store.DropMember(m.tx, t.ID, l.Next)
	l.Next++
	child := &store.Task{
		ID: m.newID(), Graph: t.Graph, Node: t.Node, Subject: store.Subject(member.Subject), Walk: t.Walk,
		Queued: m.now, Lenient: member.Lenient, Past: t.Past, Loop: t.Loop,
	}
	if !here {
		child.Queue, child.Solo = member.Queue, !l.Edge
		if beside {
			child.Home = home(t)
		}
		if err := m.startElsewhere(n, t, child, member.Wait); err != nil {
			return nil, false, err
		}
		return nil, false, m.save(t)
	}
	child.Pos, child.Home = store.Pos{Queue: t.Queue, Place: t.Place, Height: t.Height + 1}, t.Home
	if err := m.save(t); err != nil {
		return nil, false, err
	}
	return nil, false, m.put(child)
}

// doneHere reports whether a member for queue is done where the list t stands. In
// a run beside others that is so for all queues of such runs, by whatever chance a
// hook names one: two runs that waited in each other's queues would wait for ever.
func doneHere(t *store.Task, queue string) bool {
	return queue == "" || queue == t.Queue || queue == t.Home || t.Home != "" && strings.HasPrefix(queue, besidePrefix)
}

// endList lets t's step have the last word on the list and follows the node's
// edges.
func (m *move) endList(b *bound, n *graph.Node, t *store.Task) error {
	facts := make([]graph.Fact, 0, len(t.List.Facts))
	for _, f := range t.List.Facts {
		facts = append(facts, graph.Fact(f))
	}
	if ender, ok := b.Steps[n.ID].(Ender); ok {
		err := guard(n, "End", func() error {
			more, err := ender.End(m.tx, Task{Task: *t}, facts)
			facts = append(facts, more...)
			return err
		})
		if err != nil {
			return &listError{placeOf(t), err}
		}
	}
	return m.complete(b, n, t, facts, nil)
}

// memberDone notes what the member that t stood at has reported.
func (m *move) memberDone(t *store.Task, facts []graph.Fact) {
	store.DropMember(m.tx, t.ID, t.List.Next)
	t.List.Next++
	t.List.Facts = report(t.List.Facts, facts)
	t.Claim = nil
	m.top = t
}

// passOver takes the next item of the list t, as q holds it. A global hook's item
// of a start is held by itself; after one of a reload, a reload follows the release.
func (m *move) passOver(b *bound, n *graph.Node, t *store.Task, member graph.Member, q *store.Killer) error {
	s := store.Subject(member.Subject)
	if err := m.endAlone(t); err != nil {
		return err
	}
	next := m.follow(b, graph.Edge{To: b.first(n)}, t.Walk, t.Subject)
	if b.byItself(n, s) {
		next.Subject, next.Solo, next.Lenient = s, true, member.Lenient
	}
	next.Queue = t.Queue
	if !q.Holds(next.Graph, next.Node, next.Subject) {
		m.memberDone(t, nil)
		return m.owe(q, b.first(n), t, s)
	}
	m.memberDone(t, nil)
	if err := m.saveTop(); err != nil {
		return err
	}
	reason := q.Reason()
	return m.holdNew(laneOf(n, next), next, &reason)
}

// report adds facts to those that members have reported.
func report(known []string, facts []graph.Fact) []string {
	for _, f := range facts {
		if !slices.Contains(known, string(f)) {
			known = append(known, string(f))
		}
	}
	return known
}

// taskAt returns the task that ref points to, and reports whether it is still there.
func (m *move) taskAt(ref *store.Ref) (*store.Task, bool, error) {
	if ref == nil {
		return nil, false, nil
	}
	t, ok, err := store.LoadTask(m.tx, ref.Pos)
	if err != nil || !ok || t.ID != ref.ID {
		return nil, false, err
	}
	return t, true, nil
}

// list is taskAt for a fan-out task.
func (m *move) list(ref *store.Ref) (*store.Task, bool, error) {
	t, ok, err := m.taskAt(ref)
	return t, ok && t.List != nil, err
}

// itemOf returns what t is about now: the item it is at, where it is a fan-out task that
// does its items itself.
func (m *move) itemOf(t *store.Task) (store.Subject, error) {
	l := t.List
	if l == nil || l.Edge || l.Next == l.Len {
		return t.Subject, nil
	}
	member, err := store.LoadMember[graph.Member](m.tx, t.ID, l.Next)
	return store.Subject(member.Subject), err
}

// countDown tells the list that ref points to that a member it waits for has
// ended with facts. For a list that is gone it is nothing.
func (m *move) countDown(ref *store.Ref, facts []graph.Fact) error {
	if ref != nil && ref.Lags {
		return m.catchUp(ref)
	}
	t, ok, err := m.list(ref)
	if err != nil || !ok {
		return err
	}
	t.List.Open--
	t.List.Facts = report(t.List.Facts, facts)
	m.touch(t.Queue)
	return m.save(t)
}

// guard calls a part of n's step. A panic in it is an error.
func guard(n *graph.Node, part string, call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s of node %s panicked: %v\n%s", part, n.ID, p, debug.Stack())
		}
	}()
	return call()
}
