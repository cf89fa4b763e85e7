package workflow

import (
	"errors"
	"slices"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// restartRuns takes the runs of modules that are past their first node, and that nobody works on,
// back to it. There each is one with an equal run that comes to the node before it.
func (m *move) restartRuns() error {
	err := m.eachHead(func(t *store.Task) error {
		b, first := m.runStart(t)
		if first == "" {
			return nil
		}
		if !m.fits(costOf(t)) {
			m.continueWith(Main, (*move).restartRuns)
			return errEnough
		}
		return m.restartRun(b, first, t)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// runStart returns the first node of the module's run that t is part of; none where t is at that
// node, is no such task, or runs.
func (m *move) runStart(t *store.Task) (*bound, graph.NodeID) {
	b, n, err := m.e.boundTo(t)
	if err != nil || t.Solo || t.Orphan || m.claimed(t) || home(t) != Main {
		return nil, "" // a task of an unknown node is dropped at its turn
	}
	first := b.nodes[b.first(n)]
	if first.ID == n.ID || !first.Once || first.Of != graph.OfModule {
		return nil, ""
	}
	return b, first.ID
}

// restartRun replaces t, at the top of its slot, by a task at node. If t has a journal, its effects
// are finished first, and what they come to no longer counts.
func (m *move) restartRun(b *bound, node graph.NodeID, t *store.Task) error {
	dropped, err := m.dropMembers(t)
	if err != nil {
		return err
	}
	if t.List != nil {
		t.List.Open -= dropped
	}
	next := m.backTo(b, node, t)
	if t.Journal {
		next.ID, t.Orphan = m.newID(), true
		return firstError(m.lift(t), m.put(next))
	}
	r := recordOf(t, store.Superseded)
	r.Detail = "interrupted; its run starts over at " + string(node)
	return firstError(m.noteInterruption(t), m.record(r), m.remove(t), m.put(next))
}

// leaveLanes moves the runs of failing modules from their lanes to the tail of the main queue: a
// start comes to these modules itself, and nothing of them precedes it.
func (m *move) leaveLanes() error {
	return m.eachHead(func(t *store.Task) error {
		_, n, err := m.e.boundTo(t)
		inLane := strings.HasPrefix(t.Queue, besidePrefix) && (t.Of == nil || t.Of.Lags)
		if err != nil || !inLane || !n.Lane || !t.Waits || !m.fits(costOf(t)) {
			return nil //nolint:nilerr // a task of an unknown node is dropped at its turn
		}
		place, err := store.TailPlace(m.tx, Main)
		if err != nil {
			return err
		}
		m.touch(Main)
		return m.relocate(t, store.Pos{Queue: Main, Place: place}, "")
	})
}

// finishFirst moves the abandoned tasks of the main queue that have a journal to its front: what
// they have yet to do to the cluster must not undo what the start does.
func (m *move) finishFirst() error {
	var abandoned []*store.Task
	for t, err := range m.heads(Main) {
		if err != nil {
			return err
		}
		if t.Orphan && t.Journal && m.fits(costOf(t)) {
			abandoned = append(abandoned, t)
		}
	}
	for _, t := range slices.Backward(abandoned) {
		place, err := store.FrontPlace(m.tx, Main)
		if err != nil {
			return err
		}
		if err := m.relocate(t, store.Pos{Queue: Main, Place: place}, ""); err != nil {
			return err
		}
	}
	return nil
}
