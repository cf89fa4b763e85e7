package workflow

import (
	"errors"
	"time"

	"addon-operator/store"
)

// An alarm has something done when its time has come: a queue looked at whose
// head waits, or what is due later brought in.
type alarm struct {
	timer *time.Timer
	due   time.Time
}

// arm has fn done as a move when due has come. Of two alarms of one name the
// earlier stays: its fn looks again.
func (e *Engine) arm(name string, now, due time.Time, fn func(*move) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open {
		return
	}
	if old := e.alarms[name]; old != nil {
		if !due.Before(old.due) {
			return
		}
		old.timer.Stop()
	}
	a := &alarm{due: due}
	a.timer = time.AfterFunc(due.Sub(now), func() {
		e.forget(name, a)
		e.run(func() { e.attempt(name, fn) })
	})
	e.alarms[name] = a
}

// forget makes room for the next alarm of that name. It is not left to times
// to tell whether an alarm has gone off: the clock may have been set back.
func (e *Engine) forget(name string, a *alarm) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.alarms[name] == a {
		delete(e.alarms, name)
	}
}

// look has queue looked at by a move of its own.
func (e *Engine) look(queue string) {
	e.run(func() { e.attempt(queue, looking(queue)) })
}

// looking is the move that sees whether the first task of queue can be done now.
func looking(queue string) func(*move) error {
	return func(m *move) error {
		m.touch(queue)
		return nil
	}
}

// attempt does fn as a move that nobody waits for. While the disk is full it is
// tried again under the alarm of that name.
func (e *Engine) attempt(name string, fn func(*move) error) {
	var now time.Time
	err := e.update(func(m *move) error {
		now = m.now
		return fn(m)
	})
	if err == nil {
		return
	}
	e.broken(name, err)
	if errors.Is(err, store.ErrFull) {
		e.arm(name, now, now.Add(FirstDelay), fn)
	}
}
