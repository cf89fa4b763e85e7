package workflow

import (
	"fmt"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A Gater says what the hook of t must run before t may start, in one line for
// people; an empty line is nothing. It is asked in a transaction and must not
// write. The answer may change only with a transition of t's module, or of a
// global hook where t has no module.
//
// Only nodes that cover batches are gated. A task that the answer keeps from
// starting is held, and the answer is recorded with its lane: [BlockedBy] gives it
// without the step.
type Gater interface {
	Gate(tx *store.Tx, t *store.Task) (awaits string, err error)
}

// blockedBy returns the reason for which t, at the head of its queue or held, is to be
// held: an item of its module or global hook in quarantine, or what its hook has yet to
// run in this start. It reads the store and writes nothing.
func (m *transition) blockedBy(b *bound, n *graph.Node, t *store.Task) (*store.Reason, error) {
	if reason, err := quarantineReason(m.tx, t); reason != nil || err != nil || t.Journal || t.Abandoned {
		return reason, err
	}
	gater, ok := b.Steps[n.ID].(Gater)
	if !ok || !n.Batch {
		return nil, nil
	}
	awaits := ""
	err := guard(n, "Gate", func() (err error) { awaits, err = gater.Gate(m.tx, t); return err })
	if err != nil {
		return nil, fmt.Errorf("gate of task %s at node %s: %w", t.ID, n.ID, err)
	}
	if awaits == "" {
		return nil, nil
	}
	return &store.Reason{Kind: store.AwaitsStart, Detail: awaits}, nil
}

// gate holds the task t at the head of its queue if something keeps it from
// starting, or if older tasks that must start before it are held.
func (m *transition) gate(b *bound, n *graph.Node, t *store.Task) (held bool, err error) {
	reason, err := m.blockedBy(b, n, t)
	if err != nil || reason == nil && (!n.Batch || t.Journal) {
		return false, err
	}
	lane, ok, err := store.LoadLane(m.tx, laneOf(n, t))
	if err != nil || reason == nil && (!ok || lane.Open && t.Slot > lane.After) {
		return false, err
	}
	return true, m.hold(b, n, t, reason)
}
