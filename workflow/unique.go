package workflow

import (
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// unique ensures that at most one of several equal tasks of a queue waits, if isUnique returns true
// for them. unique stores a mark for each such task that waits. The mark contains the key under
// which the task's header is stored.
type unique struct {
	*txn
}

// isUnique reports whether at most one task equal to t may wait.
func (u *unique) isUnique(t *store.Task) bool {
	if t.OwnQueue {
		return true
	}
	if t.FanOut != nil && t.FanOut.Edge {
		return false
	}
	b := u.graphs.named[t.Graph]
	return b != nil && b.nodes[graph.NodeID(t.Node)] != nil && b.nodes[graph.NodeID(t.Node)].Unique
}

// equalWaiting returns the waiting task that is equal to t, and whether there is one. The equal
// task is in the queue of t, in a parallel queue whose home queue is the queue of t, deferred, or
// held.
func equalWaiting(tx *store.Tx, t *store.Task) (*store.Task, bool, error) {
	k := tx.Get(uniqueKey(t))
	if k == nil {
		return nil, false, nil
	}
	return store.LoadAt(tx, store.Key(k))
}

// mark saves the current key of t in the mark of t, if t waits.
func (u *unique) mark(t *store.Task) {
	if t.Waits {
		u.tx.Put(uniqueKey(t), t.Key())
	}
}

// unwait records that t does not wait any more, and deletes the mark of t.
func (u *unique) unwait(t *store.Task) {
	if t.Waits {
		t.Waits = false
		u.tx.Delete(uniqueKey(t))
	}
}

func uniqueKey(t *store.Task) store.Key {
	return store.At(store.Unique).Str(homeQueue(t)).Str(t.Graph).Str(t.Node).Str(t.Subject.Module).Str(t.Subject.Hook).Str(t.Subject.Binding).
		Opt(t.Subject.Configuration)
}

// unmark deletes the mark of the waiting task t, which is about to change its queue.
func (u *unique) unmark(t *store.Task) {
	if t.Waits {
		u.tx.Delete(uniqueKey(t))
	}
}
