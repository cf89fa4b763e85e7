package workflow

import "addon-operator/store"

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
		c.keys += 3
	}
	if t.FanOut != nil {
		c.keys += t.FanOut.Len - t.FanOut.Next
		c.bytes += len(t.FanOut.Note)
	}
	if t.Failed != nil {
		c.bytes += 2 * len(t.Failed.Error)
	}
	return c
}

// fits reports whether the transaction's budget has room for work of that size,
// and counts the work as done. It is asked before work that a later transition
// could do as well, such as claims of other queues or the removal of cancelled
// tasks, which continues in a transition of its own. The first such work fits whenever any budget is
// left, so that a transition with nothing else to do always makes progress.
func (m *transition) fits(c cost) bool {
	budget, spent := m.tx.Budget(), m.tx.Written()
	spent.Ops += len(m.runs) // their records are written at the end
	spent.Bytes += len(m.runs) * runBytes
	if spent.Ops > budget.Ops || spent.Bytes > budget.Bytes {
		return false
	}
	if m.optional && (spent.Ops+c.keys > budget.Ops || spent.Bytes+c.bytes > budget.Bytes) {
		return false
	}
	m.optional = true
	return true
}

// continueWith runs fn as a transition of its own once this one is committed.
// The name is that of the queue or table fn works on. A crash in between loses
// it, so the start of the engine must do the same work.
func (m *transition) continueWith(name string, fn func(*transition) error) {
	m.tx.OnCommit(func() { m.e.run(func() { m.e.attempt(name, fn) }) })
}
