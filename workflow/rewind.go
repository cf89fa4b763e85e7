package workflow

import (
	"errors"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A stack is the tasks of one place, the one that is done first in front.
type stack []*store.Task

func (s stack) bottom() *store.Task { return s[len(s)-1] }

// mostRewinds is how often in a row a run is rewound. Then it runs to its end, so that changes
// that never cease do not keep it from its last modules.
const mostRewinds = 3

// stuckAfter is the number of failures in a row after which a task counts as stuck: its run cannot
// reach its end by itself, so a rewind takes nothing from it and is not counted.
const stuckAfter = 2

// stuck reports whether the task on top of s fails again and again.
func (s stack) stuck() bool { return s[0].Failed != nil && s[0].Failed.Count >= stuckAfter }

// rewind ensures that the work from t's node on is done again. A run that has not begun the node is
// left as it is, and one that has begun it is rewound to it. If there is no such run, or it was
// rewound too often in a row, t goes to the tail of the main queue.
func (m *transition) rewind(b *bound, t *store.Task) error {
	past, before, err := m.stacks(b, graph.NodeID(t.Node))
	if err != nil {
		return err
	}
	rewound := false
	for _, s := range past {
		if s.bottom().Rewinds >= mostRewinds && !s.stuck() {
			continue
		}
		if err := m.replaceStack(s, t); err != nil {
			return err
		}
		rewound = true
	}
	switch {
	case rewound:
		return nil
	case len(before) == 0:
		return m.tail(t, Main)
	}
	r := recordOf(t, store.Joined)
	r.Queue, r.Into = Main, before[0].bottom().ID.String()
	m.join(t.Run, before[0].bottom().Run)
	return m.record(r)
}

// stacks returns the stacks of the main queue that are past the beginning of
// node, and those that come to it yet. Those that have been cut already and only
// finish are left out.
func (m *transition) stacks(b *bound, node graph.NodeID) (past, before []stack, err error) {
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
		for t, err := range store.Tasks(m.tx, queue) {
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

// replaceStack takes s away but for what must come to its end, and puts t, as part
// of its run, in its stead.
func (m *transition) replaceStack(s stack, t *store.Task) error {
	bottom := *s.bottom()
	next := *t
	next.ID, next.Run, next.Pos, next.Parent = m.newID(), bottom.Run, bottom.Pos, bottom.Parent
	if next.Rewinds = bottom.Rewinds; !s.stuck() {
		next.Rewinds++
	}
	kept, err := m.cancelStack(s, next.ID.String())
	if err != nil {
		return err
	}
	if kept != nil && kept.ID == bottom.ID {
		if err := m.lift(kept); err != nil {
			return err
		}
	}
	m.join(t.Run, bottom.Run)
	if bottom.Queue == Parked {
		return m.tail(&next, Main)
	}
	return m.enqueue(&next)
}

// cancelStack takes the tasks of s away as superseded by what is named into, and
// what their lists have waiting elsewhere. It returns the task on top if that
// must come to its end: a delete past its uninstall, and one that runs or has
// begun its effects, which then has no successors.
func (m *transition) cancelStack(s stack, into string) (kept *store.Task, err error) {
	for i, old := range s {
		if i == 0 {
			keep, err := m.keep(old)
			if err != nil {
				return nil, err
			}
			if keep {
				kept = old
				continue
			}
		}
		if _, err := m.cancelItems(old); err != nil {
			return nil, err
		}
		if err := m.noteInterruption(old); err != nil {
			return nil, err
		}
		r := recordOf(old, store.Superseded)
		r.Into = into
		if err := m.record(r); err != nil {
			return nil, err
		}
		if err := m.remove(old); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// keep reports whether t, on top of a stack that is taken down, comes to its
// end. If it then does not count any more, it is made an orphan.
func (m *transition) keep(t *store.Task) (bool, error) {
	_, n, err := m.e.boundTo(t)
	if err != nil {
		return false, nil //nolint:nilerr // a node that is gone asks for nothing
	}
	if n.Uninterruptible && (t.FanOut == nil || !t.FanOut.Edge) {
		return true, nil
	}
	if waitsForGroup(t) {
		return m.keepGroup(t)
	}
	if !t.Journal && !m.claimed(t) {
		return false, nil
	}
	t.Abandoned = true
	dropped, err := m.cancelItems(t)
	if err != nil {
		return false, err
	}
	if t.FanOut != nil {
		t.FanOut.Open -= dropped
	}
	return true, m.save(t)
}

// lift moves t up by one, so that there is room below it, where its own list
// is waited for from then on.
func (m *transition) lift(t *store.Task) error {
	m.tx.Delete(t.Pos.Key())
	t.Depth++
	t.Parent = nil
	if err := m.repoint(t); err != nil {
		return err
	}
	return m.save(t)
}

// cancelItems takes away the members of list that wait in other queues, and
// says how many there were. Those that run go on, and the list that next asks
// for the same takes them over; but of a run beside others only the step that is
// being done, without successors, which the list goes on waiting for. Those
// that the budget has no room for are left: the next run of the list's node
// takes them over.
func (m *transition) cancelItems(list *store.Task) (dropped int, err error) {
	if list.FanOut == nil || list.FanOut.Open == 0 {
		return 0, nil
	}
	err = m.each(func(t, holder *store.Task) error {
		if t.Parent == nil || t.Parent.ID != list.ID {
			return nil
		}
		if t.HomeQueue != "" {
			ended, err := m.cancelGroupItem(t)
			if ended {
				dropped++
			}
			return err
		}
		if holder != nil {
			return nil
		}
		if !m.fits(costOf(t)) {
			return errEnough
		}
		dropped++
		if err := m.noteInterruption(t); err != nil {
			return err
		}
		return m.drop(t, store.Superseded, nil)
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return dropped, err
}

// supersede cancels every run of node in the main queue, pending or in progress, and the deferred
// ones, in favour of run, which begins a start.
func (m *transition) supersede(b *bound, node graph.NodeID, run uint64) error {
	past, before, err := m.stacks(b, node)
	if err != nil {
		return err
	}
	for _, s := range append(past, before...) {
		for _, t := range s {
			m.join(t.Run, run)
		}
		of := s.bottom().Parent
		if _, err := m.cancelStack(s, ""); err != nil {
			return err
		}
		if err := m.countDown(of, nil); err != nil {
			return err
		}
	}
	return m.eachLater(func(t *store.Task) error {
		if t.Graph != b.Graph.Name || t.Node != string(node) {
			return nil
		}
		m.join(t.Run, run)
		return m.drop(t, store.Superseded, nil)
	})
}
