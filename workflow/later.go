package workflow

import (
	"time"

	"addon-operator/store"
)

// freeLoops is the closing of a circle, counted in a row, from which on it is
// delayed.
const freeLoops = 3

// laterAlarm is the name under which the alarm for the table is kept; no queue
// has it.
const laterAlarm = ""

// A laterTask is a task that is due later and stands in no queue, with the
// queue whose tail it goes to then.
type laterTask struct {
	Queue string `json:"queue"`
	store.Task
}

func laterKey(due time.Time, id store.ID) store.Key {
	return store.At(store.Later).Uint(uint64(due.UnixNano())).Uint(id.Epoch).Uint(id.N) //nolint:gosec // times of this century are positive
}

// putLater keeps t, whose Queue is set, until due.
func (m *move) putLater(t *store.Task, due time.Time) error {
	t.Due = due
	m.count(t.Walk, 1)
	if err := store.Save(m.tx, laterKey(due, t.ID), laterTask{Queue: t.Queue, Task: *t}); err != nil {
		return err
	}
	if f := m.e.observer.Looped; f != nil && t.Loop != nil {
		m.tx.OnCommit(func() { f(*t) })
	}
	return m.armLater()
}

// armLater sets the alarm for the first task that is due later.
func (m *move) armLater() error {
	for k := range m.tx.Range(store.At(store.Later)) {
		t, _, err := store.Load[laterTask](m.tx, k)
		if err != nil {
			return err
		}
		m.tx.OnCommit(func() { m.e.arm(laterAlarm, m.now, t.Due, m.e.bringIn) })
		return nil
	}
	return nil
}

// bringIn puts the tasks whose time has come at the tails of their queues.
func (e *Engine) bringIn() {
	err := e.update(func(m *move) error {
		for k := range m.tx.Range(store.At(store.Later)) {
			later, _, err := store.Load[laterTask](m.tx, k)
			if err != nil {
				return err
			}
			if m.now.Before(later.Due) && later.Due.Sub(m.now) <= LongestDelay {
				break
			}
			m.tx.Delete(k)
			t := later.Task
			t.Due = time.Time{}
			m.count(t.Walk, -1)
			if err := m.tail(&t, later.Queue); err != nil {
				return err
			}
		}
		return m.armLater()
	})
	if err != nil && e.observer.Broken != nil {
		e.observer.Broken(laterAlarm, err)
	}
}

// clearLater takes away what module has that is due later.
func (m *move) clearLater(module string) error {
	for k := range m.tx.Range(store.At(store.Later)) {
		later, _, err := store.Load[laterTask](m.tx, k)
		if err != nil {
			return err
		}
		if later.Subject.Module != module {
			continue
		}
		m.tx.Delete(k)
		m.count(later.Walk, -1)
		later.Task.Queue = later.Queue
		if err := m.record(recordOf(&later.Task, store.Dropped)); err != nil {
			return err
		}
	}
	return nil
}
