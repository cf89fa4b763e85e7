package workflow

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A failure is why an attempt failed.
type failure struct {
	err     error
	subject store.Subject // whom it is about
	// resume is set where the attempt goes on from its journal.
	resume bool
}

// applyError marks an error of a step's Apply, after which the move is undone.
type applyError struct{ err error }

func (a *applyError) Error() string { return a.err.Error() }
func (a *applyError) Unwrap() error { return a.err }

// turn does the task of c and moves on. It returns the claim on what follows.
// Where ctx ended the attempt, nothing is written: the claim in the store says
// that the task was interrupted.
func (e *Engine) turn(ctx context.Context, c *claim) (next *claim, err error) {
	if e.observer.Began != nil {
		e.observer.Began(c.task)
	}
	out, failed := e.do(ctx, c)
	if failed != nil && ctx.Err() != nil {
		return nil, nil
	}
	if failed == nil {
		next, err = e.commit(ctx, func(m *move) (*claim, error) { return m.finish(c, out) })
		if applied := (*applyError)(nil); errors.As(err, &applied) {
			failed = &failure{err: applied.err, subject: c.task.Subject}
		}
	}
	if failed != nil {
		next, err = e.commit(ctx, func(m *move) (*claim, error) { return m.fail(c, *failed) })
	}
	return next, err
}

// commit runs fn as one move. On a full disk it waits for room.
func (e *Engine) commit(ctx context.Context, fn func(*move) (*claim, error)) (next *claim, err error) {
	for {
		err = e.update(func(m *move) (err error) {
			next, err = fn(m)
			return err
		})
		if !errors.Is(err, store.ErrFull) {
			return next, err
		}
		if e.observer.Broken != nil {
			e.observer.Broken("", err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(FirstDelay):
		}
	}
}

// do calls the step and has its effects done. A panic of the step is an error.
func (e *Engine) do(ctx context.Context, c *claim) (out Outcome, failed *failure) {
	defer func() {
		if r := recover(); r != nil {
			failed = &failure{err: fmt.Errorf("the step of node %s panicked: %v\n%s", c.node.ID, r, debug.Stack()), subject: c.task.Subject}
		}
	}()
	out, err := e.outcome(ctx, c)
	if err != nil {
		return out, &failure{err: err, subject: c.task.Subject}
	}
	effecter, _ := c.bound.Steps[c.node.ID].(Effecter)
	for i, effect := range out.Effects {
		if effecter == nil {
			return out, &failure{err: fmt.Errorf("node %s cannot do the effect %q", c.node.ID, effect.Kind), subject: c.task.Subject}
		}
		if err := effecter.Effect(ctx, c.task, effect); err != nil {
			refused := (*refusal)(nil)
			return out, &failure{
				err:     fmt.Errorf("effect %d of %d (%s): %w", i+1, len(out.Effects), effect.Kind, err),
				subject: c.task.Subject, resume: !errors.As(err, &refused),
			}
		}
	}
	return out, nil
}

// outcome returns what the journal holds, or what the step has to say now; one
// with effects is in the journal then.
func (e *Engine) outcome(ctx context.Context, c *claim) (Outcome, error) {
	if c.outcome != nil {
		return *c.outcome, nil
	}
	step := c.bound.Steps[c.node.ID]
	var out Outcome
	var err error
	if preparer, ok := step.(Preparer); ok && c.prepare {
		out, err = preparer.Prepare(ctx, c.task)
	} else {
		out, err = step.Do(ctx, c.task)
	}
	if err != nil || len(out.Effects) == 0 {
		return out, err
	}
	_, err = e.commit(ctx, func(m *move) (*claim, error) {
		t, err := m.reload(c)
		if err != nil {
			return nil, err
		}
		if t.Orphan {
			out.Effects = nil
			return nil, nil
		}
		t.Journal = true
		return nil, firstError(store.Save(m.tx, store.JournalKey(t.ID), out), store.SaveTask(m.tx, t))
	})
	return out, err
}

// reload returns the header of c's task as it is now: others may have changed
// what concerns them.
func (m *move) reload(c *claim) (*store.Task, error) {
	t, ok, err := store.LoadTask(m.tx, c.task.Pos)
	if err != nil {
		return nil, err
	}
	if !ok || t.ID != c.task.ID || !m.claimed(t) {
		return nil, fmt.Errorf("task %s at place %d of queue %s was taken away while it ran", c.task.ID, c.task.Place, c.task.Queue)
	}
	return t, nil
}

// finish ends c's task with out and claims what comes next.
func (m *move) finish(c *claim, out Outcome) (*claim, error) {
	t, err := m.reload(c)
	if err != nil {
		return nil, err
	}
	facts := out.Facts
	state := store.Done
	if t.Orphan {
		state, facts = store.Dropped, nil
	} else if applier, ok := c.bound.Steps[c.node.ID].(Applier); ok {
		more, err := applier.Apply(m.tx, c.task, out)
		if err != nil {
			return nil, &applyError{err}
		}
		facts = append(facts, more...)
	}
	if out.Allowed != "" {
		state = store.Allowed
	}
	if err := m.note(c, t, state, facts, out); err != nil {
		return nil, err
	}
	m.settle(c, t)
	if err := m.endRange(c, t); err != nil {
		return nil, err
	}
	switch {
	case c.prepare && !t.Orphan:
		t.Prepared, t.Claim = true, nil
		err = store.SaveTask(m.tx, t)
	case t.List != nil && !t.Orphan:
		err = m.memberDone(t, facts)
	default:
		err = m.complete(c.bound, c.node, t, facts, out.Lists)
	}
	if err == nil && c.node.Revives {
		err = m.revive()
	}
	if err != nil {
		return nil, err
	}
	return m.advance(t.Queue)
}

// note writes the attempt that ended into history.
func (m *move) note(c *claim, t *store.Task, state store.State, facts []graph.Fact, out Outcome) error {
	r := recordOf(t, state)
	r.Subject, r.Try, r.Detail, r.Error = c.task.Subject, c.task.Try, out.Detail, out.Allowed
	for _, f := range facts {
		r.Facts = append(r.Facts, string(f))
	}
	if len(c.task.Range) > 1 {
		r.Merged = len(c.task.Range)
	}
	return m.record(r)
}

// settle takes the marks of what was in the way from t.
func (m *move) settle(c *claim, t *store.Task) {
	if t.Journal {
		m.tx.Delete(store.JournalKey(t.ID))
		t.Journal = false
	}
	if f := t.Failed; f != nil && f.Node == t.Node && f.Subject == c.task.Subject {
		t.Failed = nil
	}
}

// endRange ends the tasks that c covers besides its own: they succeeded with
// it, and their walks go on as t's.
func (m *move) endRange(c *claim, t *store.Task) error {
	for _, other := range c.task.Range[1:] {
		m.join(other.Walk, t.Walk)
		if err := m.remove(other); err != nil {
			return err
		}
	}
	return nil
}

// fail ends an attempt that did not succeed. Where the binding allows that, it
// ends as if it had, with nothing to follow.
func (m *move) fail(c *claim, f failure) (*claim, error) {
	t, err := m.reload(c)
	if err != nil {
		return nil, err
	}
	if t.Orphan || !f.resume && c.lenient() {
		next, err := m.finish(c, Outcome{Allowed: f.err.Error()})
		if applied := (*applyError)(nil); !errors.As(err, &applied) {
			return next, err
		}
	}
	if t.Journal && !f.resume {
		m.tx.Delete(store.JournalKey(t.ID))
		t.Journal = false
	}
	if !f.resume && len(c.task.Range) > 1 {
		if t, err = m.keepStrict(c, t, f); err != nil {
			return nil, err
		}
	}
	if err := m.retryLater(c.bound, c.node, t, f); err != nil {
		return nil, err
	}
	return m.advance(t.Queue)
}

// lenient reports whether all that c covers may fail.
func (c *claim) lenient() bool {
	for _, t := range c.task.Range[1:] {
		if !t.Lenient {
			return false
		}
	}
	return c.task.Lenient
}

// keepStrict ends those of c's tasks that may fail and returns the first that
// stays, which takes over the count of failures.
func (m *move) keepStrict(c *claim, t *store.Task, f failure) (*store.Task, error) {
	var first *store.Task
	for i, other := range c.task.Range {
		if i == 0 {
			other = t
		}
		if !other.Lenient {
			if first == nil {
				first = other
			}
			continue
		}
		r := recordOf(other, store.Allowed)
		r.Error = f.err.Error()
		if err := firstError(m.record(r), m.remove(other)); err != nil {
			return nil, err
		}
	}
	if first != t {
		first.Failed, first.Claim = t.Failed, t.Claim
	}
	return first, nil
}

// retryLater has t, or the run it belongs to, tried again after a delay.
func (m *move) retryLater(b *bound, n *graph.Node, t *store.Task, f failure) error {
	count := 1
	if t.Failed != nil {
		count += t.Failed.Count
	}
	r := recordOf(t, store.Failed)
	r.Subject, r.Try, r.Error = f.subject, count, f.err.Error()
	if err := m.record(r); err != nil {
		return err
	}
	t.Failed = &store.Failure{Node: t.Node, Subject: f.subject, Count: count, Error: f.err.Error(), At: m.now}
	t.Due = m.now.Add(retryDelay(n, count))
	t.Claim = nil
	if n.Back == "" || f.resume || t.Solo {
		return store.SaveTask(m.tx, t)
	}
	back := m.follow(b, graph.Edge{To: n.Back}, t.Walk, t.Subject)
	back.Pos, back.Of, back.Past, back.Loop = t.Pos, t.Of, t.Past, t.Loop
	back.Failed, back.Due = t.Failed, t.Due
	return firstError(m.remove(t), m.put(back))
}
