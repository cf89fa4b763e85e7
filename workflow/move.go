package workflow

import (
	"errors"
	"slices"
	"time"

	"addon-operator/store"
)

// A move is one transaction of the engine: what it has changed that must be
// seen to before it ends.
type move struct {
	e       *Engine
	tx      *store.Tx
	epoch   uint64
	now     time.Time
	touched []string       // queues whose first task may have become another
	settled []string       // queues that were looked at
	walks   map[uint64]int // change in the number of each walk's tasks
	begun   map[uint64]*store.Walk
	joined  map[uint64]uint64 // walks that another goes on for
}

func newMove(e *Engine, tx *store.Tx) *move {
	return &move{e: e, tx: tx, epoch: tx.Epoch(), now: tx.Now()}
}

// touch has queue looked at before the move ends.
func (m *move) touch(queue string) {
	if !slices.Contains(m.touched, queue) {
		m.touched = append(m.touched, queue)
	}
}

// end gives the queues that were touched their next task and writes down what
// became of the walks.
func (m *move) end() error {
	for i := 0; i < len(m.touched); i++ {
		queue := m.touched[i]
		if slices.Contains(m.settled, queue) {
			continue
		}
		running, err := m.running(queue)
		if err != nil {
			return err
		}
		if running {
			continue
		}
		c, err := m.advance(queue)
		if err != nil {
			return err
		}
		if c != nil {
			m.tx.OnCommit(func() { m.e.begin(c) })
		}
	}
	return m.saveWalks()
}

// running reports whether a task of queue is being done. Only a task on top of
// its place can be, and behind the front places only the first.
func (m *move) running(queue string) (bool, error) {
	place, first := uint64(0), true
	for t, err := range store.Tasks(m.tx, queue) {
		if err != nil {
			return false, err
		}
		if !first && t.Place == place {
			continue
		}
		if m.claimed(t) {
			return true, nil
		}
		if t.Place >= store.FirstPlace {
			return false, nil
		}
		place, first = t.Place, false
	}
	return false, nil
}

// claimed reports whether t is being done by this life.
func (m *move) claimed(t *store.Task) bool { return t.Claim != nil && t.Claim.Epoch == m.epoch }

// record adds r to history.
func (m *move) record(r store.Record) error {
	r.Ended = m.now
	if err := store.AddRecord(m.tx, r); err != nil {
		return err
	}
	if f := m.e.observer.Recorded; f != nil {
		m.tx.OnCommit(func() { f(r) })
	}
	return nil
}

// recordOf returns a record of t with state.
func recordOf(t *store.Task, state store.State) store.Record {
	r := store.Record{
		Walk: t.Walk, Task: t.ID, Node: t.Node, Subject: t.Subject, Queue: t.Queue, Queued: t.Queued, State: state,
	}
	if t.Claim != nil {
		r.Began, r.Again = t.Claim.Since, t.Claim.Again
	}
	return r
}

// count changes the number of tasks of walk by n.
func (m *move) count(walk uint64, n int) {
	if m.walks == nil {
		m.walks = map[uint64]int{}
	}
	m.walks[walk] += n
}

// join has walk point to the one that goes on in its stead.
func (m *move) join(walk, into uint64) {
	if walk == into {
		return
	}
	if m.joined == nil {
		m.joined = map[uint64]uint64{}
	}
	m.joined[walk] = into
}

// begin makes a new walk for w's trigger.
func (m *move) beginWalk(w store.Walk) (uint64, error) {
	id, err := store.NextWalk(m.tx)
	if err != nil {
		return 0, err
	}
	w.ID, w.Began = id, m.now
	if m.begun == nil {
		m.begun = map[uint64]*store.Walk{}
	}
	m.begun[id] = &w
	m.count(id, 0)
	// It is written at once, so that the next one gets another number.
	return id, store.Save(m.tx, store.WalkKey(id), w)
}

// saveWalks writes the walks whose number of tasks has changed.
func (m *move) saveWalks() error {
	var errs []error
	for id, n := range m.walks {
		if n == 0 && m.begun[id] == nil {
			continue
		}
		w, err := m.walk(id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		w.Open += n
		if w.Open == 0 {
			w.Ended, w.Joined = m.now, m.joined[id]
		}
		errs = append(errs, store.Save(m.tx, store.WalkKey(id), *w))
		m.announce(*w, m.begun[id] != nil)
	}
	return errors.Join(errs...)
}

func (m *move) walk(id uint64) (*store.Walk, error) {
	if w := m.begun[id]; w != nil {
		return w, nil
	}
	w, _, err := store.Load[store.Walk](m.tx, store.WalkKey(id))
	return &w, err
}

func (m *move) announce(w store.Walk, begun bool) {
	if f := m.e.observer.Raised; f != nil && begun {
		m.tx.OnCommit(func() { f(w) })
	}
	if f := m.e.observer.Ended; f != nil && w.Open == 0 {
		m.tx.OnCommit(func() { f(w) })
	}
}
