package workflow

import (
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A txn is the part of a transition that all components share. This part is the transaction of the
// store, with its epoch, time and budget, and the list of the work for later transitions.
type txn struct {
	tx       *store.Tx
	epoch    uint64
	now      time.Time
	sizes    sizes
	graphs   *graphs
	observer *Observer

	// continueOnFailure is [Engine.ContinueOnFailure].
	continueOnFailure bool
	// own is set if the transaction belongs to the engine. The engine cannot repeat the transaction
	// of a caller of Raise, so it leaves work that may fail to a later transition.
	own bool

	optional  bool // whether fits has already returned true
	reserved  cost // cost of the records that are written at the end of the transition
	followUps []followUp
}

// newID returns the id of a new task.
func (x *txn) newID() store.ID { return store.ID{Epoch: x.epoch, N: x.tx.NextID()} }

// later leaves the work f to a later transition.
func (x *txn) later(f followUp) { x.followUps = append(x.followUps, f) }

// claimHeadLater leaves the claim of the next task of queue to a later transition.
func (x *txn) claimHeadLater(queue string) { x.later(followUp{work: claimQueueHead, queue: queue}) }

// follow returns a task for edge, not yet in any queue.
func (x *txn) follow(b *bound, edge graph.Edge, run uint64, subject graph.Subject) *store.Task {
	return &store.Task{
		ID: x.newID(), Graph: b.Graph.Name, Node: string(edge.To), Run: run, Queued: x.now,
		Subject: subject.Trim(b.nodes[edge.To].Scope),
	}
}

// fits reports whether the budget of the transaction has room for work of cost c. fits is called
// before work that a later transition can do as well, such as the claims of other queues or the
// removal of canceled tasks. The first such work of a transition fits if any budget is left, so
// that a transition with nothing else to do always makes progress.
func (x *txn) fits(c cost) bool {
	budget, spent := x.sizes.budget(x.tx), x.tx.Written()
	spent.Ops += x.reserved.keys
	spent.Bytes += x.reserved.bytes
	if spent.Ops > budget.Ops || spent.Bytes > budget.Bytes {
		return false
	}
	if x.optional && (spent.Ops+c.keys > budget.Ops || spent.Bytes+c.bytes > budget.Bytes) {
		return false
	}
	x.optional = true
	return true
}
