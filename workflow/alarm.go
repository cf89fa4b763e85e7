package workflow

import (
	"errors"
	"time"

	"addon-operator/store"
)

// longestSleep is how long an alarm sleeps before it reads the clock again. A timer counts the time
// that passes; the clock can be set, or jump while a machine sleeps.
const longestSleep = time.Minute

// An alarm is a transition that is done at a time.
type alarm struct {
	timer *time.Timer
	due   time.Time
	left  time.Duration // until due, as the timer counts
}

// sleep returns how long to wait before the clock is read again.
func (a *alarm) sleep() time.Duration { return min(a.left, longestSleep) }

// arm has fn done as a transition when due has come, in place of what the alarm of
// that name was set for: who sets it anew has looked at what there is.
func (e *Engine) arm(name string, now, due time.Time, fn func(*transition) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open {
		return
	}
	if old := e.alarms[name]; old != nil {
		old.timer.Stop()
	}
	a := &alarm{due: due, left: due.Sub(now)}
	e.alarms[name] = a
	a.timer = time.AfterFunc(a.sleep(), func() {
		if e.rings(name, a) {
			e.run(func() { e.attempt(name, fn) })
		}
	})
}

// rings reports whether a is due by the clock, or has been waited for long enough although the clock
// was set back. Otherwise it sleeps on.
func (e *Engine) rings(name string, a *alarm) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open || e.alarms[name] != a {
		return false
	}
	if a.left -= a.sleep(); a.left <= 0 || !e.db.Now().Before(a.due) {
		return true
	}
	a.timer.Reset(a.sleep())
	return false
}

// look has queue looked at by a transition of its own.
func (e *Engine) look(queue string) {
	e.run(func() { e.attempt(queue, looking(queue)) })
}

// looking is the transition that sees whether the first task of queue can be done now.
func looking(queue string) func(*transition) error {
	return func(m *transition) error {
		m.touch(queue)
		return nil
	}
}

// attempt does fn as a transition that nobody waits for. While the disk is full it is
// tried again under the alarm of that name.
func (e *Engine) attempt(name string, fn func(*transition) error) {
	var now time.Time
	err := e.update(func(m *transition) error {
		now = m.now
		return fn(m)
	})
	if err == nil {
		return
	}
	e.broken(name, err)
	if errors.Is(err, store.ErrFull) {
		e.arm(name, now, now.Add(firstDelay), fn)
	}
}
