package workflow

import "addon-operator/store"

// A transition has one budget of keys and bytes: half of what a commit takes.
// Work that a later transition could do as well, such as claims of other
// queues or the removal of cancelled tasks, stops when the budget is spent and
// continues in a transition of its own. The other half is left for the writes
// that must be committed together.
const budgetShare = 2

// A cost is about how much a piece of work adds to a transaction.
type cost struct{ keys, bytes int }

// The estimates of what is written for a task besides its header.
const (
	runBytes    = 512 // the record of a run
	recordBytes = 768 // a line of history, without its error
)

// claimCost is about what it takes to give a queue its next task.
var claimCost = cost{keys: 8, bytes: 2*store.InlinePayload + recordBytes}

// costOf returns about what it takes to remove, move or save t: its header and
// mark, a line of history, its run, its backlog, and the records that stand
// apart.
func costOf(t *store.Task) cost {
	c := cost{keys: 5 + t.Chunks, bytes: len(t.Payload) + 2*recordBytes}
	if t.Object != nil {
		c.keys += 2
	}
	if t.List != nil {
		c.keys += t.List.Len - t.List.Next
		c.bytes += len(t.List.Note)
	}
	if t.Failed != nil {
		c.bytes += 2 * len(t.Failed.Error)
	}
	return c
}

// fits reports whether the transition's budget has room for work of that size,
// and counts the work as done. The first such work fits whenever any budget is
// left, so that a transition with nothing else to do always makes progress.
func (m *move) fits(c cost) bool {
	most, spent := m.tx.Limits(), m.tx.Written()
	spent.Ops += len(m.walks) // their records are written at the end
	spent.Bytes += len(m.walks) * runBytes
	if spent.Ops > most.Ops/budgetShare || spent.Bytes > most.Bytes/budgetShare {
		return false
	}
	if m.optional && (spent.Ops+c.keys > most.Ops/budgetShare || spent.Bytes+c.bytes > most.Bytes/budgetShare) {
		return false
	}
	m.optional = true
	return true
}

// continueWith runs fn as a transition of its own once this one is committed.
// The name is that of the queue or table fn works on. A crash in between loses
// it, so the start of the engine must do the same work.
func (m *move) continueWith(name string, fn func(*move) error) {
	m.tx.OnCommit(func() { m.e.run(func() { m.e.attempt(name, fn) }) })
}
