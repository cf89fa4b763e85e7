package workflow

import (
	"errors"
	"slices"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A preparation is work that must be complete before a task of the main queue or of a lane is claimed.
// Its record is kept while some of the work is left.
type preparation struct {
	// Start is set for a start, which does the work of interrupted runs itself.
	Start bool `json:"start"`
}

// prepare takes the runs of modules that are past their first node, and that nobody works on, back
// to it. For a start, it also moves the runs of failing modules out of their lanes, and abandoned
// tasks with a journal to the front. What the budget has no room for follows in transactions of
// their own.
func (m *transition) prepare(p preparation) error {
	pending, err := m.preparation()
	if err != nil {
		return err
	}
	if pending != nil {
		p.Start = p.Start || pending.Start
	}
	work := []func(*transition) error{(*transition).restartRuns}
	if p.Start {
		work = append(work, (*transition).leaveLanes, (*transition).finishFirst)
	}
	for _, fn := range work {
		err := fn(m)
		if errors.Is(err, errEnough) {
			m.continueWith(Main, (*transition).continuePreparation)
			return store.Save(m.tx, store.PreparationKey(), p)
		}
		if err != nil {
			return err
		}
	}
	if pending == nil {
		return nil
	}
	m.tx.Delete(store.PreparationKey())
	for queue, err := range store.AllQueues(m.tx) {
		if err != nil {
			return err
		}
		m.touch(queue)
	}
	return nil
}

// preparation returns the preparation that is not complete; nil if there is none. If its record
// cannot be read, all of its work is done again, which changes nothing that was done.
func (m *transition) preparation() (*preparation, error) {
	p, ok, err := store.Load[preparation](m.tx, store.PreparationKey())
	if damaged := (*store.RecordError)(nil); errors.As(err, &damaged) {
		return &preparation{Start: true}, nil
	}
	if err != nil || !ok {
		return nil, err
	}
	return &p, nil
}

// continuePreparation continues a preparation that is not complete, be it of an earlier process.
func (m *transition) continuePreparation() error {
	p, err := m.preparation()
	if err != nil || p == nil {
		return err
	}
	return m.prepare(*p)
}

// prepares reports whether the tasks of queue wait for a preparation.
func (m *transition) prepares(queue string) bool {
	return (queue == Main || strings.HasPrefix(queue, parallelPrefix)) && m.tx.Get(store.PreparationKey()) != nil
}

// restartRuns takes the runs of modules that are past their first node, and that nobody works on,
// back to it. There each is one with an equal run that comes to the node before it. It returns
// errEnough where the budget has no room for more.
func (m *transition) restartRuns() error {
	return m.eachHead(func(t *store.Task) error {
		b, first := m.runStart(t)
		if first == "" {
			return nil
		}
		if !m.fits(costOf(t)) {
			return errEnough
		}
		return m.restartRun(b, first, t)
	})
}

// runStart returns the first node of the module's run that t is part of; none where t is at that
// node, is no such task, or runs.
func (m *transition) runStart(t *store.Task) (*bound, graph.NodeID) {
	b, n, err := m.e.boundTo(t)
	if err != nil || t.Detached || t.Abandoned || m.claimed(t) || homeQueue(t) != Main {
		return nil, "" // a task of an unknown node is dropped at its turn
	}
	first := b.nodes[b.first(n)]
	if first.ID == n.ID || !first.Unique || first.Scope != graph.ScopeModule {
		return nil, ""
	}
	return b, first.ID
}

// restartRun replaces t, at the top of its slot, by a task at node. If t has a journal, its effects
// are finished first, and what they come to no longer counts.
func (m *transition) restartRun(b *bound, node graph.NodeID, t *store.Task) error {
	dropped, err := m.cancelItems(t)
	if err != nil {
		return err
	}
	if t.FanOut != nil {
		t.FanOut.Open -= dropped
	}
	next := m.backTo(b, node, t)
	if t.Journal {
		next.ID, t.Abandoned = m.newID(), true
		if err := m.lift(t); err != nil {
			return err
		}
		return m.enqueue(next)
	}
	r := recordOf(t, store.Superseded)
	r.Detail = "interrupted; its run starts over at " + string(node)
	if err := m.noteInterruption(t); err != nil {
		return err
	}
	if err := m.record(r); err != nil {
		return err
	}
	if err := m.remove(t); err != nil {
		return err
	}
	return m.enqueue(next)
}

// leaveLanes moves the runs of failing modules from their lanes to the tail of the main queue: a
// start comes to these modules itself, and nothing of them precedes it. It returns errEnough where
// the budget has no room for more.
func (m *transition) leaveLanes() error {
	return m.eachHead(func(t *store.Task) error {
		_, n, err := m.e.boundTo(t)
		inLane := strings.HasPrefix(t.Queue, parallelPrefix) && (t.Parent == nil || t.Parent.Lags)
		if err != nil || !inLane || !n.Lane || !t.Waits {
			return nil //nolint:nilerr // a task of an unknown node is dropped at its turn
		}
		if !m.fits(costOf(t)) {
			return errEnough
		}
		place, err := store.TailSlot(m.tx, Main)
		if err != nil {
			return err
		}
		m.touch(Main)
		return m.relocate(t, store.Pos{Queue: Main, Slot: place}, "")
	})
}

// finishFirst moves the abandoned tasks of the main queue that have a journal to its front: what
// they have yet to do to the cluster must not undo what the start does. It returns errEnough where
// the budget has no room for more.
func (m *transition) finishFirst() error {
	var abandoned []*store.Task
	front := true // only such tasks precede the next one
	for t, err := range m.heads(Main) {
		if err != nil {
			return err
		}
		if !t.Abandoned || !t.Journal {
			front = false
		} else if !front {
			abandoned = append(abandoned, t)
		}
	}
	for _, t := range slices.Backward(abandoned) {
		if !m.fits(costOf(t)) {
			return errEnough
		}
		place, err := store.FrontSlot(m.tx, Main)
		if err != nil {
			return err
		}
		if err := m.relocate(t, store.Pos{Queue: Main, Slot: place}, ""); err != nil {
			return err
		}
	}
	return nil
}
