package workflow

import (
	"errors"
	"fmt"
	"slices"

	"addon-operator/store"
)

// repairable returns the unreadable record that caused err. repairable returns nil if err has
// another cause, or if the engine cannot continue without the record. The engine can continue
// without a record in one of the engineTables, and without a record that the operator can replace.
// It can also continue without the record of a module, because the next discovery treats this
// module as a new module.
func repairable(err error) *store.RecordError {
	damaged := (*store.RecordError)(nil)
	if !errors.As(err, &damaged) {
		return nil
	}
	table := damaged.Key.Table()
	if !slices.Contains(engineTables, table) && !store.IsReplaceable(damaged.Key) && table != store.Modules {
		return nil
	}
	return damaged
}

// engineTables are the tables with the engine's records about tasks, runs and hooks, and the table
// of the steps' notes. If a record of these tables is lost, repair corrects the remaining records.
var engineTables = []store.Table{
	store.Queues, store.Deferred, store.Held, store.Payloads, store.Journal, store.Notes, store.Unique, store.Backlogs, store.Events,
	store.Buckets, store.Lanes, store.Quarantine, store.Runs, store.Interruptions,
}

// repair corrects the records of the engine after one of them could not be read. After the repair,
// the marks of waiting tasks, the records of newest events and the index of events lead to existing
// tasks. Each count matches the existing tasks. No record of a lost task is left, but a task can
// still name a lost task as its parent.
type repair struct {
	*txn
	history  *history
	queues   *queues
	parents  *parents
	backlogs *backlogs
	remover  *remover
	limits   *limits
}

// moveDamaged moves an unreadable record to the table of damaged records. If the record is a piece
// of a task, such as its payload, moveDamaged also changes the task so that it does not need the
// piece. A missing piece cannot be moved, but its task is changed too. The result found is false if
// there was nothing to move or change.
func (rp *repair) moveDamaged(damaged *store.RecordError) (found bool, err error) {
	d, ok, err := store.MoveDamaged(rp.tx, rp.newID(), damaged.Key, damaged.Err)
	if err != nil {
		return false, err
	}
	if ok {
		if f := rp.observer.Damaged; f != nil {
			rp.tx.OnCommit(func() { f(d) })
		}
	}
	if p, err := store.ParsePos(damaged.Key); err == nil {
		rp.queues.touch(p.Queue)
	}
	piece, is := store.ParsePiece(damaged.Key)
	if !is {
		return ok, nil
	}
	owner, err := rp.byID(piece.Task)
	if err != nil || owner == nil {
		return ok, err
	}
	return true, rp.withoutPiece(owner, piece, damaged)
}

// withoutPiece changes t so that it does not need the piece. If the journal is lost, the step runs
// again. A lost item is skipped, even if its effects have begun. If the payload is lost, the task
// is dropped.
func (rp *repair) withoutPiece(t *store.Task, piece store.PieceOf, damaged *store.RecordError) error {
	r := recordOf(t, store.Dropped)
	r.Error = damaged.Error()
	rp.queues.touch(t.Queue)
	switch {
	case damaged.Key.Table() == store.Notes:
		return nil
	case damaged.Key.Table() == store.Journal:
		store.DropJournal(rp.tx, t.ID)
		t.Journal = false
		return rp.queues.save(t)
	case !piece.IsItem:
		if err := rp.history.record(r); err != nil {
			return err
		}
		return rp.remover.removeLast(t, nil)
	case t.FanOut == nil || piece.Item < t.FanOut.Next:
		return nil
	}
	if t.Journal && piece.Item == t.FanOut.Next { // the journal belongs to the lost item, and not to the next one
		store.DropJournal(rp.tx, t.ID)
		t.Journal = false
	}
	r.Detail = fmt.Sprintf("item %d of %d is lost", piece.Item+1, t.FanOut.Len)
	t.FanOut.Next = store.DropItem(rp.tx, t.ID, t.FanOut.Next, piece.Item)
	if err := rp.history.record(r); err != nil {
		return err
	}
	return rp.queues.save(t)
}

// eachTask calls fn for the headers of all tasks. eachTask moves unreadable headers to the table of
// damaged records.
func (rp *repair) eachTask(fn func(*store.Task) error) error {
	for _, tasks := range []func(*store.Tx) taskSeq{allQueued, allDeferred, allHeld} {
		for t, err := range tasks(rp.tx) {
			if damaged := (*store.RecordError)(nil); errors.As(err, &damaged) {
				if _, err := rp.moveDamaged(damaged); err != nil {
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

func allQueued(tx *store.Tx) taskSeq   { return taskSeq(store.AllTasks(tx)) }
func allDeferred(tx *store.Tx) taskSeq { return taskSeq(store.DeferredTasks(tx)) }
func allHeld(tx *store.Tx) taskSeq     { return taskSeq(store.AllHeldTasks(tx)) }

// byID returns the header of the task with the given id; nil if there is none.
func (rp *repair) byID(id store.ID) (found *store.Task, err error) {
	err = rp.eachTask(func(t *store.Task) error {
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

// recount counts all tasks, and corrects the stored numbers of tasks: those of runs, fan-out tasks,
// lanes and backlogs, and the numbers of lagging tasks. If a task does not exist any more, recount
// deletes its mark, its pieces, and the record that names it as the newest event of an object.
// recount also corrects the index of events.
func (rp *repair) recount() error {
	c := census{
		runs: map[uint64]int{}, items: map[store.ID]int{}, lagging: map[store.ID]int{}, lanes: map[store.LaneKey]int{}, backlogs: map[string]int{},
		keys: map[string]store.ID{},
	}
	if err := rp.eachTask(func(t *store.Task) error { rp.countTask(&c, t); return nil }); err != nil {
		return err
	}
	for _, correct := range []func(census) error{
		rp.recountItems, rp.recountRuns, rp.recountLanes, rp.recountMarks, rp.recountBacklogs, rp.recountDeferrals, rp.recountLagging, rp.dropPieces,
	} {
		if err := correct(c); err != nil {
			return err
		}
	}
	return store.ReindexEvents(rp.tx)
}

// A census counts all tasks.
type census struct {
	runs     map[uint64]int        // number of tasks of each run
	items    map[store.ID]int      // number of pending items in other queues, by their fan-out task
	lagging  map[store.ID]int      // number of lagging tasks, by the last task of a run, which waits for them
	lanes    map[store.LaneKey]int // number of tasks held in each lane
	backlogs map[string]int        // number of events of each binding; the map key is the key under which the store has this number
	keys     map[string]store.ID   // ids of the tasks, by the keys of their headers

	fans, last, limited []*store.Task // fan-out tasks, tasks that wait for lagging tasks, and tasks that rate limits have deferred
}

// countTask adds t to c.
func (rp *repair) countTask(c *census, t *store.Task) {
	c.runs[t.Run]++
	c.keys[string(t.Key())] = t.ID
	if t.Parent != nil && t.Parent.Lags {
		c.lagging[t.Parent.ID]++
	} else if t.Parent != nil {
		c.items[t.Parent.ID]++
	}
	if t.IsHeld() {
		c.lanes[t.LaneKey()]++
	}
	if rp.backlogs.isEvent(t) {
		c.backlogs[string(store.BacklogKey(t, nil))]++
	}
	if t.FanOut != nil {
		c.fans = append(c.fans, t)
	}
	if t.Lagging > 0 {
		c.last = append(c.last, t)
	}
	if t.IsOutOfQueue() && !t.IsHeld() && t.Every > 0 {
		c.limited = append(c.limited, t)
	}
}

// recountItems corrects the numbers of pending items of the fan-out tasks.
func (rp *repair) recountItems(c census) error {
	for _, t := range c.fans {
		if n := c.items[t.ID]; t.FanOut.Open != n {
			t.FanOut.Open = n
			rp.queues.touch(t.Queue)
			if err := rp.queues.save(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// recountLagging corrects the field Lagging of the tasks that wait for lagging tasks. Lagging is the number of these
// lagging tasks. Each waiting task is the last task of its run. The caller must call recountMarks first, because
// recountLagging can move the waiting tasks and their marks.
func (rp *repair) recountLagging(c census) error {
	for _, t := range c.last {
		if n := c.lagging[t.ID]; t.Lagging != n {
			if err := rp.parents.setLagging(t, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func (rp *repair) recountRuns(c census) error {
	rp.history.forgetCounts() // because the census excludes the tasks that this transition has removed
	for k := range rp.tx.Range(store.At(store.Runs)) {
		run, _, err := store.Load[store.Run](rp.tx, k)
		if damaged := (*store.RecordError)(nil); errors.As(err, &damaged) {
			if _, err := rp.moveDamaged(damaged); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if n := c.runs[run.ID]; n != run.Open {
			rp.history.count(run.ID, n-run.Open)
		}
		delete(c.runs, run.ID)
	}
	for id, n := range c.runs {
		rp.history.count(id, n) // so that saveRuns creates the record of the run again
	}
	return nil
}

func (rp *repair) recountLanes(c census) error {
	for k := range rp.tx.Range(store.At(store.Lanes)) {
		if _, _, err := store.Load[store.Lane](rp.tx, k); err != nil {
			rp.tx.Delete(k)
		}
	}
	for lane, err := range store.AllLanes(rp.tx) {
		if err != nil {
			return err
		}
		if n := c.lanes[lane.LaneKey]; n != lane.Tasks {
			lane.Tasks = n
			if err := store.SaveLane(rp.tx, lane); err != nil {
				return err
			}
		}
		delete(c.lanes, lane.LaneKey)
	}
	for k, n := range c.lanes {
		rp.queues.touch(k.Queue)
		tail, err := store.TailSlot(rp.tx, k.Queue)
		if err != nil {
			return err
		}
		// The held tasks must return before newer tasks of their hook that are in the queue already.
		if err := store.SaveLane(rp.tx, store.Lane{LaneKey: k, Open: true, After: tail - 1, Tasks: n, Since: rp.now}); err != nil {
			return err
		}
	}
	return nil
}

// recountMarks deletes the marks of waiting tasks that no longer exist.
func (rp *repair) recountMarks(c census) error {
	for k, v := range rp.tx.Range(store.At(store.Unique)) {
		parts, err := k.Parts()
		if err != nil {
			return err
		}
		if _, ok := c.keys[string(v)]; !ok && parts.Str() != "" {
			rp.tx.Delete(k)
		}
	}
	return nil
}

// dropPieces deletes the payloads, items, journals and notes of tasks that no longer exist.
func (rp *repair) dropPieces(c census) error {
	exists := map[store.ID]bool{}
	for _, id := range c.keys {
		exists[id] = true
	}
	for _, table := range []store.Table{store.Payloads, store.Journal, store.Notes} {
		for k := range rp.tx.Range(store.At(table)) {
			if piece, ok := store.ParsePiece(k); ok && !exists[piece.Task] {
				rp.tx.Delete(k)
			}
		}
	}
	return nil
}

// recountDeferrals creates the deferrals of deferred tasks again if the buckets of their hooks are lost. Without a
// deferral, newer tasks of the hook would start before its deferred tasks.
func (rp *repair) recountDeferrals(c census) error {
	for _, t := range c.limited { // in the order of their due times
		_, bucket, err := bucketOf(rp.tx, t.Subject)
		if repairable(err) != nil {
			continue // a later repair moves this bucket, and creates its deferrals again
		}
		if err != nil {
			return err
		}
		if _, ok := bucket.Deferrals[t.Queue]; ok {
			continue
		}
		if err := rp.limits.saveDeferral(t, store.Deferral{Due: t.Due, Every: t.Every}); err != nil {
			return err
		}
	}
	return nil
}

// recountBacklogs corrects the numbers of pending events of bindings, and deletes references to
// events that no longer exist. A lost number is written again if a newest event of the binding is recorded.
func (rp *repair) recountBacklogs(c census) error {
	for k := range rp.tx.Range(store.At(store.Backlogs)) {
		if n, ok := c.backlogs[string(k)]; ok {
			if err := store.Save(rp.tx, k, n); err != nil {
				return err
			}
			continue
		}
		at, _, err := store.Load[store.NewestEvent](rp.tx, k)
		if id, ok := c.keys[string(at.Key)]; err != nil || !ok || id != at.ID {
			rp.tx.Delete(k)
			continue
		}
		newest, _, err := store.LoadAt(rp.tx, at.Key)
		if err != nil {
			return err
		}
		// Without the number, later events would not update the record of the newest event.
		number := store.BacklogKey(newest, nil)
		if err := store.Save(rp.tx, number, c.backlogs[string(number)]); err != nil {
			return err
		}
	}
	return nil
}
