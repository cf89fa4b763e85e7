package workflow

import (
	"errors"
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

// eachLater calls fn for the tasks that are due later, the next first, until it
// fails.
func (m *move) eachLater(fn func(k store.Key, t *store.Task) error) error {
	for k := range m.tx.Range(store.At(store.Later)) {
		later, _, err := store.Load[laterTask](m.tx, k)
		if err != nil {
			return err
		}
		later.Task.Queue = later.Queue
		if err := fn(k, &later.Task); err != nil {
			return err
		}
	}
	return nil
}

// armLater sets the alarm for the first task that is due later.
func (m *move) armLater() error {
	err := m.eachLater(func(_ store.Key, t *store.Task) error {
		due := m.due(t.Due)
		m.tx.OnCommit(func() { m.e.arm(laterAlarm, m.now, due, (*move).bringDue) })
		return errEnough
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// bringDue puts the tasks whose time has come at the tails of their queues.
func (m *move) bringDue() error {
	most := mostStarts
	err := m.eachLater(func(k store.Key, t *store.Task) error {
		if most--; most < 0 || m.now.Before(m.due(t.Due)) {
			return errEnough
		}
		return m.bringIn(k, t)
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	return m.armLater()
}

// bringIn puts t, which stands under k, at the tail of its queue.
func (m *move) bringIn(k store.Key, t *store.Task) error {
	m.tx.Delete(k)
	m.count(t.Walk, -1)
	t.Due = time.Time{}
	return m.tail(t, t.Queue)
}

// dropLater takes t, which stands under k, away.
func (m *move) dropLater(k store.Key, t *store.Task, r store.Record) error {
	m.tx.Delete(k)
	m.count(t.Walk, -1)
	return m.record(r)
}

// clearLater takes away what is due later and is among what t clears.
func (m *move) clearLater(t *store.Task) error {
	return m.eachLater(func(k store.Key, other *store.Task) error {
		if !clears(t, other) {
			return nil
		}
		return m.dropLater(k, other, recordOf(other, store.Dropped))
	})
}
