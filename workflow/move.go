package workflow

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"addon-operator/store"
)

// A move is one transaction of the engine: what it has changed that must be
// seen to before it ends.
type move struct {
	e     *Engine
	tx    *store.Tx
	epoch uint64
	now   time.Time

	// own is set unless the move is part of another's transaction. That could not
	// be tried again, so it leaves lists to a move of the engine's own.
	own     bool
	failing map[listPlace]error // lists whose step failed when the move was tried before
	stuck   map[string]error    // queues in which no task could be claimed when it was tried before

	// top is what stands at the head of its queue and is yet to be saved: mostly
	// it is claimed in the same move, and written once.
	top      *store.Task
	loaded   int               // bytes counted for batches, which are not under way if it fails
	optional bool              // work was done that a later transition could have done
	changed  []string          // modules whose held tasks may start now; no name is the global hooks
	touched  []string          // queues whose first task may have become another
	walks    map[uint64]int    // change in the number of each walk's tasks
	begun    []uint64          // walks that begin with it
	joined   map[uint64]uint64 // walks that another goes on for
}

func newMove(e *Engine, tx *store.Tx) *move {
	return &move{e: e, tx: tx, epoch: tx.Epoch(), now: tx.Now()}
}

// A listPlace names a list at the head of its queue. Tasks that a move makes
// have another ID each time it is tried.
type listPlace struct {
	queue, graph, node string
	subject            store.Subject
}

func placeOf(t *store.Task) listPlace { return listPlace{t.Queue, t.Graph, t.Node, t.Subject} }

// A listError is an error of a step that makes or ends a list. What the step
// had written until then must not be kept.
type listError struct {
	list listPlace
	err  error
}

func (l *listError) Error() string { return l.err.Error() }
func (l *listError) Unwrap() error { return l.err }

// update runs fn as one move and lets loose the workers it gave tasks to. When
// a list cannot be made or ended on the way, all is taken back and done anew
// with that list's failure for its result. A record that cannot be read is set
// aside first, and all is done anew without it. A queue in which no task can be
// claimed keeps the move from nothing else.
func (e *Engine) update(fn func(*move) error) error {
	var failing map[listPlace]error
	var stuck map[string]error
	for {
		var m *move
		err := e.db.Update(func(tx *store.Tx) error {
			m = newMove(e, tx)
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
		if failed := (*listError)(nil); errors.As(err, &failed) {
			if failing == nil {
				failing = map[listPlace]error{}
			}
			failing[failed.list] = failed.err
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
func (m *move) save(t *store.Task) error {
	if m.top == t {
		m.top = nil
	}
	if t.Later() {
		return store.SaveLater(m.tx, t)
	}
	return store.SaveTask(m.tx, t)
}

// saveTop writes what is yet to be saved.
func (m *move) saveTop() error {
	if m.top == nil {
		return nil
	}
	return m.save(m.top)
}

// head returns the first task of queue, and whether there is one.
func (m *move) head(queue string) (t *store.Task, ok bool, err error) {
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

// touch has queue looked at before the move ends.
func (m *move) touch(queue string) {
	if !slices.Contains(m.touched, queue) {
		m.touched = append(m.touched, queue)
	}
}

// seen takes back a touch of queue.
func (m *move) seen(queue string) {
	m.touched = slices.DeleteFunc(m.touched, func(q string) bool { return q == queue })
}

// end gives the touched queues their next task, as many as the budget allows,
// and writes the runs that changed. The other queues get theirs in transitions
// of their own.
func (m *move) end() error {
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
	if err := m.saveWalks(); err != nil {
		return err
	}
	for _, c := range claims {
		m.tx.OnCommit(func() { m.e.run(func() { m.e.work(c) }) })
	}
	return nil
}

// running reports whether a task of queue is being done.
func (m *move) running(queue string) (bool, error) {
	for t, err := range m.heads(queue) {
		if err != nil || m.claimed(t) {
			return err == nil, err
		}
	}
	return false, nil
}

// claimed reports whether t is being done by this life.
func (m *move) claimed(t *store.Task) bool { return t.Claim != nil && t.Claim.Epoch == m.epoch }
