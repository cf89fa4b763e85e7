package workflow

import (
	"bytes"
	"errors"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// claims gives tasks to workers. A claim is written before its attempt begins. A claim records the
// epoch, the covered tasks, and the number of epochs that crashed while they processed the task.
type claims struct {
	*txn
	queues      *queues
	unique      *unique
	exclusive   *exclusive
	limits      *limits
	quarantines *quarantines
	batches     *batches
}

// claim gives t to a worker, and records the claim in the header of t. If t is a fan-out task, the
// parameter item is its current item. The parameter crashes is the number of earlier epochs that
// crashed while they processed this task.
func (cs *claims) claim(b *bound, n *graph.Node, t *store.Task, item graph.Item, crashes int) (*claim, error) {
	c := &claim{bound: b, node: n, prepare: n.ForEach != "" && t.FanOut == nil && !t.OwnQueue}
	if err := store.LoadPayload(cs.tx, t); err != nil {
		return nil, err
	}
	cs.unique.unwait(t)
	old := t.Claim
	t.Claim = &store.Claim{
		Epoch: cs.epoch, Since: cs.now, Again: old != nil && old.Epoch != 0, Crashes: crashes, Exclusive: crashes >= exclusiveAfter,
	}
	t.Due = time.Time{}
	c.task.Batch = []*store.Task{t}
	subject := t.Subject
	if t.FanOut != nil {
		subject = item.Subject
	}
	limit, err := cs.limits.rateLimit(b, n, t, subject)
	if err != nil {
		return nil, err
	}
	if again := t.Claim.Again || t.Journal; !again && !c.prepare {
		if err := cs.limits.spendRun(limit, subject); err != nil {
			return nil, err
		}
	}
	if n.Batch && (t.Journal || !limit.NoBatch) { // a journal belongs to all tasks of its batch
		if err := cs.batches.extendBatch(b, c, old); err != nil {
			return nil, err
		}
	}
	if err := cs.queues.save(t); err != nil {
		return nil, err
	}
	c.header, c.saved = *t, bytes.Clone(cs.tx.Get(t.Pos.Key()))
	c.task.Task = *c.copyTask()
	if t.FanOut != nil {
		c.task.Subject, c.task.AllowFailure = item.Subject, item.AllowFailure
	}
	return c, cs.describe(c, t)
}

// describe sets the fields of c's task that describe this attempt to the step. If t has a journal,
// describe also sets c.outcome.
func (cs *claims) describe(c *claim, t *store.Task) error {
	c.task.Try, c.task.Previous = 1, None
	if f := t.Failed.Of(store.StepRef{Node: t.Node, Subject: c.task.Subject}); f != nil {
		c.task.Try, c.task.Previous = f.Count+1, WasFailed
	}
	if t.Claim.Again {
		c.task.Previous = Interrupted
	}
	if t.Journal {
		out, ok, err := store.Load[Outcome](cs.tx, store.JournalKey(t.ID))
		if err != nil || !ok {
			if err != nil {
				return err
			}
			return &store.RecordError{Key: store.JournalKey(t.ID), Err: errors.New("the outcome is missing")}
		}
		c.outcome, c.task.Resumed = &out, true
	}
	return nil
}

// tryClaim claims t. If the operator has crashed at least twice (exclusiveAfter) while t ran, t is
// claimed only when no other task runs; until then, the result wait is true. If the operator has
// crashed at least three times (quarantineAfter) while t ran, and t ran exclusively when the last
// of these crashes happened, tryClaim quarantines t instead. If t is a fan-out task, all this
// applies to its current item, the parameter item.
func (cs *claims) tryClaim(b *bound, n *graph.Node, t *store.Task, item graph.Item) (c *claim, wait bool, err error) {
	if err := cs.restoreInterruption(n, t, item); err != nil {
		return nil, false, err
	}
	crashes, err := crashesOf(cs.tx, t.Claim)
	if err != nil {
		return nil, false, err
	}
	if crashes >= quarantineAfter && t.Claim.Exclusive {
		return nil, false, cs.quarantines.quarantine(b, t, item, crashes)
	}
	if crashes >= exclusiveAfter {
		if free, err := cs.exclusive.claimExclusive(t); err != nil || !free {
			return nil, true, err
		}
	}
	c, err = cs.claim(b, n, t, item, crashes)
	return c, false, err
}

// restoreInterruption gives t the claim that was saved when an earlier task with the same item was
// removed, or when the item was released from quarantine. restoreInterruption does nothing if no
// claim was saved, if t has a claim or a journal already, or if the node of t has Batch.
func (cs *claims) restoreInterruption(n *graph.Node, t *store.Task, item graph.Item) error {
	if t.Claim != nil || t.Journal || n.Batch {
		return nil
	}
	s := t.Subject
	if t.FanOut != nil {
		s = item.Subject
	}
	key := store.InterruptionKey(t.Graph, t.Node, s)
	claim, ok, err := store.Load[store.Claim](cs.tx, key)
	if err != nil || !ok {
		return err
	}
	cs.tx.Delete(key)
	cs.unique.unwait(t)
	claim.Restored = true
	t.Claim = &claim
	return cs.queues.save(t)
}
