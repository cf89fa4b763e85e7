package workflow

import (
	"errors"
	"slices"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// complete takes the finished task t away and puts the tasks of every edge
// whose facts hold: those that stay here on t's place, the first on top. The
// last of these goes on with t's work under t's id, and what waits for t waits
// for it.
func (m *move) complete(b *bound, n *graph.Node, t *store.Task, facts []graph.Fact, lists map[graph.List][]graph.Member) error {
	if t.Orphan || t.Solo {
		return m.leave(t, facts)
	}
	var here []*store.Task
	// Until it is known what takes its place t keeps it: the tail of a queue that
	// was empty without it would be there.
	if err := m.saveTop(); err != nil {
		return err
	}
	for _, edge := range b.Graph.Next(n.ID, facts) {
		next, err := m.take(b, edge, t, lists[edge.Each])
		if err != nil {
			return err
		}
		if next != nil {
			here = append(here, next)
		}
	}
	if err := m.remove(t); err != nil {
		return err
	}
	if len(here) == 0 {
		return m.countDown(t.Of, nil)
	}
	last := here[len(here)-1]
	last.Of = t.Of
	if last.List == nil && !startsOver(t, last) {
		last.ID = t.ID // it goes on with the same piece of work
	}
	height := t.Height
	for i, next := range slices.Backward(here) {
		next.Pos = store.Pos{Queue: t.Queue, Place: t.Place, Height: height}
		height++
		if err := m.stack(next, i == 0); err != nil {
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
func (m *move) stack(t *store.Task, top bool) error {
	if t.Clears {
		if err := m.clear(t); err != nil {
			return err
		}
	}
	stays, err := m.enter(t)
	switch {
	case err != nil || !stays:
		return err
	case top:
		m.top = t
		return nil
	}
	return m.save(t)
}

// take follows edge from the finished task t. It returns the task that is to
// stand on t's place, if there is one; others it puts where they belong.
func (m *move) take(b *bound, edge graph.Edge, t *store.Task, members []graph.Member) (*store.Task, error) {
	if edge.Each != "" && edge.Put != graph.Here {
		for _, member := range members {
			next := m.follow(b, edge, t.Walk, store.Subject(member.Subject))
			if err := m.send(b, edge, next, queueOf(next.Subject)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	if edge.Each != "" && len(members) == 0 {
		return nil, nil
	}
	next := m.follow(b, edge, t.Walk, t.Subject)
	next.Loop = t.Loop
	if edge.Loop {
		next.Loop = loop(t)
		if next.Loop.N >= freeLoops {
			next.Queue = queueOf(next.Subject)
			if edge.Put == graph.Here {
				next.Queue = home(t)
			}
			return nil, m.putLater(next, m.now.Add(delay(next.Loop.N-freeLoops+1)))
		}
	}
	if edge.Put != graph.Here {
		return nil, m.send(b, edge, next, queueOf(next.Subject))
	}
	next.Past, next.Rewinds, next.Clears, next.Home = t.Past, t.Rewinds, edge.Clears, t.Home
	if edge.Each == "" {
		next.Failed = t.Failed
		return next, nil
	}
	next.List = &store.List{Len: len(members), Edge: true}
	return next, m.saveMembers(next, members)
}

// loop counts one closing more of the circle that t's node closes.
func loop(t *store.Task) *store.Loop {
	l := &store.Loop{From: t.Node, N: 1}
	if t.Loop != nil && t.Loop.From == t.Node {
		l.N += t.Loop.N
	}
	return l
}

// abandon takes the orphan t away.
func (m *move) abandon(t *store.Task) error {
	state := store.Dropped
	if t.List != nil && t.List.Edge {
		state = store.Superseded // only a cut makes an orphan of such a list
	}
	r := recordOf(t, state)
	if state == store.Dropped {
		r.Detail = abandonedDetail
	}
	if err := m.record(r); err != nil {
		return err
	}
	return m.leave(t, nil)
}

// abandonedDetail says in history why an abandoned task is dropped.
const abandonedDetail = "its module is being deleted, or another run took the place of its run"

// revive has failing tasks tried again at once.
func (m *move) revive() error {
	err := m.eachHead(func(t *store.Task) error {
		if t.Failed == nil || !m.now.Before(t.Due) {
			return nil
		}
		if !m.fits(costOf(t)) {
			m.continueWith(Main, (*move).revive)
			return errEnough
		}
		t.Due = m.now
		m.touch(t.Queue)
		return m.save(t)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
