package workflow

import (
	"errors"
	"iter"
	"time"

	"addon-operator/store"
)

// freeLoops is the closing of a circle, counted in a row, from which on it is
// delayed.
const freeLoops = 3

// laterAlarm is the name under which the alarm for the table is kept; no queue
// has it.
const laterAlarm = ""

// enqueueLater keeps t, which is new and whose Queue is set, until due.
func (m *transition) enqueueLater(t *store.Task, due time.Time) error {
	t.Due = due
	m.count(t.Run, 1)
	if f := m.e.observer.Looped; f != nil && t.Loop != nil {
		m.tx.OnCommit(func() { f(*t) })
	}
	if err := m.save(t); err != nil {
		return err
	}
	return m.armLater()
}

// eachLater calls fn for the tasks that are due later, the next first, until it
// fails.
func (m *transition) eachLater(fn func(t *store.Task) error) error {
	for t, err := range store.LaterTasks(m.tx) {
		if err != nil {
			return err
		}
		if err := fn(t); err != nil {
			return err
		}
	}
	return nil
}

// eachOut calls fn for the tasks that are due later and then for those of held,
// until it fails.
func (m *transition) eachOut(held iter.Seq2[*store.Task, error], fn func(t *store.Task) error) error {
	if err := m.eachLater(fn); err != nil {
		return err
	}
	for t, err := range held {
		if err != nil {
			return err
		}
		if err := fn(t); err != nil {
			return err
		}
	}
	return nil
}

// armLater sets the alarm for the first task that is due later.
func (m *transition) armLater() error {
	err := m.eachLater(func(t *store.Task) error {
		due := m.due(t)
		m.tx.OnCommit(func() { m.e.arm(laterAlarm, m.now, due, (*transition).bringDue) })
		return errEnough
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// bringDue puts the tasks whose time has come at the tails of their queues.
func (m *transition) bringDue() error {
	err := m.eachLater(func(t *store.Task) error {
		if m.now.Before(m.due(t)) || !m.fits(costOf(t)) {
			return errEnough
		}
		return m.bringIn(t)
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	return m.armLater()
}

// RateLimitsChanged has what was put off looked at again, as the paces of hooks may be others
// now. It does not block.
func (e *Engine) RateLimitsChanged() {
	e.run(func() { e.attempt(laterAlarm, (*transition).recheckDeferred) })
}

// recheckDeferred brings in what was put off to keep a pace that is another now.
func (m *transition) recheckDeferred() error {
	err := m.eachLater(func(t *store.Task) error {
		if t.Every == 0 || m.now.Before(m.due(t)) {
			return nil
		}
		if !m.fits(costOf(t)) {
			m.continueWith(laterAlarm, (*transition).recheckDeferred)
			return errEnough
		}
		return m.bringIn(t)
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	return m.armLater()
}

// bringIn puts t, which is due later, at the tail of its queue.
func (m *transition) bringIn(t *store.Task) (err error) {
	m.tx.Delete(t.Key())
	begun := t.Every > 0 && !t.Waits // so it is not one with those that wait
	m.unwait(t)
	t.Due, t.Every = time.Time{}, 0
	if t.Slot, err = store.TailSlot(m.tx, t.Queue); err != nil {
		return err
	}
	if err := m.follows(t); err != nil {
		return err
	}
	if !begun {
		m.count(t.Run, -1)
		return m.enqueue(t)
	}
	m.touch(t.Queue)
	return m.save(t)
}

// cancelDeferred removes the tasks that t clears and that are due later or held, until
// the budget is spent.
func (m *transition) cancelDeferred(t *store.Task) error {
	return m.eachOut(store.HeldTasksOf(m.tx, t.Subject.Module), func(other *store.Task) error {
		switch {
		case !cancels(t, other):
			return nil
		case !m.fits(costOf(other)):
			return errEnough
		}
		return m.abandon(other)
	})
}
