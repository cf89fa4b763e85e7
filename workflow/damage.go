package workflow

import (
	"errors"
	"fmt"
	"slices"

	"addon-operator/store"
)

// canMend reports whether the engine can go on without the record under k: it is
// one of its own.
func canMend(k store.Key) bool {
	return slices.Contains(engineTables, k.Table())
}

// engineTables are the tables whose records the engine alone writes.
var engineTables = []store.Table{
	store.Queues, store.Later, store.Held, store.Payloads, store.Journal, store.Notes, store.Unique, store.Backlogs, store.Events,
	store.Buckets, store.Lanes, store.Quarantine, store.Runs, store.Interruptions,
}

// mend sets an unreadable record aside, in a transaction of its own, and corrects
// what counted it. A scan that finds more of them sets these aside as well.
func (e *Engine) mend(damaged *store.RecordError) error {
	return e.db.Update(func(tx *store.Tx) error {
		m := newTransition(e, tx)
		found, err := m.setAside(damaged)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("set the record aside: %w", damaged)
		}
		if err := m.recount(); err != nil {
			return err
		}
		if damaged.Key.Table() == store.Quarantine {
			if err := m.reopen(store.ShutLanes); err != nil {
				return err
			}
		}
		for _, queue := range m.touched {
			m.lookLater(queue)
		}
		return m.saveRuns()
	})
}

// setAside moves an unreadable record to the table of damaged records. A piece
// that is missing is not there to be moved: then the task it is of is changed so
// that it does not need the piece. It reports whether anything was changed.
func (m *transition) setAside(damaged *store.RecordError) (found bool, err error) {
	d, ok, err := store.SetAside(m.tx, m.newID(), damaged.Key, damaged.Err)
	if err != nil {
		return false, err
	}
	if ok {
		if f := m.e.observer.SetAside; f != nil {
			m.tx.OnCommit(func() { f(d) })
		}
	}
	if p, err := store.ParsePos(damaged.Key); err == nil {
		m.touch(p.Queue)
	}
	piece, is := store.ParsePiece(damaged.Key)
	if !is {
		return ok, nil
	}
	owner, err := m.byID(piece.Task)
	if err != nil || owner == nil {
		return ok, err
	}
	return true, m.withoutPiece(owner, piece, damaged)
}

// withoutPiece changes t so that it does not need the piece: the effects of a lost
// journal are worked out anew, a lost item is passed over, and a task without its
// payload is dropped.
func (m *transition) withoutPiece(t *store.Task, piece store.PieceOf, damaged *store.RecordError) error {
	r := recordOf(t, store.Dropped)
	r.Error = damaged.Error()
	m.touch(t.Queue)
	switch {
	case damaged.Key.Table() == store.Notes:
		return nil
	case damaged.Key.Table() == store.Journal:
		store.DropJournal(m.tx, t.ID)
		t.Journal = false
		return m.save(t)
	case !piece.IsItem:
		if err := m.record(r); err != nil {
			return err
		}
		return m.leave(t, nil)
	case t.FanOut == nil || piece.Item < t.FanOut.Next:
		return nil
	}
	r.Detail = fmt.Sprintf("item %d of %d is lost", piece.Item+1, t.FanOut.Len)
	t.FanOut.Next = store.DropItem(m.tx, t.ID, t.FanOut.Next, piece.Item)
	if err := m.record(r); err != nil {
		return err
	}
	return m.save(t)
}

// eachTask calls fn for the headers of all tasks. Those that cannot be read are
// set aside.
func (m *transition) eachTask(fn func(*store.Task) error) error {
	for _, tasks := range []func(*store.Tx) taskSeq{allQueued, allLater, allHeld} {
		for t, err := range tasks(m.tx) {
			if damaged := (*store.RecordError)(nil); errors.As(err, &damaged) {
				if _, err := m.setAside(damaged); err != nil {
					return err
				}
				continue
			}
			if err == nil {
				err = fn(t)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// taskSeq yields headers of tasks.
type taskSeq func(yield func(*store.Task, error) bool)

func allQueued(tx *store.Tx) taskSeq { return taskSeq(store.AllTasks(tx)) }
func allLater(tx *store.Tx) taskSeq  { return taskSeq(store.LaterTasks(tx)) }
func allHeld(tx *store.Tx) taskSeq   { return taskSeq(store.AllHeldTasks(tx)) }

// byID returns the task id; nil if there is none.
func (m *transition) byID(id store.ID) (found *store.Task, err error) {
	err = m.eachTask(func(t *store.Task) error {
		if t.ID == id {
			found = t
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return found, err
}

// recount makes the numbers that depend on all tasks agree with the tasks there
// are: of runs, of fan-out tasks, of lanes and of backlogs. Marks of tasks that
// are gone are deleted.
func (m *transition) recount() error {
	c := census{
		runs: map[uint64]int{}, items: map[store.ID]int{}, lanes: map[store.LaneKey]int{}, backlogs: map[string]int{},
		keys: map[string]store.ID{},
	}
	var fans []*store.Task
	if err := m.eachTask(func(t *store.Task) error {
		c.runs[t.Run]++
		c.keys[string(t.Key())] = t.ID
		if t.Parent != nil {
			c.items[t.Parent.ID]++
		}
		if t.IsHeld() {
			c.lanes[t.LaneKey()]++
		}
		if m.isEvent(t) {
			c.backlogs[string(store.BacklogKey(t, nil))]++
		}
		if t.FanOut != nil {
			fans = append(fans, t)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, t := range fans {
		if n := c.items[t.ID]; t.FanOut.Open != n {
			t.FanOut.Open = n
			m.touch(t.Queue)
			if err := m.save(t); err != nil {
				return err
			}
		}
	}
	if err := m.recountRuns(c); err != nil {
		return err
	}
	if err := m.recountLanes(c); err != nil {
		return err
	}
	if err := m.recountMarks(c); err != nil {
		return err
	}
	if err := m.recountBacklogs(c); err != nil {
		return err
	}
	return store.ReindexEvents(m.tx)
}

// A census is what there is of all tasks.
type census struct {
	runs     map[uint64]int        // tasks of each run
	items    map[store.ID]int      // tasks that name each fan-out task
	lanes    map[store.LaneKey]int // tasks held in each lane
	backlogs map[string]int        // events of each binding, by the key of their number
	keys     map[string]store.ID   // of the headers
}

func (m *transition) recountRuns(c census) error {
	m.runs = nil // the tasks that this transition removed are not in the census
	for k := range m.tx.Range(store.At(store.Runs)) {
		w, _, err := store.Load[store.Run](m.tx, k)
		if damaged := (*store.RecordError)(nil); errors.As(err, &damaged) {
			if _, err := m.setAside(damaged); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if n := c.runs[w.ID]; n != w.Open {
			m.count(w.ID, n-w.Open)
		}
		delete(c.runs, w.ID)
	}
	for id, n := range c.runs {
		m.count(id, n) // its record is made anew
	}
	return nil
}

func (m *transition) recountLanes(c census) error {
	for k := range m.tx.Range(store.At(store.Lanes)) {
		if _, _, err := store.Load[store.Lane](m.tx, k); err != nil {
			m.tx.Delete(k)
		}
	}
	for lane, err := range store.AllLanes(m.tx) {
		if err != nil {
			return err
		}
		if n := c.lanes[lane.LaneKey]; n != lane.Tasks {
			lane.Tasks = n
			if err := store.SaveLane(m.tx, lane); err != nil {
				return err
			}
		}
		delete(c.lanes, lane.LaneKey)
	}
	for k, n := range c.lanes {
		m.touch(k.Queue)
		if err := store.SaveLane(m.tx, store.Lane{LaneKey: k, Open: true, Tasks: n, Since: m.now}); err != nil {
			return err
		}
	}
	return nil
}

// recountMarks deletes the marks of waiting tasks that are gone.
func (m *transition) recountMarks(c census) error {
	for k, v := range m.tx.Range(store.At(store.Unique)) {
		parts, err := k.Parts()
		if err != nil {
			return err
		}
		if _, ok := c.keys[string(v)]; !ok && parts.Str() != "" {
			m.tx.Delete(k)
		}
	}
	return nil
}

// recountBacklogs corrects how many events wait for a binding, and deletes what
// leads to an event that is gone.
func (m *transition) recountBacklogs(c census) error {
	for k := range m.tx.Range(store.At(store.Backlogs)) {
		if n, ok := c.backlogs[string(k)]; ok {
			if err := store.Save(m.tx, k, n); err != nil {
				return err
			}
			continue
		}
		at, _, err := store.Load[store.NewestEvent](m.tx, k)
		if id, ok := c.keys[string(at.Key)]; err != nil || !ok || id != at.ID {
			m.tx.Delete(k)
		}
	}
	return nil
}
