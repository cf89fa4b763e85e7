package workflow

import (
	"sync/atomic"

	"addon-operator/store"
)

// Limits of the batch of one claim, in tasks and in bytes of payloads. If the first task alone
// exceeds the limit in bytes, the batch has only this task. In a new batch, batchBytes also limits
// the whole input of the step, as a [BatchSizer] estimates it. The payloads of all running batches
// share sharedBytes of memory. Even if the other batches use all of this memory, a new batch may
// use leastBytes. A batch that repeats an interrupted attempt, or executes a journal again, may use
// batchBytes in any case.
const (
	batchTasks  = 1000
	batchBytes  = 8 << 20
	sharedBytes = 32 << 20
	leastBytes  = 64 << 10
)

// A BatchSizer is a step whose input for a batch is larger than the payloads of the tasks. BatchSize
// is called in the transaction that claims t, if another task could be in a new batch of t.
// BatchSize and the function that it returns must not write.
//
// The returned function estimates how many bytes the task next adds to the input of the step, in
// addition to its payload. The parameter last is the task before next in the batch; nil if next is
// the first task. If next replaces a part of the input for last, the result can be negative.
type BatchSizer interface {
	BatchSize(tx *store.Tx, t *store.Task) func(last, next *store.Task) int
}

// batches combines adjacent tasks of one hook in one attempt. If the attempt succeeds, its tasks
// end together. Tasks that remain after a failure keep their order. All running batches share a
// memory limit.
type batches struct {
	*txn
	history  *history
	queues   *queues
	unique   *unique
	parents  *parents
	remover  *remover
	arrivals *arrivals

	memory *atomic.Int64 // payload bytes of all running batches
	loaded int           // payload bytes that the transition has added to memory; subtracted if the transition fails
}

// extendBatch adds to the batch of c the tasks that directly follow the first task of the batch and
// belong to the same hook. If an interrupted attempt is repeated, or a journal is executed again,
// old is the earlier claim on the task; otherwise old is nil. If old is not nil, the batch has only
// tasks that old covered. If the task has a journal, the batch has all of these tasks.
func (k *batches) extendBatch(b *bound, c *claim, old *store.Claim) error {
	t := c.task.Batch[0]
	limit, err := k.deferral(b, c)
	if err != nil {
		return err
	}
	c.size = len(t.Payload)
	defer func() { k.load(c.size) }()
	most := batchBytes
	if old == nil {
		most = min(batchBytes, max(leastBytes, sharedBytes-int(k.memory.Load())))
	}
	fits := k.inputLimit(b, c, most, old == nil)
	for other, err := range store.TasksFrom(k.tx, t.Queue, t.Slot+1) {
		if err != nil {
			return err
		}
		if !b.alike(t, other) || len(c.task.Batch) == k.sizes.batch || old != nil && !covered(old, len(c.task.Batch), other) {
			return nil
		}
		if limit.Expedites(t.ID) && !limit.Expedites(other.ID) {
			return nil // because expedited tasks that are still deferred can be older than other
		}
		if fit, err := fits(other); !fit || err != nil {
			return err
		}
		c.size += len(other.Payload)
		if other.Waits {
			k.unique.unwait(other)
			if err := k.queues.save(other); err != nil {
				return err
			}
		}
		c.task.Batch = append(c.task.Batch, other)
		t.Claim.End = other.Slot
	}
	return nil
}

// inputLimit returns a function that loads the payload of the next task, and reports whether c's
// batch can have this task too. The payloads of the batch must have at most limit bytes, and the
// whole input of the step at most batchBytes. If the batch is not new, the size of the input does
// not limit it: a journal belongs to exactly the tasks of its batch, and a task that an interrupted
// attempt had must be repeated by an attempt that knows of the interruption.
func (k *batches) inputLimit(b *bound, c *claim, limit int, isNew bool) func(next *store.Task) (bool, error) {
	sizer, sized := b.Steps[c.node.ID].(BatchSizer)
	sized = sized && isNew
	added := 0 // bytes of the input in addition to the payloads
	var size func(last, next *store.Task) int
	return func(next *store.Task) (bool, error) {
		if err := store.LoadPayload(k.tx, next); err != nil {
			return false, err
		}
		payloads := c.size + len(next.Payload)
		if !sized || payloads > limit {
			return payloads <= limit, nil
		}
		err := guard(c.node, "BatchSize", func() error {
			if size == nil {
				size = sizer.BatchSize(k.tx, c.task.Batch[0])
				added = size(nil, c.task.Batch[0])
			}
			added += size(c.task.Batch[len(c.task.Batch)-1], next)
			return nil
		})
		return payloads+added <= batchBytes, err
	}
}

// deferral returns the deferral of c's hook in the queue of c's task; the zero value if there is
// none.
func (k *batches) deferral(b *bound, c *claim) (store.Deferral, error) {
	t := c.task.Batch[0]
	if _, limited := b.Steps[c.node.ID].(RateLimiter); !limited {
		return store.Deferral{}, nil
	}
	_, bucket, err := bucketOf(k.tx, t.Subject)
	return bucket.Deferrals[t.Queue], err
}

// covered reports whether c, an earlier claim on a batch, covered the task other. The parameter n
// is the number of tasks of the batch that precede other in the queue.
func covered(c *store.Claim, n int, other *store.Task) bool {
	if c.Tasks > 0 {
		return n < c.Tasks
	}
	return other.Slot <= c.End
}

// endBatch removes the other tasks of c's batch, which end together with t. The records of the runs
// of these tasks refer to the run of t.
func (k *batches) endBatch(c *claim, t *store.Task) error {
	others, err := k.othersOf(c)
	if err != nil {
		return err
	}
	for _, other := range others {
		k.history.join(other.Run, t.Run)
		if err := k.remover.removeLast(other, nil); err != nil {
			return err
		}
	}
	return nil
}

// othersOf returns the tasks of c's batch behind the first one. It leaves out the tasks that were removed during the
// attempt because their records could not be read. Another task can have the slot of a removed task.
func (k *batches) othersOf(c *claim) ([]*store.Task, error) {
	others := c.task.Batch[1:]
	if !store.HasDamaged(k.tx) {
		return others, nil
	}
	var left []*store.Task
	for _, other := range others {
		stored, ok, err := store.LoadAt(k.tx, other.Key())
		if err != nil {
			return nil, err
		}
		if ok && stored.ID == other.ID {
			left = append(left, other)
		}
	}
	return left, nil
}

// endAllowedFailures ends the tasks of c's batch whose bindings allow failures. endAllowedFailures
// returns the first remaining task, which takes over the claim and the failures of t, the first
// task of the batch.
func (k *batches) endAllowedFailures(c *claim, t *store.Task, f failure) (*store.Task, error) {
	others, err := k.othersOf(c)
	if err != nil {
		return nil, err
	}
	var first *store.Task
	for _, other := range append([]*store.Task{t}, others...) {
		if !other.AllowFailure {
			if first == nil {
				first = other
			}
			continue
		}
		r := recordOf(other, store.Allowed)
		r.Error = f.text()
		if err := k.history.record(r); err != nil {
			return nil, err
		}
		if err := k.remover.removeLast(other, nil); err != nil {
			return nil, err
		}
	}
	if first != t {
		first.Claim = t.Claim
		if last := t.Failed; last != nil {
			failed := *last
			failed.Node, failed.Subject = first.Node, first.Subject
			first.Failed = &failed
		}
	}
	return first, nil
}

// waitAgain makes the unique tasks of c's batch wait again, except t, the first task that remains
// after a failed attempt. Of equal waiting tasks, only one stays, even if one of them was added
// during the attempt. Without waitAgain, each attempt of a failing hook would leave one more tick
// in its queue.
func (k *batches) waitAgain(c *claim, t *store.Task) error {
	for _, other := range c.task.Batch {
		if other.ID == t.ID || !k.unique.isUnique(other) {
			continue
		}
		other, ok, err := store.LoadAt(k.tx, other.Key())
		if err == nil && ok { // a task whose binding allows failures is gone
			err = k.waitAgainOrJoin(other)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// waitAgainOrJoin makes t wait again, or removes t if an equal waiting task is nearer to the head.
func (k *batches) waitAgainOrJoin(t *store.Task) error {
	old, ok, err := equalWaiting(k.tx, t)
	if err != nil {
		return err
	}
	if ok && !nearer(t, old) {
		if err := k.remover.drop(t, store.Joined, old); err != nil {
			return err
		}
		return k.parents.countDown(t.Parent, nil)
	}
	if ok {
		if err := k.arrivals.replace(old, t); err != nil {
			return err
		}
	}
	t.Waits = true
	k.unique.mark(t)
	return k.queues.save(t)
}

// load adds n to the number of payload bytes of the running batches. In a transition with its own
// transaction, load adds n at once, so that other transitions of the same commit use the new
// number. If the transition fails, n is subtracted. In the transaction of a caller of
// [Engine.Raise], load adds n after the commit.
func (k *batches) load(n int) {
	if k.own {
		k.loaded += n
		k.memory.Add(int64(n))
		return
	}
	k.tx.OnCommit(func() { k.memory.Add(int64(n)) })
}
