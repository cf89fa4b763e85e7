package workflow

import (
	"fmt"
	"iter"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A task is held if [store.Reason.Holds] is true for the reason that blocks the task. A held task
// moves from its queue to a lane, so that the tasks behind it continue. A lane opens when nothing
// blocks its tasks any more. The tasks of an open lane return to the tail of their queue, oldest
// first. While a lane has events or schedule ticks, newer events and schedule ticks that belong to
// the lane are held too.

// laneOf returns the lane in which t would be held.
func laneOf(n *graph.Node, t *store.Task) store.LaneKey {
	k := store.LaneKey{Queue: homeQueue(t), Module: t.Subject.Module, Hook: t.Subject.Hook, Kind: t.Node}
	if n.Batch {
		k.Kind = store.Reactions
	}
	return k
}

// countBatch records the number of tasks that the interrupted claim on t covers, instead of their
// last slot, because t leaves its slot.
func countBatch(tx *store.Tx, t *store.Task) error {
	c := t.Claim
	if c == nil || c.End <= t.Slot {
		return nil
	}
	c.Tasks = 0
	for other, err := range store.TasksFrom(tx, t.Queue, t.Slot) {
		if err != nil {
			return err
		}
		if other.Slot > c.End {
			break
		}
		c.Tasks++
	}
	c.End = 0
	return nil
}

// lanes puts held tasks into lanes, and returns them to their queues. A held task is in no queue.
// Each lane counts its tasks. The oldest task of a lane is the first to leave it.
type lanes struct {
	*txn
	history  *history
	queues   *queues
	unique   *unique
	backlogs *backlogs
}

// enterLane holds t, which is in no queue now, in lane k. If reason is not nil, enterLane shuts the
// lane for this reason.
func (l *lanes) enterLane(k store.LaneKey, t *store.Task, reason *store.Reason) error {
	lane, ok, err := store.LoadLane(l.tx, k)
	if err != nil {
		return err
	}
	if !ok {
		lane.Since = l.now
	}
	if reason != nil {
		lane.Open, lane.After, lane.Reason = false, 0, *reason
	}
	lane.Tasks++
	t.Pos, t.HomeQueue, t.Lane = store.Pos{Queue: k.Queue}, "", k.Kind
	l.unique.mark(t)
	if err := l.backlogs.follows(t); err != nil {
		return err
	}
	if err := l.queues.save(t); err != nil {
		return err
	}
	if err := store.SaveLane(l.tx, lane); err != nil {
		return err
	}
	if lane.Tasks%l.sizes.backlog == 0 {
		return l.backlogs.countBacklog(t)
	}
	return nil
}

// firstHeld returns the oldest task of lane k; nil if there is none.
func firstHeld(tx *store.Tx, k store.LaneKey) (*store.Task, error) {
	for t, err := range store.HeldTasks(tx, k) {
		return t, err
	}
	return nil, nil
}

// heldEqual returns the oldest task of lane k with the subject of t; nil if there is none. The lane
// of a global hook can have the Synchronizations of several bindings.
func heldEqual(tx *store.Tx, k store.LaneKey, t *store.Task) (*store.Task, error) {
	for held, err := range store.HeldTasks(tx, k) {
		if err != nil || held.Subject == t.Subject {
			return held, err
		}
	}
	return nil, nil
}

// joinHeld records that t joins old, an older equal task that is held. The caller must remove t or,
// if t is new, must not add it.
func (l *lanes) joinHeld(old, t *store.Task) error {
	if dropSkips(old, t) {
		if err := l.queues.save(old); err != nil {
			return err
		}
	}
	r := recordOf(t, store.Joined)
	r.Into = old.ID.String()
	l.history.count(t.Run, 0)
	l.history.join(t.Run, old.Run)
	return l.history.record(r)
}

// leaveLane subtracts t, which is removed, from the count of its lane.
func (l *lanes) leaveLane(t *store.Task) error {
	if !t.IsHeld() {
		return nil
	}
	lane, _, err := store.LoadLane(l.tx, t.LaneKey())
	if err != nil {
		return err
	}
	lane.Tasks--
	return store.SaveLane(l.tx, lane)
}

// touchAll touches all queues: those with tasks, and those of open lanes.
func (l *lanes) touchAll() error {
	if err := l.touchOpenLanes(); err != nil {
		return err
	}
	for queue, err := range store.AllQueues(l.tx) {
		if err != nil {
			return err
		}
		l.queues.touch(queue)
	}
	return nil
}

// touchOpenLanes touches the queues of open lanes, to which held tasks return.
func (l *lanes) touchOpenLanes() error {
	for lane, err := range store.AllLanes(l.tx) {
		if err != nil {
			return err
		}
		if lane.Open {
			l.queues.touch(lane.Queue)
		}
	}
	return nil
}

// A laneRow reads the tasks of a lane that return to their queue.
type laneRow struct {
	lane  store.Lane
	first *store.Task
	next  func() (*store.Task, error, bool)
	moved int
}

// drain moves the tasks of the open lanes of queue back to its tail, oldest first. When a lane opens, its queue can
// still have older tasks that belong to the lane. So drain ignores the lane until all tasks that were in the queue at
// that time have left the queue. drain moves as many tasks as the budget allows, and later transitions move the rest.
func (l *lanes) drain(queue string) error {
	rows, err := l.openRows(queue)
	if err != nil || len(rows) == 0 {
		return err
	}
	slot, err := store.TailSlot(l.tx, queue)
	if err != nil {
		return err
	}
	more := false
	for i := range rows {
		next, stop := iter.Pull2(store.HeldTasks(l.tx, rows[i].lane.LaneKey))
		defer stop()
		rows[i].next = next
		if err := rows[i].pull(); err != nil {
			return err
		}
	}
	for !more {
		oldest := oldestRow(rows)
		if oldest == nil {
			break
		}
		t := oldest.first
		if more = !l.fits(costOf(t)); more {
			break
		}
		l.tx.Delete(t.Key())
		t.Lane, t.Slot = "", slot
		slot++
		l.unique.mark(t)
		oldest.moved++
		if err := l.backlogs.follows(t); err != nil {
			return err
		}
		if err := l.queues.save(t); err != nil {
			return err
		}
		if err := oldest.pull(); err != nil {
			return err
		}
	}
	for _, r := range rows {
		r.lane.Tasks -= r.moved
		r.lane.After = 0 // the queue has no other tasks of the lane
		if err := store.SaveLane(l.tx, r.lane); err != nil {
			return err
		}
	}
	if more {
		l.claimHeadLater(queue)
	}
	return nil
}

// openRows returns the open lanes of queue that drain does not ignore.
func (l *lanes) openRows(queue string) (rows []*laneRow, err error) {
	for lane, err := range store.OpenLanes(l.tx, queue) {
		if err != nil {
			return nil, err
		}
		head, ok, err := l.queues.head(queue)
		if err != nil {
			return nil, err
		}
		if !ok || head.Slot > lane.After {
			rows = append(rows, &laneRow{lane: lane})
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return rows, l.queues.saveTop()
}

// pull reads the row's next task.
func (r *laneRow) pull() error {
	t, err, ok := r.next()
	if !ok {
		t = nil
	}
	r.first = t
	return err
}

func oldestRow(rows []*laneRow) (oldest *laneRow) {
	for _, r := range rows {
		if r.first != nil && (oldest == nil || r.first.ID.Before(oldest.first.ID)) {
			oldest = r
		}
	}
	return oldest
}

// laneFor returns the lane in which t, a new task, must be held because older tasks that must start
// before t are held. The result ok is false if no such tasks are held.
func (l *lanes) laneFor(t *store.Task) (k store.LaneKey, ok bool, err error) {
	b := l.graphs.named[t.Graph]
	if b == nil || b.nodes[graph.NodeID(t.Node)] == nil || !b.nodes[graph.NodeID(t.Node)].Batch {
		return k, false, nil
	}
	k = laneOf(b.nodes[graph.NodeID(t.Node)], t)
	_, ok, err = store.LoadLane(l.tx, k)
	return k, ok, err
}

// heldError returns an error that says why t is held, and what a person can do.
func heldError(tx *store.Tx, t *store.Task) error {
	reason, err := heldReason(tx, t)
	if err != nil {
		return err
	}
	if reason == nil {
		return fmt.Errorf("task %s: %w: nothing blocks it any more; it starts by itself after the older tasks of queue %s", t.ID, ErrHeld, t.Queue)
	}
	todo := "the task starts by itself when this reason is gone"
	switch {
	case reason.Is(store.AwaitsRelease):
		todo = "run addon-operator task release " + reason.By.String()
	case reason.Is(store.AwaitsResume):
		q, ok, err := store.Load[store.QuarantinedItem](tx, store.QuarantineKey(reason.By))
		if err != nil {
			return err
		}
		if ok {
			todo = "run addon-operator resume " + strings.Join(q.What(), " ")
		}
	}
	return fmt.Errorf("task %s: %w: %s; %s", t.ID, ErrHeld, reason.Detail, todo)
}
