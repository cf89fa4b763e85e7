package workflow

import (
	"bytes"
	"errors"
	"maps"
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

	// top is what stands at the head of its queue and is yet to be saved: mostly
	// it is claimed in the same move, and written once.
	top     *store.Task
	cleared int               // keys written to take waiting tasks away
	touched []string          // queues whose first task may have become another
	walks   map[uint64]int    // change in the number of each walk's tasks
	begun   []uint64          // walks that begin with it
	joined  map[uint64]uint64 // walks that another goes on for
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
// with that list's failure for its result.
func (e *Engine) update(fn func(*move) error) error {
	var failing map[listPlace]error
	for {
		err := e.db.Update(func(tx *store.Tx) error {
			m := newMove(e, tx)
			m.own, m.failing = true, failing
			if err := fn(m); err != nil {
				return err
			}
			return m.end()
		})
		failed := (*listError)(nil)
		if !errors.As(err, &failed) {
			return err
		}
		if failing == nil {
			failing = map[listPlace]error{}
		}
		failing[failed.list] = failed.err
	}
}

// save writes the header of t.
func (m *move) save(t *store.Task) error {
	if m.top == t {
		m.top = nil
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

// end gives the queues that were touched their next task and writes down what
// became of the walks.
func (m *move) end() error {
	if err := m.saveTop(); err != nil {
		return err
	}
	var claims []*claim
	for len(m.touched) > 0 {
		queue := m.touched[0]
		running, err := m.running(queue)
		if err != nil {
			return err
		}
		if running {
			m.seen(queue)
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

// heads calls fn for the tasks of each queue that may have been begun, until it
// fails: those at the front, and the first of those behind.
func (m *move) heads(fn func(*store.Task) error) error {
	for queue, err := range store.AllQueues(m.tx) {
		if err != nil {
			return err
		}
		for t, err := range store.Tasks(m.tx, queue) {
			if err != nil {
				return err
			}
			if err := fn(t); err != nil {
				return err
			}
			if t.Place >= store.FirstPlace {
				break
			}
		}
	}
	return nil
}

// each calls fn for the tasks of queue, or with "" for those of all queues, in
// order, until it fails. The holder is the task whose attempt that runs, or
// whose journal that goes on, covers t; it may be t itself. It is nil for a
// task that can be taken away.
func (m *move) each(queue string, fn func(t, holder *store.Task) error) error {
	tasks := store.AllTasks(m.tx)
	if queue != "" {
		tasks = store.Tasks(m.tx, queue)
	}
	var holder *store.Task
	for t, err := range tasks {
		if err != nil {
			return err
		}
		if m.claimed(t) || t.Journal {
			holder = t
		}
		if holder != nil && !covers(holder, t) {
			holder = nil
		}
		if err := fn(t, holder); err != nil {
			return err
		}
	}
	return nil
}

// covers reports whether t stands on the places that the claim on holder covers.
func covers(holder, t *store.Task) bool {
	last := holder.Place
	if holder.Claim != nil {
		last = max(last, holder.Claim.End)
	}
	return t.Queue == holder.Queue && holder.Place <= t.Place && t.Place <= last
}

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

// join has walk point to the one that goes on in its stead, should it end.
func (m *move) join(walk, into uint64) {
	if walk == into {
		return
	}
	if m.joined == nil {
		m.joined = map[uint64]uint64{}
	}
	m.joined[walk] = into
}

// beginWalk makes a new walk for w's trigger.
func (m *move) beginWalk(w store.Walk) (uint64, error) {
	id, err := store.NextWalk(m.tx)
	if err != nil {
		return 0, err
	}
	w.ID, w.Began = id, m.now
	m.begun = append(m.begun, id)
	m.count(id, 0)
	// It is written at once, so that the next one gets another number.
	return id, store.Save(m.tx, store.WalkKey(id), w)
}

// saveWalks writes the walks whose number of tasks has changed. A step may have
// raised events in the same transaction, so what is written there counts.
func (m *move) saveWalks() error {
	for _, id := range slices.Sorted(maps.Keys(m.walks)) {
		begun := slices.Contains(m.begun, id)
		if m.walks[id] == 0 && !begun {
			continue
		}
		w, ok, err := store.Load[store.Walk](m.tx, store.WalkKey(id))
		if err != nil {
			return err
		}
		if !ok {
			w.ID = id // its tasks outlived its record, which is no reason to stop
		}
		if w.Open += m.walks[id]; w.Open == 0 {
			w.Ended, w.Joined = m.now, m.joined[id]
		}
		if err := store.Save(m.tx, store.WalkKey(id), w); err != nil {
			return err
		}
		m.announce(w, begun)
	}
	return nil
}

func (m *move) announce(w store.Walk, begun bool) {
	if f := m.e.observer.Raised; f != nil && begun {
		m.tx.OnCommit(func() { f(w) })
	}
	if f := m.e.observer.Ended; f != nil && w.Open == 0 {
		m.tx.OnCommit(func() { f(w) })
	}
}
