package workflow

import (
	"fmt"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A dispatcher starts the work that follows a transition, after its commit.
type dispatcher interface {
	// work processes the task of c and the tasks behind it in a goroutine.
	work(c *claim)
	// dispatch starts f in a later transition.
	dispatch(now time.Time, f followUp)
}

// A transition is one transaction of the engine. A transition changes tasks with its components,
// and then claims the next tasks of the affected queues.
type transition struct {
	txn
	components
	dispatcher
	workers  *workers
	attempts *attempts

	failing map[fanOutRef]error // errors of fan-outs whose step failed when this transition was executed before
	stuck   map[string]error    // errors of queues in which this transition could claim no task when it was executed before
}

// A transition claims a task like this. Components touch each queue whose head they change. end calls
// advance for each touched queue. finish, pass and fail call advance for the queue of the ended task.
// advance calls claimNext, which tries the head of the queue with tryStart, until a task is
// claimed or must wait. If nothing blocks a task, start decides whether to claim the task, its next
// item or its preparation, and claims.tryClaim writes the claim. After the commit, workers process
// the claimed tasks: the same worker if finish, pass or fail claimed the task, and a new worker if
// end claimed it.

// end claims the next tasks of the touched queues, as far as the budget allows, and saves the
// changed runs. If the budget is spent, later transitions claim the next tasks of the other queues.
func (m *transition) end() error {
	if err := m.queues.saveTop(); err != nil {
		return err
	}
	var claims []*claim
	for {
		if err := m.openings.reopenChanged(); err != nil {
			return err
		}
		if len(m.queues.touched) == 0 {
			break
		}
		queue := m.queues.touched[0]
		running, err := hasClaimed(m.tx, queue)
		if err != nil {
			return err
		}
		if running {
			m.queues.untouch(queue)
			continue
		}
		if !m.fits(claimCost) {
			m.queues.untouch(queue)
			m.claimHeadLater(queue)
			continue
		}
		c, err := m.advance(queue)
		if err != nil {
			return err
		}
		if c != nil {
			claims = append(claims, c)
		}
	}
	if err := m.history.saveRuns(); err != nil {
		return err
	}
	m.publish()
	for _, c := range claims {
		m.tx.OnCommit(func() { m.work(c) })
	}
	return nil
}

// publish starts the work for later transitions, after the commit of this one.
func (m *transition) publish() {
	for _, f := range m.followUps {
		m.tx.OnCommit(func() { m.dispatch(m.now, f) })
	}
	m.followUps = nil
}

// do does the work f, which an earlier transition has left to this one.
func (m *transition) do(f followUp) error {
	switch f.work {
	case claimQueueHead:
		m.queues.touch(f.queue)
		return nil
	case bringDueTasks:
		return m.deferral.enqueueDue()
	case bringExpeditedTasks:
		return m.deferral.enqueueExpedited()
	case recheckDeferred:
		return m.deferral.recheckDeferred()
	case openLanes:
		return m.openings.reopenAll()
	case openLanesOf:
		return m.openings.reopenOf(f.module)
	case wakeFailedTasks:
		return m.retries.wakeFailed()
	case continuePreparation:
		return m.preparations.continuePreparation()
	case withdrawEvents:
		return m.remover.withdraw(*f.events)
	}
	return fmt.Errorf("a transition got a follow-up of the unknown kind %d", f.work)
}

// A claimError is the reason why no task of queue can be claimed. The other changes of the
// transition can be committed without the claim.
type claimError struct {
	queue string
	err   error
}

func (c *claimError) Error() string { return c.err.Error() }
func (c *claimError) Unwrap() error { return c.err }

// advance claims the next task of queue and returns the claim. If no task can start now, it returns
// nil. If the first task waits for its due time, advance sets an alarm for this time. advance also
// processes fan-out tasks that are empty, that only start items, or that have ended. If the
// transition was executed before, and advance failed for queue, advance claims nothing, and the
// queue is retried after a delay.
func (m *transition) advance(queue string) (*claim, error) {
	if err := m.stuck[queue]; err != nil {
		m.queues.untouch(queue)
		m.tx.OnCommit(func() { m.observer.broken(queue, err) })
		m.later(followUp{work: claimQueueHead, queue: queue, due: m.now.Add(firstDelay)})
		return nil, nil //nolint:nilerr // the queue is retried after a delay
	}
	c, err := m.claimNext(queue)
	if err != nil {
		return nil, &claimError{queue, err}
	}
	if c != nil {
		m.tx.OnCommit(func() { m.attempts.begin(c) })
	}
	return c, nil
}

func (m *transition) claimNext(queue string) (*claim, error) {
	defer m.queues.untouch(queue)
	if !m.workers.isOpen() || waitsForPreparation(m.tx, queue) {
		return nil, nil
	}
	for range mostStarts {
		if err := m.lanes.drain(queue); err != nil {
			return nil, err
		}
		t, ok, err := m.queues.head(queue)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, m.exclusive.touchNext() // the exclusive task may have waited for the last task of queue
		}
		if !m.fits(costOf(t)) {
			break
		}
		c, wait, err := m.tryStart(t)
		switch {
		case c != nil || err != nil:
			return c, err
		case wait:
			return nil, m.queues.saveTop()
		}
	}
	m.claimHeadLater(queue)
	return nil, m.queues.saveTop() // does the write of the new head if setTop has delayed it
}

// mostStarts is the maximum number of tasks at the head of one queue that a transition processes
// without a claim, such as fan-outs that start an item. The next transition continues with the next
// tasks of the queue.
const mostStarts = 256

// tryStart starts the task t at the head of its queue, if nothing blocks it. tryStart returns the claim on t if it has
// claimed t. Otherwise the result wait says whether t must wait. If t need not wait, tryStart has changed the head of
// the queue, and the caller tries the new head. The comments in tryStart give the reasons for the order of the checks.
func (m *transition) tryStart(t *store.Task) (c *claim, wait bool, err error) {
	b, n, unknown := m.graphs.boundTo(t)
	reason, err := m.gate.blockedBy(b, n, t)
	switch {
	case err != nil:
		return nil, false, err
	// For each of the next three reasons, the whole queue waits. So the checks below, which can
	// move or remove t, must not be reached.
	case reason.Is(store.AwaitsQueue), reason.Is(store.AwaitsExclusive):
		return nil, true, m.exclusive.touchNext() // the exclusive task may have waited for the task before t
	case reason.Is(store.AwaitsRetry):
		m.later(followUp{work: claimQueueHead, queue: t.Queue, due: reason.Until})
		return nil, true, nil
	case unknown != nil: // all checks below need the node
		return nil, false, m.remover.dropUnknown(t, unknown)
	}
	// This check must come before t can be held. The step of an abandoned task is not called, so
	// nothing needs to hold the task.
	if err := m.pendingCancels.markAbandoned(t); err != nil {
		return nil, false, err
	}
	if t.Abandoned && !t.Journal {
		if waitsForGroup(t) {
			return nil, true, nil
		}
		return nil, false, m.remover.dropCanceled(t)
	}
	// This check must come before t can be deferred, because older tasks of its hook that are held
	// must start before t.
	if held, err := m.gate.stop(b, n, t, reason); held || err != nil {
		return nil, false, err
	}
	// Events and schedule ticks are deferred; they are not diverted.
	if reason.Is(store.AwaitsLimit) {
		return nil, false, m.limits.deferTask(b, n, t)
	}
	// This check must come before t waits for failing modules: a task of the main queue is parked
	// instead, so that the queue continues.
	if moved, err := m.lagging.divert(b, n, t); moved || err != nil {
		return nil, false, err
	}
	if reason.Is(store.AwaitsModules) {
		return nil, true, nil
	}
	return m.start(b, n, t, reason)
}

// start claims the task t or its next item, or ends its step if a person has skipped the step. Nothing blocks t, except
// possibly its items.
func (m *transition) start(b *bound, n *graph.Node, t *store.Task, reason *store.Reason) (c *claim, wait bool, err error) {
	if b.rewinds[n.ID] {
		t.Past = t.Node
		if more, err := m.lagging.replaceParked(b, t); more || err != nil {
			return nil, more, err
		}
	}
	switch {
	case t.CancelsPending:
		return nil, true, m.pendingCancels.continueCancel(t)
	case len(t.Skips) > 0 && !m.own:
		m.claimHeadLater(t.Queue)
		return nil, true, nil
	case t.FanOut == nil:
		if skipped, err := m.skips.endIfSkipped(t); skipped || err != nil {
			return nil, false, err
		}
	}
	return m.begin(b, n, t, reason)
}

// begin claims the task t or its next item, or creates its fan-out.
func (m *transition) begin(b *bound, n *graph.Node, t *store.Task, reason *store.Reason) (c *claim, wait bool, err error) {
	l := t.FanOut
	switch {
	case l == nil && isSingle(n, t):
		return m.claims.tryClaim(b, n, t, graph.Item{})
	case t.Journal:
		return m.beginItem(b, n, t)
	case awaitsLastItems(l, reason):
		return nil, true, nil
	case !m.own:
		m.claimHeadLater(t.Queue)
		return nil, true, nil
	case m.failing[refOf(t)] != nil:
		return nil, false, m.retries.retryLater(b, n, t, failure{err: m.failing[refOf(t)], subject: t.Subject}, nil)
	case l == nil && !t.Prepared && b.prepares(n):
		return m.claims.tryClaim(b, n, t, graph.Item{})
	case l == nil:
		if err := m.fanOuts.makeFanOut(b, n, t); err != nil {
			return nil, false, err
		}
	}
	return m.beginItem(b, n, t)
}

// isSingle reports whether t is processed without a fan-out. The caller must have checked that t has no fan-out yet.
func isSingle(n *graph.Node, t *store.Task) bool { return n.ForEach == "" || t.OwnQueue || t.Journal }

// awaitsLastItems reports whether the fan-out l has started all items and must wait for the running
// ones.
func awaitsLastItems(l *store.FanOut, reason *store.Reason) bool {
	return l != nil && l.Next == l.Len && reason.Is(store.AwaitsItems)
}

// beginItem continues the fan-out task t. If a person has skipped the next item, beginItem ends the
// item. If t processes the next item itself, beginItem claims t for this item.
func (m *transition) beginItem(b *bound, n *graph.Node, t *store.Task) (c *claim, wait bool, err error) {
	if skipped, err := m.skips.endIfSkipped(t); skipped || err != nil {
		return nil, false, err
	}
	item, wait, err := m.fanOuts.goOn(b, n, t)
	if item == nil || err != nil {
		return nil, wait, err
	}
	return m.claims.tryClaim(b, n, t, *item)
}
