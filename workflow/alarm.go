package workflow

import (
	"errors"
	"time"

	"addon-operator/store"
)

// arm has fn done as a move when due has come, in place of what the alarm of
// that name was set for: who sets it anew has looked at what there is.
func (e *Engine) arm(name string, now, due time.Time, fn func(*move) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open {
		return
	}
	if old := e.alarms[name]; old != nil {
		old.Stop()
	}
	e.alarms[name] = time.AfterFunc(due.Sub(now), func() {
		e.run(func() { e.attempt(name, fn) })
	})
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
		e.arm(name, now, now.Add(firstDelay), fn)
	}
}
