package workflow

import "addon-operator/store"

// sizes are limits for the work of one transition and for the backlogs of events. Tests use smaller
// sizes.
type sizes struct {
	backlog int // minimum number of waiting events of a binding at which new events are coalesced
	batch   int // maximum number of tasks in a batch
	keys    int // maximum number of keys that a transition writes, if a later transition can continue; 0 means the budget of the store
}

// budget returns the budget of a transition in tx.
func (s sizes) budget(tx *store.Tx) store.Limits {
	budget := tx.Budget()
	if s.keys > 0 {
		budget.Ops = s.keys
	}
	return budget
}

// A cost estimates how many keys and bytes a piece of work adds to a transaction.
type cost struct{ keys, bytes int }

// plus returns the sum of c and other.
func (c cost) plus(other cost) cost { return cost{c.keys + other.keys, c.bytes + other.bytes} }

// Estimated sizes of the records for a task, without its header, in bytes.
const (
	runBytes    = 512 // the record of a run
	recordBytes = 768 // a line of history, without its error
)

// claimCost estimates the cost of claiming the next task of a queue.
var claimCost = cost{keys: 8, bytes: 2*store.InlinePayload + recordBytes}

// costOf estimates the cost of removing, moving or changing t: its header, its mark as a waiting
// task, a line of history, its run, its backlog, its payload and its items.
func costOf(t *store.Task) cost {
	c := cost{keys: 5 + t.Chunks, bytes: len(t.Payload) + 2*recordBytes}
	if t.Object != nil {
		c.keys += 3
	}
	if t.FanOut != nil {
		c.keys += t.FanOut.Len - t.FanOut.Next
		c.bytes += len(t.FanOut.Note)
	}
	for f := t.Failed; f != nil; f = f.Before {
		c.bytes += 2 * len(f.Error)
	}
	return c
}
