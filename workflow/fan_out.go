package workflow

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// makeFanOut writes the list that t's node is repeated over.
func (m *transition) makeFanOut(b *bound, n *graph.Node, t *store.Task) (err error) {
	list := &store.FanOut{}
	var items []graph.Item
	if n.JoinsRunning {
		if items, err = m.runningOf(t); err != nil {
			return err
		}
	} else if lister, ok := b.Steps[n.ID].(FanOuter); ok {
		err := guard(n, "Members", func() (err error) {
			items, list.Note, err = lister.Items(m.tx, Task{Task: *t})
			return err
		})
		if err != nil {
			return &fanOutError{refOf(t), err}
		}
	}
	list.Len = len(items)
	t.FanOut = list
	m.changes(t.Subject)
	return m.saveItems(t, items)
}

func (m *transition) saveItems(t *store.Task, items []graph.Item) error {
	for i, item := range items {
		if err := store.SaveItem(m.tx, t.ID, i, item); err != nil {
			return err
		}
	}
	return nil
}

// goOn does or starts the next member of the list that t stands for, or ends
// the list after the last.
func (m *transition) goOn(b *bound, n *graph.Node, t *store.Task) (c *claim, wait bool, err error) {
	l := t.FanOut
	if l.Next == l.Len {
		if l.Edge {
			return nil, false, m.leave(t, nil)
		}
		return nil, false, m.endFanOut(b, n, t)
	}
	item, err := store.LoadItem[graph.Item](m.tx, t.ID, l.Next)
	if err != nil {
		return nil, false, err
	}
	beside := false
	if l.Edge {
		seat, ready, err := m.laneForItem(t, item)
		if err != nil || !ready {
			return nil, true, err
		}
		if beside = seat != ""; beside {
			item.Queue, item.Wait = seat, true
		}
	}
	here := !n.JoinsRunning && doneHere(t, item.Queue)
	if here && !l.Edge {
		q, err := store.QuarantineOf(m.tx, t.Graph, t.Node, store.Subject(item.Subject))
		if err != nil {
			return nil, false, err
		}
		if q != nil && !t.Journal {
			return nil, false, m.passOver(b, n, t, item, q)
		}
		return m.begin(b, n, t, item)
	}
	m.unwait(t)
	store.DeleteItem(m.tx, t.ID, l.Next)
	l.Next++
	child := &store.Task{
		ID: m.newID(), Graph: t.Graph, Node: t.Node, Subject: store.Subject(item.Subject), Run: t.Run,
		Queued: m.now, AllowFailure: item.AllowFailure, Past: t.Past, Loop: t.Loop,
	}
	if !here {
		child.Queue, child.Detached = item.Queue, !l.Edge
		if beside {
			child.HomeQueue = homeQueue(t)
		}
		if err := m.startElsewhere(n, t, child, item.Wait); err != nil {
			return nil, false, err
		}
		return nil, false, m.save(t)
	}
	child.Pos, child.HomeQueue = store.Pos{Queue: t.Queue, Slot: t.Slot, Depth: t.Depth + 1}, t.HomeQueue
	if err := m.save(t); err != nil {
		return nil, false, err
	}
	return nil, false, m.enqueue(child)
}

// doneHere reports whether a member for queue is done where the list t stands. In
// a run beside others that is so for all queues of such runs, by whatever chance a
// hook names one: two runs that waited in each other's queues would wait for ever.
func doneHere(t *store.Task, queue string) bool {
	return queue == "" || queue == t.Queue || queue == t.HomeQueue || t.HomeQueue != "" && strings.HasPrefix(queue, parallelPrefix)
}

// endFanOut lets t's step have the last word on the list and follows the node's
// edges.
func (m *transition) endFanOut(b *bound, n *graph.Node, t *store.Task) error {
	facts := make([]graph.Fact, 0, len(t.FanOut.Facts))
	for _, f := range t.FanOut.Facts {
		facts = append(facts, graph.Fact(f))
	}
	if ender, ok := b.Steps[n.ID].(Ender); ok {
		err := guard(n, "End", func() error {
			more, err := ender.End(m.tx, Task{Task: *t}, facts)
			facts = append(facts, more...)
			return err
		})
		if err != nil {
			return &fanOutError{refOf(t), err}
		}
	}
	return m.complete(b, n, t, facts, nil)
}

// itemDone notes what the member that t stood at has reported.
func (m *transition) itemDone(t *store.Task, facts []graph.Fact) {
	store.DeleteItem(m.tx, t.ID, t.FanOut.Next)
	t.FanOut.Next++
	t.FanOut.Facts = report(t.FanOut.Facts, facts)
	t.Claim = nil
	m.top = t
}

// passOver takes the next item of the list t, as q holds it. A global hook's item
// of a start is held by itself; after one of a reload, a reload follows the release.
func (m *transition) passOver(b *bound, n *graph.Node, t *store.Task, item graph.Item, q *store.QuarantinedItem) error {
	s := store.Subject(item.Subject)
	if err := m.endExclusive(t); err != nil {
		return err
	}
	next := m.follow(b, graph.Edge{To: b.first(n)}, t.Run, t.Subject)
	if b.byItself(n, s) {
		next.Subject, next.Detached, next.AllowFailure = s, true, item.AllowFailure
	}
	next.Queue = t.Queue
	if !q.Holds(next.Graph, next.Node, next.Subject) {
		m.itemDone(t, nil)
		return m.owe(q, b.first(n), t, s)
	}
	m.itemDone(t, nil)
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
func (m *transition) taskAt(ref *store.Ref) (*store.Task, bool, error) {
	if ref == nil {
		return nil, false, nil
	}
	t, ok, err := store.LoadTask(m.tx, ref.Pos)
	if err != nil || !ok || t.ID != ref.ID {
		return nil, false, err
	}
	return t, true, nil
}

// fanOut is taskAt for a fan-out task.
func (m *transition) fanOut(ref *store.Ref) (*store.Task, bool, error) {
	t, ok, err := m.taskAt(ref)
	return t, ok && t.FanOut != nil, err
}

// itemOf returns what t is about now: the item it is at, where it is a fan-out task that
// does its items itself.
func (m *transition) itemOf(t *store.Task) (store.Subject, error) {
	l := t.FanOut
	if l == nil || l.Edge || l.Next == l.Len {
		return t.Subject, nil
	}
	item, err := store.LoadItem[graph.Item](m.tx, t.ID, l.Next)
	return store.Subject(item.Subject), err
}

// countDown tells the list that ref points to that a member it waits for has
// ended with facts. For a list that is gone it is nothing.
func (m *transition) countDown(ref *store.Ref, facts []graph.Fact) error {
	if ref != nil && ref.Lags {
		return m.catchUp(ref)
	}
	t, ok, err := m.fanOut(ref)
	if err != nil || !ok {
		return err
	}
	t.FanOut.Open--
	t.FanOut.Facts = report(t.FanOut.Facts, facts)
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
