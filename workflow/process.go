package workflow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A worker processes the tasks of a queue, one after the other.
type worker struct{ e *Engine }

// NotStarted marks err as an error of a step whose work has not begun. So the step is tried again even if the binding
// allows failures.
func NotStarted(err error) error { return &notStartedError{err} }

type notStartedError struct{ err error }

func (e *notStartedError) Error() string { return e.err.Error() }
func (e *notStartedError) Unwrap() error { return e.err }

// work starts a worker that processes the task of c and the tasks behind it.
func (e *Engine) work(c *claim) { e.workers.run(func() { worker{e}.work(c) }) }

// work processes the task of c and the tasks behind it, until none of them can start now. If a transition fails, work
// reports the error and ends.
func (w worker) work(c *claim) {
	for c != nil {
		next, err := w.process(w.e.workers.ctx, c)
		if err != nil {
			w.e.observer.broken(c.task.Queue, err)
			if w.e.db.Err() == nil {
				w.e.claimHead(c.task.Queue) // so that the other tasks of the queue can start if the task of c was removed
			}
			return
		}
		c = next
	}
}

// process runs an attempt of the task of c and ends it in a transition. process returns the claim
// on the next task of the queue; nil if no task can start now. If ctx has ended and the step has
// returned an error, there is no such transition. In this case, the claim in the store shows that
// the task was interrupted.
func (w worker) process(ctx context.Context, c *claim) (next *claim, err error) {
	if w.e.observer.Began != nil {
		w.e.observer.Began(c.task)
	}
	w.reach(c, AtClaimed)
	out, failed := w.do(w.e.observer.context(c.ctx, c.task), c)
	if failed != nil {
		// A transition repairs the damaged records that it reads, but a step reads outside of
		// transitions.
		if damaged := repairable(failed.err); damaged != nil {
			_, err := w.e.repair(damaged)
			failed.err = errors.Join(failed.err, err)
		}
	}
	why := canceled(c.ctx)
	w.e.attempts.end(c)
	if failed != nil && why != nil && ctx.Err() == nil {
		if why.Skip {
			next, err = w.commit(ctx, c, func(m *transition) (*claim, error) { return m.pass(c, why) })
			if err == nil {
				return next, nil
			}
			failed.err = fmt.Errorf("cannot skip: %w: %w", err, failed.err)
		}
		if !errors.Is(failed.err, why) {
			failed.err = fmt.Errorf("%w: %w", why, failed.err)
		}
	}
	if failed == nil {
		w.reach(c, AtDone)
		next, err = w.commit(ctx, c, func(m *transition) (*claim, error) { return m.finish(c, out) })
		if err != nil {
			failed = &failure{err: err, subject: c.task.Subject}
		}
	}
	if failed != nil {
		return w.commitFailure(ctx, c, *failed)
	}
	return next, nil
}

// commitFailure ends the attempt of c as failed. If the transition fails as well, a second transition records both
// errors, without calling the step. The failure is then strict: the allowFailure of the binding does not apply. If the
// effects were executed and the end of the task failed, the journal is dropped: the step and its effects run again.
func (w worker) commitFailure(ctx context.Context, c *claim, failed failure) (next *claim, err error) {
	for second := false; ; second = true {
		if ctx.Err() != nil {
			return nil, nil //nolint:nilerr // the attempt was interrupted, which is no error
		}
		if err := w.e.db.Err(); err != nil {
			return nil, err
		}
		next, err = w.commit(ctx, c, func(m *transition) (*claim, error) { return m.fail(c, failed) })
		if err == nil || second {
			return next, err
		}
		failed.err, failed.strict = errors.Join(failed.err, err), true
	}
}

// commit runs fn as one transition for c. If the disk is full, commit waits for free space.
func (w worker) commit(ctx context.Context, c *claim, fn func(*transition) (*claim, error)) (next *claim, err error) {
	err = w.e.db.WithRoom(ctx, func() error {
		acted := w.e.observer.time(TransitionTime)
		err := w.e.update(func(m *transition) (err error) {
			next, err = fn(m)
			return err
		})
		acted(c.task.Queue)
		return err
	})
	if err != nil {
		return nil, err
	}
	return next, nil
}

// do gets the outcome of the step, from the journal or by calling the step, and executes its effects.
func (w worker) do(ctx context.Context, c *claim) (out Outcome, failed *failure) {
	out, err := w.outcome(ctx, c)
	if err != nil {
		_, notStarted := errors.AsType[*notStartedError](err)
		return out, &failure{err: err, subject: c.task.Subject, strict: notStarted}
	}
	effecter, _ := c.bound.Steps[c.node.ID].(Effecter)
	for i, effect := range out.Effects {
		if effecter == nil {
			return out, &failure{err: fmt.Errorf("node %s cannot do the effect %q", c.node.ID, effect.Kind), subject: c.task.Subject}
		}
		if i > 0 && w.dropsEffects(c) {
			break
		}
		w.reach(c, AtEffect)
		err := guard(c.node, "Effect", func() error { return effecter.Effect(ctx, c.task, effect) })
		if err != nil {
			return out, &failure{
				err:     fmt.Errorf("effect %d of %d (%s): %w", i+1, len(out.Effects), effect.Kind, err),
				subject: c.task.Subject, resume: !IsRefused(err),
			}
		}
	}
	return out, nil
}

// dropsEffects reports whether the store says that the remaining effects of c's task must not begin. dropsEffects reads
// the task again, because another transition can change it after the claim. The store does not say which effect has
// begun. So if execution starts again, only the first effect of such a task is executed.
func (w worker) dropsEffects(c *claim) (drops bool) {
	err := w.e.db.View(func(tx *store.Tx) error {
		t, ok, err := c.find(tx)
		drops = ok && t.DropEffects
		return err
	})
	return err == nil && drops // if the task cannot be read, the transition reports the error
}

// outcome returns the outcome in the journal. If there is no journal, outcome calls the step. If the result of the step
// has effects, outcome writes this result to the journal.
func (w worker) outcome(ctx context.Context, c *claim) (out Outcome, err error) {
	if c.outcome != nil {
		return *c.outcome, nil
	}
	step := c.bound.Steps[c.node.ID]
	if preparer, ok := step.(Preparer); ok && c.prepare {
		err = guard(c.node, "Prepare", func() (err error) { out, err = preparer.Prepare(ctx, c.task); return err })
	} else {
		err = guard(c.node, "Do", func() (err error) { out, err = step.Do(ctx, c.task); return err })
	}
	if err != nil {
		return out, err
	}
	w.reach(c, AtEnded)
	if len(out.Effects) == 0 {
		return out, nil
	}
	// This commit must not use ctx, which is canceled with the attempt. The outcome of a step that
	// has succeeded must be stored even if the attempt was canceled.
	_, err = w.commit(w.e.workers.ctx, c, func(m *transition) (*claim, error) {
		t, err := m.reload(c)
		if err != nil {
			return nil, err
		}
		if t.Abandoned {
			out.Effects = nil
			return nil, nil
		}
		t.Journal = true
		if err := store.Save(m.tx, store.JournalKey(t.ID), out); err != nil {
			return nil, err
		}
		return nil, m.queues.save(t)
	})
	return out, err
}

// reload returns the current header of c's task, because other transitions may have changed it.
func (m *transition) reload(c *claim) (*store.Task, error) {
	if bytes.Equal(m.tx.Get(c.task.Pos.Key()), c.saved) {
		return c.copyTask(), nil
	}
	t, ok, err := c.find(m.tx)
	if err != nil {
		return nil, err
	}
	if !ok || !claimed(m.tx, t) {
		return nil, fmt.Errorf("task %s in slot %d of queue %s was removed while it ran", c.task.ID, c.task.Slot, c.task.Queue)
	}
	return t, nil
}

// finish ends the attempt of c, whose step has returned the outcome out. It ends the task, the current item of a
// fan-out task, or the preparation of a fan-out, and then claims the next task of the queue.
func (m *transition) finish(c *claim, out Outcome) (*claim, error) {
	t, err := m.reload(c)
	if err != nil {
		return nil, err
	}
	facts, err := m.apply(c, t, out)
	if err != nil {
		return nil, err
	}
	if err := m.note(c, t, facts, out); err != nil {
		return nil, err
	}
	if err := m.endAttempt(c, t); err != nil {
		return nil, err
	}
	switch {
	case c.prepare && !t.Abandoned:
		t.Prepared, t.Claim = true, nil
		m.queues.setTop(t)
	case t.FanOut != nil && !t.Abandoned:
		m.parents.itemDone(t, facts)
	default:
		if err := m.routes.complete(c.bound, c.node, t, facts, out.Items); err != nil {
			return nil, err
		}
	}
	if c.node.WakesFailed && len(facts) > 0 {
		if err := m.queues.saveTop(); err != nil {
			return nil, err
		}
		if err := m.retries.wakeFailed(); err != nil {
			return nil, err
		}
	}
	return m.advance(t.Queue)
}

// apply makes the step write its outcome, and returns the facts of the outcome and of Apply. A
// preparation has no facts. For an abandoned task, apply writes nothing and returns no facts.
func (m *transition) apply(c *claim, t *store.Task, out Outcome) (facts []graph.Fact, err error) {
	if t.Abandoned {
		return nil, nil
	}
	step := c.bound.Steps[c.node.ID]
	if preparer, ok := step.(Preparer); ok && c.prepare {
		return nil, guard(c.node, "ApplyPrepared", func() error { return preparer.ApplyPrepared(m.tx, c.task, out) })
	}
	facts = append(facts, out.Facts...)
	applier, ok := step.(Applier)
	if !ok {
		return facts, nil
	}
	c.task.applied = new(applied)
	err = guard(c.node, "Apply", func() error {
		more, err := applier.Apply(m.tx, c.task, out)
		facts = append(facts, more...)
		return err
	})
	for _, w := range c.task.applied.withdrawals {
		if err == nil {
			err = m.remover.withdraw(w)
		}
	}
	return facts, err
}

// note adds a line of history about the attempt that has ended.
func (m *transition) note(c *claim, t *store.Task, facts []graph.Fact, out Outcome) error {
	state := store.Done
	switch {
	case t.Abandoned:
		state = store.Dropped
	case out.Dropped != "":
		state, out.Detail = store.Dropped, out.Dropped
	case out.Allowed != "":
		state = store.Allowed
	}
	r := recordOf(t, state)
	r.Subject, r.Try, r.Detail, r.Error = c.task.Subject, c.task.Try, out.Detail, out.Allowed
	if state == store.Done || state == store.Allowed {
		r.Changes = out.Changes
	}
	if state == store.Done && out.Warning != "" {
		r.Warning = out.Warning
		m.history.warn(r.Run, r.Warning)
	}
	if applied := c.task.applied; applied != nil && len(applied.remarks) > 0 {
		r.Detail = strings.TrimPrefix(strings.Join(append([]string{out.Detail}, applied.remarks...), "; "), "; ")
	}
	if t.Abandoned && r.Detail == "" {
		r.Detail = abandonedDetail
	}
	r.Facts, r.Output = report(nil, facts), c.task.output.text()
	if len(c.task.Batch) > 1 {
		r.Merged = len(c.task.Batch)
	}
	return m.history.record(r)
}

// endAttempt ends the attempt of c at t. It is called only if t is not retried. Other tasks that had to wait for t may
// start, and the other tasks of the batch end.
func (m *transition) endAttempt(c *claim, t *store.Task) error {
	m.clearAttempt(c, t)
	m.openings.mayUnblock(t.Subject)
	if err := m.exclusive.endExclusive(t); err != nil {
		return err
	}
	return m.batches.endBatch(c, t)
}

// clearAttempt removes the journal of t, and the failure of the step that this attempt has repeated.
func (m *transition) clearAttempt(c *claim, t *store.Task) {
	if t.Journal {
		store.DropJournal(m.tx, t.ID)
		t.Journal = false
	}
	t.Failed = t.Failed.WithoutStep(store.StepRef{Node: t.Node, Subject: c.task.Subject})
}

// pass ends c's task, whose attempt was canceled, as if it had succeeded without facts. If the task
// is a fan-out task, pass ends only the current item.
func (m *transition) pass(c *claim, why *canceledError) (*claim, error) {
	t, err := m.reload(c)
	if err != nil {
		return nil, err
	}
	r := recordOf(t, store.Skipped)
	r.Subject, r.Try, r.Detail, r.Output = c.task.Subject, c.task.Try, skippedBy(why.By, why.Reason), c.task.output.text()
	if len(c.task.Batch) > 1 {
		r.Merged = len(c.task.Batch)
	}
	if err := m.history.record(r); err != nil {
		return nil, err
	}
	if err := m.endAttempt(c, t); err != nil {
		return nil, err
	}
	addSkip(t, store.StepRef{Node: t.Node, Subject: c.task.Subject})
	t.Due = m.now
	if t.Abandoned {
		err = m.remover.removeLast(t, nil)
	} else {
		err = m.skips.endSkipped(c.bound, c.node, t)
	}
	if err != nil {
		return nil, err
	}
	return m.advance(t.Queue)
}

// fail ends a failed attempt. If the journal must be executed again, the task is retried later in
// any case, unless its module is being deleted. Otherwise, an abandoned task ends, and a task whose
// binding allows the failure ends as if it had succeeded, unless f is strict. Any other task is
// retried later.
func (m *transition) fail(c *claim, f failure) (*claim, error) {
	t, err := m.reload(c)
	if err != nil {
		return nil, err
	}
	f.resume = f.resume && !t.DropEffects
	if !f.resume {
		if t.Abandoned || c.allowsFailure() && !f.strict {
			return m.finish(c, Outcome{Allowed: f.text()})
		}
		if t.Journal {
			store.DropJournal(m.tx, t.ID)
			t.Journal = false
		}
		if len(c.task.Batch) > 1 && !f.strict {
			if t, err = m.batches.endAllowedFailures(c, t, f); err != nil {
				return nil, err
			}
			f.subject = t.Subject
		}
		if err := m.batches.waitAgain(c, t); err != nil {
			return nil, err
		}
	}
	if err := m.retries.retryLater(c.bound, c.node, t, f, c.task.output); err != nil {
		return nil, err
	}
	return m.advance(t.Queue)
}

// reach calls Checkpoint, if it is set, when the attempt of c has reached a [Moment]. A crash test
// can kill the process there.
func (w worker) reach(c *claim, at Moment) {
	if w.e.Checkpoint != nil {
		w.e.Checkpoint(c.task, at)
	}
}
