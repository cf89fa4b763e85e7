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
