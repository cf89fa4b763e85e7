package workflow

import (
	"addon-operator/store"
)

// exclusive stores a mark that names the task which must run exclusively. While the marked task
// runs, or is the head of a queue that is not paused, no other task is claimed.
type exclusive struct {
	*txn
	queues *queues
	lanes  *lanes
}

// claimExclusive keeps all other tasks from starting until t has ended. The result free is true if
// no other task runs.
func (x *exclusive) claimExclusive(t *store.Task) (free bool, err error) {
	if err := store.Save(x.tx, store.ExclusiveKey(), store.Ref{ID: t.ID, Pos: t.Pos}); err != nil {
		return false, err
	}
	free = true
	err = eachHead(x.tx, func(other *store.Task) error {
		free = free && (other.ID == t.ID || !claimed(x.tx, other))
		return nil
	})
	return free, err
}

// touchNext requests a claim of the task that must run exclusively next, if there is such a task
// and it does not run yet.
func (x *exclusive) touchNext() error {
	t, err := exclusiveTask(x.tx)
	if t == nil || err != nil || claimed(x.tx, t) {
		return err
	}
	x.queues.touch(t.Queue)
	return nil
}

// endExclusive lets other tasks start again if t ran exclusively, or was the next task to run
// exclusively.
func (x *exclusive) endExclusive(t *store.Task) error {
	if t.Claim == nil || !t.Claim.Exclusive && t.Claim.Crashes+1 < exclusiveAfter {
		return nil
	}
	ref, ok, err := store.Load[store.Ref](x.tx, store.ExclusiveKey())
	if err != nil || !ok || ref.ID != t.ID {
		return err
	}
	x.tx.Delete(store.ExclusiveKey())
	return x.lanes.touchAll()
}
