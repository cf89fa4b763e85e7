package workflow

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// mostStarts is how many items a transition starts, or lists it passes through,
// in one queue, if its budget allows as many, before the next goes on.
const mostStarts = 256

// A claim is a task that a worker has to do.
type claim struct {
	task    Task
	header  store.Task // of the task, as the claim has left it
	saved   []byte     // and as the store has it
	bound   *bound
	node    *graph.Node
	outcome *Outcome // what its journal holds
	prepare bool     // the node is to be prepared, its list is not made yet
	size    int      // bytes of the payloads of a batch

	ctx    context.Context //nolint:containedctx // of the attempt, from the commit of the claim on
	cancel context.CancelCauseFunc
}

// A claimError is why no task of queue can be claimed. What the transition had to
// commit does not depend on that.
type claimError struct {
	queue string
	err   error
}

func (c *claimError) Error() string { return c.err.Error() }
func (c *claimError) Unwrap() error { return c.err }

// advance claims the first task of queue and returns it, or nothing where none
// can be done now: then an alarm is set for the time it can. Lists that are
// empty, only start members, or have ended, are seen to on the way. In a queue
// where that failed when the transition was tried before, nothing is claimed, and
// it is tried again after a delay.
func (m *transition) advance(queue string) (*claim, error) {
	if err := m.stuck[queue]; err != nil {
		m.seen(queue)
		m.tx.OnCommit(func() {
			m.e.broken(queue, err)
			m.e.arm(queue, m.now, m.now.Add(firstDelay), looking(queue))
		})
		return nil, nil //nolint:nilerr // the queue is tried again after a delay
	}
	c, err := m.claimNext(queue)
	if err != nil {
		err = &claimError{queue, err}
	}
	return c, err
}

func (m *transition) claimNext(queue string) (*claim, error) {
	defer m.seen(queue)
	if !m.e.claims() || m.prepares(queue) {
		return nil, nil
	}
	if blocked, err := m.waitsForExclusive(queue); blocked || err != nil {
		return nil, err
	}
	for range mostStarts {
		if err := m.drain(queue); err != nil {
			return nil, err
		}
		t, ok, err := m.head(queue)
		if err != nil || !ok {
			return nil, err
		}
		if !m.fits(costOf(t)) {
			break
		}
		if reason := retryReason(m.tx, t); reason != nil {
			m.tx.OnCommit(func() { m.e.arm(queue, m.now, reason.Until, looking(queue)) })
			return nil, nil
		}
		c, wait, err := m.reach(t)
		if c != nil || wait || err != nil {
			return c, err
		}
	}
	m.lookLater(queue)
	return nil, nil
}

// lookLater leaves what queue has left to a transition of its own.
func (m *transition) lookLater(queue string) {
	m.tx.OnCommit(func() { m.e.look(queue) })
}

// due returns when t is due. What was deferred by a rate limit that is another since is due now.
func (m *transition) due(t *store.Task) time.Time {
	if t.Every > 0 && m.intervalOf(t) != t.Every {
		return m.now
	}
	return dueAt(t, m.now)
}

// dropUnknown takes away a task that this version of the graph cannot do.
func (m *transition) dropUnknown(t *store.Task, why error) error {
	r := recordOf(t, store.Dropped)
	r.Error = why.Error()
	if err := m.record(r); err != nil {
		return err
	}
	return m.leave(t, nil)
}

// reach brings the task t at the head of its queue to where something is to be
// done: it returns the claim on it, reports that t must wait, or has changed
// what stands at the head.
func (m *transition) reach(t *store.Task) (c *claim, wait bool, err error) {
	b, n, err := m.e.boundTo(t)
	if err != nil {
		return nil, false, m.dropUnknown(t, err)
	}
	if err := m.markAbandoned(t); err != nil {
		return nil, false, err
	}
	if t.Abandoned && !t.Journal {
		if waitsForGroup(t) {
			return nil, true, nil
		}
		return nil, false, m.abandon(t)
	}
	if held, err := m.gate(b, n, t); held || err != nil {
		return nil, false, err
	}
	if moved, err := m.stepAside(n, t); moved || err != nil {
		return nil, false, err
	}
	if t.Lagging > 0 {
		return nil, true, nil
	}
	if b.rewinds[n.ID] {
		t.Past = t.Node
		if err := m.replaceParked(b, t); err != nil {
			return nil, false, err
		}
	}
	l := t.FanOut
	switch {
	case t.CancelsPending:
		return nil, true, m.continueCancel(t)
	case l == nil && (n.ForEach == "" || t.Detached || t.Journal):
		if off, err := m.deferTask(b, n, t); off || err != nil {
			return nil, false, err
		}
		return m.begin(b, n, t, graph.Item{})
	case t.Journal:
		return m.goOn(b, n, t)
	case l != nil && l.Next == l.Len && itemsReason(t) != nil:
		return nil, true, nil
	case !m.own:
		m.lookLater(t.Queue)
		return nil, true, nil
	case m.failing[refOf(t)] != nil:
		return nil, false, m.retryLater(b, n, t, failure{err: m.failing[refOf(t)], subject: t.Subject})
	case l == nil && !t.Prepared && b.prepares(n):
		return m.begin(b, n, t, graph.Item{})
	case l == nil:
		if err := m.makeFanOut(b, n, t); err != nil {
			return nil, false, err
		}
	}
	return m.goOn(b, n, t)
}

// prepares reports whether n's step prepares its list.
func (b *bound) prepares(n *graph.Node) bool {
	_, ok := b.Steps[n.ID].(Preparer)
	return ok
}

// claim gives t to a worker: the header says so, and how far it reaches. Where t
// stands for a list, member is the one to be done.
// crashes is how many lives have died while it was done before.
func (m *transition) claim(b *bound, n *graph.Node, t *store.Task, item graph.Item, crashes int) (*claim, error) {
	c := &claim{bound: b, node: n, prepare: n.ForEach != "" && t.FanOut == nil && !t.Detached}
	if err := store.LoadPayload(m.tx, t); err != nil {
		return nil, err
	}
	m.unwait(t)
	old := t.Claim
	t.Claim = &store.Claim{
		Epoch: m.epoch, Since: m.now, Again: old != nil && old.Epoch != 0, Crashes: crashes, Exclusive: crashes >= exclusiveAfter,
	}
	t.Due = time.Time{}
	c.task.Batch = []*store.Task{t}
	subject := t.Subject
	if t.FanOut != nil {
		subject = store.Subject(item.Subject)
	}
	pace := m.rateLimit(b, n, t, subject)
	if again := t.Claim.Again || t.Journal; !again && !c.prepare {
		if err := m.spendRun(pace, subject); err != nil {
			return nil, err
		}
	}
	if n.Batch && !pace.NoBatch {
		if err := m.extendBatch(b, c, old); err != nil {
			return nil, err
		}
	}
	if err := m.save(t); err != nil {
		return nil, err
	}
	c.header, c.saved = *t, bytes.Clone(m.tx.Get(t.Pos.Key()))
	c.task.Task = *c.again()
	if t.FanOut != nil {
		c.task.Subject, c.task.AllowFailure = store.Subject(item.Subject), item.AllowFailure
	}
	m.tx.OnCommit(func() { m.e.beginAttempt(c) })
	return c, m.describe(c, t)
}

// again returns the header of c's task as the claim has left it, to be changed.
func (c *claim) again() *store.Task {
	t := c.header
	if t.FanOut != nil {
		l := *t.FanOut
		l.Facts = slices.Clip(l.Facts)
		t.FanOut = &l
	}
	return &t
}

// describe fills in what the step is told of this attempt.
func (m *transition) describe(c *claim, t *store.Task) error {
	c.task.Try, c.task.Previous = 1, None
	if f := t.Failed; f != nil && f.Node == t.Node && f.Subject == c.task.Subject {
		c.task.Try, c.task.Previous = f.Count+1, WasFailed
	}
	if t.Claim.Again {
		c.task.Previous = Interrupted
	}
	if t.Journal {
		out, ok, err := store.Load[Outcome](m.tx, store.JournalKey(t.ID))
		if err != nil || !ok {
			if err != nil {
				return err
			}
			return &store.RecordError{Key: store.JournalKey(t.ID), Err: errors.New("it is missing")}
		}
		c.outcome, c.task.Resumed = &out, true
	}
	return nil
}
