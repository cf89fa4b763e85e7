package workflow

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"addon-operator/store"
)

// A transition is one transaction of the engine: what it has changed that must be
// seen to before it ends.
type transition struct {
	e     *Engine
	tx    *store.Tx
	epoch uint64
	now   time.Time

	// own is set unless the transition is part of another's transaction. That could not
	// be tried again, so it leaves lists to a transition of the engine's own.
	own     bool
	failing map[fanOutRef]error // lists whose step failed when the transition was tried before
	stuck   map[string]error    // queues in which no task could be claimed when it was tried before

	// top is what stands at the head of its queue and is yet to be saved: mostly
	// it is claimed in the same transition, and written once.
	top      *store.Task
	loaded   int               // bytes counted for batches, which are not under way if it fails
	optional bool              // work was done that a later transition could have done
	changed  []string          // modules whose held tasks may start now; no name is the global hooks
	touched  []string          // queues whose first task may have become another
	runs     map[uint64]int    // change in the number of each run's tasks
	begun    []uint64          // runs that begin with it
	joined   map[uint64]uint64 // runs that another goes on for
	warnings map[uint64]string // new warnings of runs
}

func newTransition(e *Engine, tx *store.Tx) *transition {
	return &transition{e: e, tx: tx, epoch: tx.Epoch(), now: tx.Now()}
}

// A fanOutRef names a list at the head of its queue. Tasks that a transition makes
// have another ID each time it is tried.
type fanOutRef struct {
	queue, graph, node string
	subject            store.Subject
}

func refOf(t *store.Task) fanOutRef { return fanOutRef{t.Queue, t.Graph, t.Node, t.Subject} }

// A fanOutError is an error of a step that makes or ends a list. What the step
// had written until then must not be kept.
type fanOutError struct {
	fanOut fanOutRef
	err    error
}

func (l *fanOutError) Error() string { return l.err.Error() }
func (l *fanOutError) Unwrap() error { return l.err }

// update runs fn as one transition and lets loose the workers it gave tasks to. When
// a list cannot be made or ended on the way, all is taken back and done anew
// with that list's failure for its result. A record that cannot be read is set
// aside first, and all is done anew without it. A queue in which no task can be
// claimed keeps the transition from nothing else.
func (e *Engine) update(fn func(*transition) error) error {
	var failing map[fanOutRef]error
	var stuck map[string]error
	for {
		var m *transition
		err := e.db.Update(func(tx *store.Tx) error {
			m = newTransition(e, tx)
			m.own, m.failing, m.stuck = true, failing, stuck
			if err := fn(m); err != nil {
				return err
			}
			return m.end()
		})
		if err != nil && m != nil {
			e.load(-m.loaded)
		}
		if damaged := (*store.RecordError)(nil); errors.As(err, &damaged) && canMend(damaged.Key) {
			if err := e.mend(damaged); err != nil {
				return err
			}
			continue
		}
		if failed := (*fanOutError)(nil); errors.As(err, &failed) {
			if failing == nil {
				failing = map[fanOutRef]error{}
			}
			failing[failed.fanOut] = failed.err
			continue
		}
		unclaimed := (*claimError)(nil)
		if !errors.As(err, &unclaimed) || e.db.Err() != nil || stuck[unclaimed.queue] != nil {
			return err
		}
		if stuck == nil {
			stuck = map[string]error{}
		}
		stuck[unclaimed.queue] = unclaimed.err
	}
}

// save writes the header of t.
func (m *transition) save(t *store.Task) error {
	if m.top == t {
		m.top = nil
	}
	if t.Later() {
		return store.SaveLater(m.tx, t)
	}
	return store.SaveTask(m.tx, t)
}

// saveTop writes what is yet to be saved.
func (m *transition) saveTop() error {
	if m.top == nil {
		return nil
	}
	return m.save(m.top)
}

// head returns the first task of queue, and whether there is one.
func (m *transition) head(queue string) (t *store.Task, ok bool, err error) {
	if m.top != nil && m.top.Queue == queue {
		key := m.top.Pos.Key()
		first := true
		for k := range m.tx.Range(store.QueueKey(queue)) {
			first = bytes.Compare(key, k) <= 0
			break
		}
		if first {
			return m.top, true, nil
		}
	}
	if err := m.saveTop(); err != nil {
		return nil, false, err
	}
	return store.Head(m.tx, queue)
}

// touch has queue looked at before the transition ends.
func (m *transition) touch(queue string) {
	if !slices.Contains(m.touched, queue) {
		m.touched = append(m.touched, queue)
	}
}

// seen takes back a touch of queue.
func (m *transition) seen(queue string) {
	m.touched = slices.DeleteFunc(m.touched, func(q string) bool { return q == queue })
}

// end gives the touched queues their next task, as many as the budget allows,
// and writes the runs that changed. The other queues get theirs in transitions
// of their own.
func (m *transition) end() error {
	if err := m.saveTop(); err != nil {
		return err
	}
	var claims []*claim
	for {
		if err := m.reopenChanged(); err != nil {
			return err
		}
		if len(m.touched) == 0 {
			break
		}
		queue := m.touched[0]
		running, err := m.running(queue)
		if err != nil {
			return err
		}
		if running {
			m.seen(queue)
			continue
		}
		if !m.fits(claimCost) {
			m.seen(queue)
			m.lookLater(queue)
			continue
		}
		c, err := m.advance(queue)
		if err != nil {
			return err
		}
		if c != nil {
			claims = append(claims, c)
		}
	}
	if err := m.saveRuns(); err != nil {
		return err
	}
	for _, c := range claims {
		m.tx.OnCommit(func() { m.e.run(func() { m.e.work(c) }) })
	}
	return nil
}

// running reports whether a task of queue is being done.
func (m *transition) running(queue string) (bool, error) {
	for t, err := range m.heads(queue) {
		if err != nil || m.claimed(t) {
			return err == nil, err
		}
	}
	return false, nil
}

// claimed reports whether t is being done by this life.
func (m *transition) claimed(t *store.Task) bool { return t.Claim != nil && t.Claim.Epoch == m.epoch }
