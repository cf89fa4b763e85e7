package workflow

import (
	"fmt"
	"iter"
	"slices"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A task that something keeps from starting is held: it leaves its queue, so that
// the tasks behind it go on, and waits in a lane. A lane opens when nothing keeps
// its tasks from starting any more. They go back to the tail of their queue then,
// oldest first, and while any of them is left, newer tasks of the lane are held
// behind them.

// laneOf returns the lane in which t would be held.
func laneOf(n *graph.Node, t *store.Task) store.LaneKey {
	k := store.LaneKey{Queue: homeQueue(t), Module: t.Subject.Module, Hook: t.Subject.Hook, Kind: t.Node}
	if n.Batch {
		k.Kind = store.Reactions
	}
	return k
}

// hold takes t, at the head of its queue, out of it. A nil reason is that of the
// older tasks that are held. Of a run that is under way its first node is held.
func (m *transition) hold(b *bound, n *graph.Node, t *store.Task, reason *store.Reason) error {
	if err := m.saveTop(); err != nil {
		return err
	}
	k := laneOf(n, t)
	if !n.Batch {
		run := b.first(n) != n.ID || t.FanOut != nil
		if run && (!t.Detached || t.Subject.Module != "") {
			return m.holdRun(b, n, t, *reason)
		}
		old, err := m.firstHeld(k)
		if err != nil {
			return err
		}
		if old != nil {
			if err := m.joinHeld(old, t); err != nil {
				return err
			}
			return m.leave(t, nil)
		}
		t.Past = ""
	}
	if err := m.countBatch(t); err != nil {
		return err
	}
	of := t.Parent
	t.Parent = nil
	m.tx.Delete(t.Key())
	m.touch(t.Queue)
	if err := m.endExclusive(t); err != nil {
		return err
	}
	if err := m.enterLane(k, t, reason); err != nil {
		return err
	}
	return m.countDown(of, nil)
}

// countBatch makes the interrupted claim on t say how many tasks it covers: t
// leaves the slots it names.
func (m *transition) countBatch(t *store.Task) error {
	c := t.Claim
	if c == nil || c.End <= t.Slot {
		return nil
	}
	c.Tasks = 0
	for other, err := range store.TasksFrom(m.tx, t.Queue, t.Slot) {
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

// enterLane writes t, which is in no queue now, as held in lane k.
func (m *transition) enterLane(k store.LaneKey, t *store.Task, reason *store.Reason) error {
	lane, ok, err := store.LoadLane(m.tx, k)
	if err != nil {
		return err
	}
	if !ok {
		lane.Since = m.now
	}
	if reason != nil {
		lane.Open, lane.After, lane.Reason = false, 0, *reason
	}
	lane.Tasks++
	t.Pos, t.HomeQueue, t.Lane = store.Pos{Queue: k.Queue}, "", k.Kind
	if t.Waits {
		m.tx.Put(uniqueKey(t), t.Key())
	}
	if err := m.follows(t); err != nil {
		return err
	}
	if err := m.save(t); err != nil {
		return err
	}
	if err := store.SaveLane(m.tx, lane); err != nil {
		return err
	}
	if lane.Tasks%mostEvents == 0 {
		return m.countBacklog(t)
	}
	return nil
}

// holdRun takes away the rest of the run that t is part of, and holds a task at its
// first node in its stead; where one is held already, that does for both. Items of
// reloads are passed over: a reload follows when they are released.
func (m *transition) holdRun(b *bound, n *graph.Node, t *store.Task, reason store.Reason) error {
	first := b.nodes[b.first(n)]
	next := m.follow(b, graph.Edge{To: first.ID}, t.Run, t.Subject)
	q, _, err := store.Load[store.QuarantinedItem](m.tx, store.QuarantineKey(reason.By))
	if err != nil {
		return err
	}
	if !q.Holds(next.Graph, next.Node, next.Subject) {
		if err := m.owe(&q, first.ID, t, t.Subject); err != nil {
			return err
		}
		return m.leave(t, nil)
	}
	next.ID, next.Queue, next.Failed = t.ID, queueOf(next.Subject), t.Failed
	if err := m.noteInterruption(t); err != nil {
		return err
	}
	k := laneOf(first, next)
	old, err := m.firstHeld(k)
	if err != nil {
		return err
	}
	if old != nil {
		if err := m.joinHeld(old, next); err != nil {
			return err
		}
		return m.leave(t, nil)
	}
	if err := m.leave(t, nil); err != nil {
		return err
	}
	return m.holdNew(k, next, &reason)
}

// firstHeld returns the oldest task of lane k; nil if there is none.
func (m *transition) firstHeld(k store.LaneKey) (*store.Task, error) {
	for t, err := range store.HeldTasks(m.tx, k) {
		return t, err
	}
	return nil, nil
}

// owe notes that a run from node on follows the release of q, because the item of t
// about s was passed over.
func (m *transition) owe(q *store.QuarantinedItem, node graph.NodeID, t *store.Task, s store.Subject) error {
	r := recordOf(t, store.Quarantined)
	r.Subject, r.Into = s, q.ID.String()
	r.Detail = q.Reason().Detail + "; once it is released, a run from " + string(node) + " on follows"
	q.Rerun = string(node)
	if err := m.record(r); err != nil {
		return err
	}
	return store.Save(m.tx, store.QuarantineKey(q.ID), *q)
}

// holdNew puts t, which is new, into lane k.
func (m *transition) holdNew(k store.LaneKey, t *store.Task, reason *store.Reason) error {
	t.Pos, t.Lane = store.Pos{Queue: k.Queue}, k.Kind
	stays, err := m.enter(t)
	if err != nil || !stays {
		return err
	}
	return m.enterLane(k, t, reason)
}

// joinHeld has old, an equal task that waits or is held, do for t, which is new.
func (m *transition) joinHeld(old, t *store.Task) error {
	r := recordOf(t, store.Joined)
	r.Into = old.ID.String()
	m.count(t.Run, 0)
	m.join(t.Run, old.Run)
	return m.record(r)
}

// leaveLane counts t, which is taken away, no longer in its lane.
func (m *transition) leaveLane(t *store.Task) error {
	if !t.IsHeld() {
		return nil
	}
	lane, _, err := store.LoadLane(m.tx, t.LaneKey())
	if err != nil {
		return err
	}
	lane.Tasks--
	return store.SaveLane(m.tx, lane)
}

// reopen opens those of lanes whose tasks nothing keeps from starting any more.
func (m *transition) reopen(lanes func(*store.Tx) iter.Seq2[store.Lane, error]) error {
	for lane, err := range lanes(m.tx) {
		if err != nil {
			return err
		}
		if !m.fits(claimCost) {
			m.continueWith(laterAlarm, func(m *transition) error { return m.reopen(lanes) })
			return nil
		}
		if err := m.reopenLane(lane); err != nil {
			return err
		}
	}
	return nil
}

func (m *transition) reopenLane(lane store.Lane) error {
	t, err := m.firstHeld(lane.LaneKey)
	if err != nil {
		return err
	}
	reason, err := m.stillBlocked(t)
	if err != nil {
		return err
	}
	if reason != nil {
		if *reason == lane.Reason {
			return nil
		}
		lane.Reason = *reason
		return store.SaveLane(m.tx, lane)
	}
	if err := m.saveTop(); err != nil {
		return err
	}
	tail, err := store.TailSlot(m.tx, lane.Queue)
	if err != nil {
		return err
	}
	lane.Open, lane.After = true, tail-1
	m.touch(lane.Queue)
	return store.SaveLane(m.tx, lane)
}

// stillBlocked is blockedBy for a held task. One of a node that this version does
// not have is dropped at the head of its queue.
func (m *transition) stillBlocked(t *store.Task) (*store.Reason, error) {
	if t == nil {
		return nil, nil
	}
	b, n, err := m.e.boundTo(t)
	if err != nil {
		return nil, nil //nolint:nilerr // it goes back to its queue
	}
	return m.blockedBy(b, n, t)
}

// reopenChanged opens lanes of the modules that this transition has changed.
func (m *transition) reopenChanged() error {
	if len(m.changed) == 0 {
		return nil
	}
	changed := m.changed
	m.changed = nil
	for _, module := range changed {
		if err := m.reopen(func(tx *store.Tx) iter.Seq2[store.Lane, error] { return store.ShutLanesOf(tx, module) }); err != nil {
			return err
		}
	}
	return nil
}

// resumeHeld opens the lanes whose tasks nothing keeps from starting, and goes on
// with those that were opened before this process.
func (m *transition) resumeHeld() error {
	if err := m.touchOpenLanes(); err != nil {
		return err
	}
	return m.reopen(store.ShutLanes)
}

// touchOpenLanes has the queues looked at that held tasks go back to.
func (m *transition) touchOpenLanes() error {
	for lane, err := range store.AllLanes(m.tx) {
		if err != nil {
			return err
		}
		if lane.Open {
			m.touch(lane.Queue)
		}
	}
	return nil
}

// changes notes that the transition may have changed what the tasks of the module of s
// wait for; no module is the global hooks. Tasks about a configuration wait only for a
// release, see freeHeld.
func (m *transition) changes(s store.Subject) {
	if s.Configuration == "" {
		m.changesModule(s.Module)
	}
}

func (m *transition) changesModule(module string) {
	if !slices.Contains(m.changed, module) {
		m.changed = append(m.changed, module)
	}
}

// A laneRow is a lane on its way back to its queue.
type laneRow struct {
	lane  store.Lane
	first *store.Task
	next  func() (*store.Task, error, bool)
	moved int
}

// drain moves the tasks of queue's open lanes back to its tail, the oldest of all
// lanes first, as soon as the queue has passed the newer tasks of theirs that were
// in it. It moves as many as the budget allows; the rest follows in transitions of
// their own.
func (m *transition) drain(queue string) error {
	rows, err := m.openRows(queue)
	if err != nil || len(rows) == 0 {
		return err
	}
	place, err := store.TailSlot(m.tx, queue)
	if err != nil {
		return err
	}
	more := false
	for i := range rows {
		next, stop := iter.Pull2(store.HeldTasks(m.tx, rows[i].lane.LaneKey))
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
		if more = !m.fits(costOf(t)); more {
			break
		}
		m.tx.Delete(t.Key())
		t.Lane, t.Slot = "", place
		place++
		if t.Waits {
			m.tx.Put(uniqueKey(t), t.Key())
		}
		oldest.moved++
		if err := m.follows(t); err != nil {
			return err
		}
		if err := m.save(t); err != nil {
			return err
		}
		if err := oldest.pull(); err != nil {
			return err
		}
	}
	for _, r := range rows {
		r.lane.Tasks -= r.moved
		r.lane.After = 0 // none of the lane is in the queue but what was moved there
		if err := store.SaveLane(m.tx, r.lane); err != nil {
			return err
		}
	}
	if more {
		m.lookLater(queue)
	}
	return nil
}

// openRows returns queue's open lanes whose newer tasks the queue has passed.
func (m *transition) openRows(queue string) (rows []*laneRow, err error) {
	for lane, err := range store.OpenLanes(m.tx, queue) {
		if err != nil {
			return nil, err
		}
		head, ok, err := m.head(queue)
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
	return rows, m.saveTop()
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

// laneFor returns the lane into which t, which is new, goes at once because older
// tasks are held that must start before it.
func (m *transition) laneFor(t *store.Task) (k store.LaneKey, ok bool, err error) {
	b := m.e.graphs[t.Graph]
	if b == nil || b.nodes[graph.NodeID(t.Node)] == nil || !b.nodes[graph.NodeID(t.Node)].Batch {
		return k, false, nil
	}
	k = laneOf(b.nodes[graph.NodeID(t.Node)], t)
	_, ok, err = store.LoadLane(m.tx, k)
	return k, ok, err
}

// heldError says that t is held, why, and what ends that.
func (m *transition) heldError(t *store.Task) error {
	lane, _, err := store.LoadLane(m.tx, t.LaneKey())
	if err != nil {
		return err
	}
	todo := "it starts by itself then"
	if r := lane.Reason; r.Kind == store.AwaitsRelease {
		todo = "run task release " + r.By.String()
	}
	return fmt.Errorf("task %s: %w: %s; %s", t.ID, ErrHeld, lane.Reason.Detail, todo)
}
