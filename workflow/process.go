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

// process does the task of c and moves on. It returns the claim on what follows.
// Where ctx ended the attempt, nothing is written: the claim in the store says
// that the task was interrupted.
func (e *Engine) process(ctx context.Context, c *claim) (next *claim, err error) {
	if e.observer.Began != nil {
		e.observer.Began(c.task)
	}
	failpoint(c.node.ID, "claimed")
	out, failed := e.do(c.ctx, c)
	why := canceled(c.ctx)
	e.endAttempt(c)
	if failed != nil && why != nil && ctx.Err() == nil {
		if why.Skip {
			return e.commit(ctx, c, func(m *transition) (*claim, error) { return m.pass(c, why) })
		}
		if !errors.Is(failed.err, why) {
			failed.err = fmt.Errorf("%w: %w", why, failed.err)
		}
	}
	if failed == nil {
		failpoint(c.node.ID, "done")
		next, err = e.commit(ctx, c, func(m *transition) (*claim, error) { return m.finish(c, out) })
		if err != nil {
			failed = &failure{err: err, subject: c.task.Subject}
		}
	}
	for failed != nil {
		if ctx.Err() != nil {
			return nil, nil //nolint:nilerr // it was interrupted, which is no error
		}
		if err := e.db.Err(); err != nil {
			return nil, err
		}
		next, err = e.commit(ctx, c, func(m *transition) (*claim, error) { return m.fail(c, *failed) })
		if err == nil || failed.strict {
			break
		}
		failed.err, failed.strict = errors.Join(failed.err, err), true
	}
	return next, err
}

// commit runs fn as one transition of c's. On a full disk it waits for room.
func (e *Engine) commit(ctx context.Context, c *claim, fn func(*transition) (*claim, error)) (next *claim, err error) {
	err = e.db.WithRoom(ctx, func() error {
		acted := e.observer.time(TransitionTime)
		err := e.update(func(m *transition) (err error) {
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

// do calls the step and has its effects done.
func (e *Engine) do(ctx context.Context, c *claim) (out Outcome, failed *failure) {
	out, err := e.outcome(ctx, c)
	if err != nil {
		return out, &failure{err: err, subject: c.task.Subject}
	}
	effecter, _ := c.bound.Steps[c.node.ID].(Effecter)
	for i, effect := range out.Effects {
		if effecter == nil {
			return out, &failure{err: fmt.Errorf("node %s cannot do the effect %q", c.node.ID, effect.Kind), subject: c.task.Subject}
		}
		if i > 0 && e.isAbandoned(c) {
			break
		}
		failpoint(c.node.ID, "effect")
		err := guard(c.node, "Effect", func() error { return effecter.Effect(ctx, c.task, effect) })
		if err != nil {
			refused := (*refusal)(nil)
			return out, &failure{
				err:     fmt.Errorf("effect %d of %d (%s): %w", i+1, len(out.Effects), effect.Kind, err),
				subject: c.task.Subject, resume: !errors.As(err, &refused),
			}
		}
	}
	return out, nil
}

// isAbandoned reports whether c's task has become an orphan since it was claimed:
// effects it has not begun are not begun then.
func (e *Engine) isAbandoned(c *claim) (orphan bool) {
	err := e.db.View(func(tx *store.Tx) error {
		t, ok, err := c.find(tx)
		orphan = ok && t.Abandoned
		return err
	})
	return err == nil && orphan // what cannot be read now is an error of the transition
}

// outcome returns what the journal holds, or what the step has to say now; one
// with effects is in the journal then.
func (e *Engine) outcome(ctx context.Context, c *claim) (out Outcome, err error) {
	if c.outcome != nil {
		return *c.outcome, nil
	}
	step := c.bound.Steps[c.node.ID]
	if preparer, ok := step.(Preparer); ok && c.prepare {
		err = guard(c.node, "Prepare", func() (err error) { out, err = preparer.Prepare(ctx, c.task); return err })
	} else {
		err = guard(c.node, "Do", func() (err error) { out, err = step.Do(ctx, c.task); return err })
	}
	if err != nil || len(out.Effects) == 0 {
		return out, err
	}
	_, err = e.commit(e.ctx, c, func(m *transition) (*claim, error) {
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
		return nil, m.save(t)
	})
	return out, err
}

// reload returns the header of c's task as it is now: others may have changed
// what concerns them.
func (m *transition) reload(c *claim) (*store.Task, error) {
	if bytes.Equal(m.tx.Get(c.task.Pos.Key()), c.saved) {
		return c.again(), nil
	}
	t, ok, err := c.find(m.tx)
	if err != nil {
		return nil, err
	}
	if !ok || !m.claimed(t) {
		return nil, fmt.Errorf("task %s at place %d of queue %s was taken away while it ran", c.task.ID, c.task.Slot, c.task.Queue)
	}
	return t, nil
}

// find returns the header of c's task, and whether it is still there. A rewind that is committed
// while the task runs can have moved it up in its slot.
func (c *claim) find(tx *store.Tx) (*store.Task, bool, error) {
	for t, err := range store.Slot(tx, c.task.Queue, c.task.Slot) {
		if err != nil {
			return nil, false, err
		}
		if t.ID == c.task.ID {
			return t, true, nil
		}
	}
	return nil, false, nil
}

// finish ends c's task with out and claims what comes next.
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
	m.settle(c, t)
	m.changes(t.Subject)
	if err := m.endExclusive(t); err != nil {
		return nil, err
	}
	if err := m.endBatch(c, t); err != nil {
		return nil, err
	}
	switch {
	case c.prepare && !t.Abandoned:
		t.Prepared, t.Claim = true, nil
		m.top = t
	case t.FanOut != nil && !t.Abandoned:
		m.itemDone(t, facts)
	default:
		if err := m.complete(c.bound, c.node, t, facts, out.Items); err != nil {
			return nil, err
		}
	}
	if c.node.WakesFailed && len(facts) > 0 {
		if err := m.saveTop(); err != nil {
			return nil, err
		}
		if err := m.wakeFailed(); err != nil {
			return nil, err
		}
	}
	return m.advance(t.Queue)
}

// apply has the step write out, and returns all the facts. Of an orphan nothing
// is written.
func (m *transition) apply(c *claim, t *store.Task, out Outcome) (facts []graph.Fact, err error) {
	if t.Abandoned {
		return nil, nil
	}
	facts = append(facts, out.Facts...)
	applier, ok := c.bound.Steps[c.node.ID].(Applier)
	if !ok {
		return facts, nil
	}
	c.task.remarks = new([]string)
	err = guard(c.node, "Apply", func() error {
		more, err := applier.Apply(m.tx, c.task, out)
		facts = append(facts, more...)
		return err
	})
	return facts, err
}

// note writes the attempt that ended into history.
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
	if state == store.Done && out.Warning != "" {
		r.Warning = out.Warning
		m.warn(r.Run, r.Warning)
	}
	if remarks := c.task.remarks; remarks != nil && len(*remarks) > 0 {
		r.Detail = strings.TrimPrefix(strings.Join(append([]string{out.Detail}, *remarks...), "; "), "; ")
	}
	if t.Abandoned && r.Detail == "" {
		r.Detail = abandonedDetail
	}
	r.Facts = report(nil, facts)
	if len(c.task.Batch) > 1 {
		r.Merged = len(c.task.Batch)
	}
	return m.record(r)
}

// settle takes the marks of what was in the way from t.
func (m *transition) settle(c *claim, t *store.Task) {
	if t.Journal {
		store.DropJournal(m.tx, t.ID)
		t.Journal = false
	}
	if f := t.Failed; f != nil && f.Node == t.Node && f.Subject == c.task.Subject {
		t.Failed = nil
	}
}
