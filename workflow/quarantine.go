package workflow

import (
	"cmp"
	"errors"
	"fmt"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// quarantines puts items into quarantine, and ends their quarantine. An item in quarantine is in no queue. While an
// item is in quarantine, all other work of its module, configuration or global hook is held.
type quarantines struct {
	*txn
	history   *history
	queues    *queues
	unique    *unique
	parents   *parents
	lanes     *lanes
	exclusive *exclusive
	remover   *remover
	arrivals  *arrivals
	openings  *openings
}

// quarantine moves t into quarantine. If t is a fan-out task, only its current item, which is the parameter item, is in
// quarantine. From then on, all other work of the same module, configuration or global hook is held when it reaches the
// head of its queue. If the item has a module, the fan-out task is removed; otherwise it continues with its next item.
func (z *quarantines) quarantine(b *bound, t *store.Task, item graph.Item, crashes int) error {
	q := store.QuarantinedItem{
		ID: z.newID(), Graph: t.Graph, Node: t.Node, Subject: t.Subject, Queue: homeQueue(t), Run: t.Run, At: z.now, Crashes: crashes,
		AllowFailure: t.AllowFailure, Skips: t.Skips,
	}
	if t.FanOut != nil {
		q.Subject, q.AllowFailure = item.Subject, item.AllowFailure
	}
	var err error
	if q.Standalone, err = isStandalone(z.tx, t); err != nil {
		return err
	}
	if t.OwnQueue && !q.Standalone {
		q.FanOut = t.Parent.ID
	}
	r := recordOf(t, store.Quarantined)
	r.Subject, r.Into = q.Subject, q.ID.String()
	r.Detail = fmt.Sprintf("the process died %d times while this task ran, the last time while no other task ran", crashes)
	if err := z.history.record(r); err != nil {
		return err
	}
	if err := z.exclusive.endExclusive(t); err != nil {
		return err
	}
	if err := z.queues.saveTop(); err != nil {
		return err
	}
	if err := z.removeItem(b, t, &q); err != nil {
		return err
	}
	if f := z.observer.Quarantined; f != nil {
		z.tx.OnCommit(func() { f(q) })
	}
	return store.Save(z.tx, store.QuarantineKey(q.ID), q)
}

// removeItem removes the item of q from its queue. Events and schedule ticks are held, like the other tasks of their
// hook. If the item belongs to a fan-out task and has no module, the fan-out task only moves to its next item. Any
// other task is removed.
func (z *quarantines) removeItem(b *bound, t *store.Task, q *store.QuarantinedItem) error {
	n := b.nodes[graph.NodeID(t.Node)]
	switch {
	case n.Batch:
		return z.holdItem(n, t, q)
	case t.FanOut != nil && q.Subject.Module == "":
		z.parents.itemDone(t, nil)
		return z.queues.saveTop()
	default:
		return z.remover.removeLast(t, nil)
	}
}

// holdItem holds t and the tasks that its interrupted attempt covered.
func (z *quarantines) holdItem(n *graph.Node, t *store.Task, q *store.QuarantinedItem) error {
	last := max(t.Slot, t.Claim.End)
	if err := countBatch(z.tx, t); err != nil {
		return err
	}
	claim := *t.Claim
	claim.Excused, claim.Crashes, claim.Exclusive = true, 0, false
	reason := q.Reason()
	for other, err := range store.TasksFrom(z.tx, t.Queue, t.Slot) {
		if err != nil {
			return err
		}
		if other.Slot > last {
			break
		}
		if q.Last = other.ID; other.ID == t.ID {
			q.First, other.Claim = other.ID, &claim
		}
		if other.Journal {
			store.DropJournal(z.tx, other.ID)
			other.Journal = false
		}
		z.unique.unwait(other)
		z.tx.Delete(other.Key())
		if err := z.lanes.enterLane(laneOf(n, other), other, &reason); err != nil {
			return err
		}
	}
	z.queues.touch(t.Queue)
	return nil
}

// freeHeld allows the work that was held because of q to start, and starts a run for the work that
// was skipped because of q. The caller must have deleted the record of q.
func (z *quarantines) freeHeld(q *store.QuarantinedItem) error {
	z.openings.mayUnblockModule(q.Subject.Module)
	for i := range q.Released { // only older versions store such items
		if err := z.startOver(&q.Released[i]); err != nil {
			return err
		}
	}
	b := z.graphs.named[q.Graph]
	if q.Rerun == "" || b == nil || b.nodes[graph.NodeID(q.Rerun)] == nil {
		return nil
	}
	return z.rerun(b, q)
}

// rerun starts a run for the work that other runs have skipped because of q.
func (z *quarantines) rerun(b *bound, q *store.QuarantinedItem) error {
	skipped, _, err := store.Load[store.Run](z.tx, store.RunKey(cmp.Or(q.RerunOf, q.Run)))
	if err != nil {
		return err
	}
	run, err := z.history.beginRun(store.Run{Graph: q.Graph, Trigger: skipped.Trigger, Cause: skipped.Cause, Subject: skipped.Subject})
	if err != nil {
		return err
	}
	return z.arrivals.tailOfOwn(z.follow(b, graph.Edge{To: graph.NodeID(q.Rerun)}, run, q.Subject))
}

// removeQuarantined removes the item with this id from the quarantine and returns it.
func removeQuarantined(tx *store.Tx, id store.ID) (*store.QuarantinedItem, error) {
	q, ok, err := store.Load[store.QuarantinedItem](tx, store.QuarantineKey(id))
	if err != nil {
		return nil, err
	}
	if !ok || q.Paused != nil {
		return nil, fmt.Errorf("task %s: %w", id, ErrNoTask)
	}
	tx.Delete(store.QuarantineKey(id))
	return &q, nil
}

// addItemAction records the action a for q, an item in quarantine.
func addItemAction(tx *store.Tx, a store.Action, q *store.QuarantinedItem) error {
	a.What, a.Task, a.Run, a.Queue, a.Subject = q.ID.String(), q.ID, q.Run, q.Queue, q.Subject
	return store.AddAction(tx, a)
}

func skippedBy(by, reason string) string { return fmt.Sprintf("skipped by %s: %s", by, reason) }

// release ends the quarantine of the item with this id. Work that was held because of the item can
// start.
func (z *quarantines) release(id store.ID, by, reason string) error {
	q, err := removeQuarantined(z.tx, id)
	if err != nil {
		return err
	}
	if err := addItemAction(z.tx, store.Action{Verb: "task release", By: by, Reason: reason}, q); err != nil {
		return err
	}
	if err := z.startOver(q); err != nil {
		return err
	}
	return z.freeHeld(q)
}

// skip deletes the item in quarantine with this id, or the damaged record with this id. The run of
// the item, and work that was held because of the item, continue.
func (z *quarantines) skip(id store.ID, by, reason string) error {
	action := store.Action{Verb: "task skip", By: by, Reason: reason}
	if store.ForgetDamaged(z.tx, id) {
		action.What, action.Task = id.String(), id
		return store.AddAction(z.tx, action)
	}
	q, err := removeQuarantined(z.tx, id)
	if err != nil {
		return err
	}
	r := store.Record{
		Run: q.Run, Task: q.ID, Node: q.Node, Subject: q.Subject, Queue: q.Queue, State: store.Skipped, Detail: skippedBy(by, reason),
	}
	if err := errors.Join(z.history.record(r), addItemAction(z.tx, action, q)); err != nil {
		return err
	}
	if err := z.skipItem(q); err != nil {
		return err
	}
	if err := z.continueRun(q); err != nil {
		return err
	}
	return z.freeHeld(q)
}

// continueRun starts the run of the skipped item q over, as startOver does. The run passes over the item. If an equal
// run waits already, that run passes over the item instead, because it does the rest of the work too. If the run of q
// has continued without the item, or no run belongs to the item, continueRun does nothing.
func (z *quarantines) continueRun(q *store.QuarantinedItem) error {
	b := z.graphs.named[q.Graph]
	if b == nil || b.nodes[graph.NodeID(q.Node)] == nil {
		return nil // this version does not have the node
	}
	n := b.nodes[graph.NodeID(q.Node)]
	first := b.nodes[b.first(n)]
	switch {
	case n.Batch, q.Standalone, len(q.Tasks) > 0:
		return nil // no run belongs to the item
	case n.ForEach != "" && q.Subject.Module == "", first.Scope != n.Scope:
		return nil // the fan-out of the item, or of the edge that leads to n, has continued with its next item
	case first.ID == n.ID:
		return nil // the item is the first step, and without it the run has no other steps
	}
	fanOut, err := z.fanOutOf(q)
	if fanOut != nil || err != nil {
		return err
	}
	t := z.follow(b, graph.Edge{To: first.ID}, q.Run, q.Subject)
	t.Queue = queueOf(t.Subject)
	step := store.StepRef{Node: q.Node, Subject: q.Subject}
	old, waits, err := equalWaiting(z.tx, t)
	if err != nil {
		return err
	}
	if waits {
		addSkip(old, step)
		return z.queues.save(old)
	}
	t.Skips = q.Skips
	addSkip(t, step)
	return z.arrivals.tail(t, t.Queue)
}

// startOver adds a task at the first node of q's run to the tail of the main queue, or of the
// configuration's queue. If the item can run without its fan-out, the task processes only the item,
// in its queue. If the fan-out task that waited for the item still exists, it starts the item again
// instead. Held events and schedule ticks need no new task.
func (z *quarantines) startOver(q *store.QuarantinedItem) error {
	b := z.graphs.named[q.Graph]
	switch {
	case b == nil || b.nodes[graph.NodeID(q.Node)] == nil:
		return nil // this version does not have the node
	case len(q.Tasks) > 0:
		return z.putBack(q)
	case !q.First.IsZero():
		return nil
	}
	// Save the claim of the process that was the last to run the item. The next process put the item into quarantine.
	interrupted := store.Claim{Epoch: q.ID.Epoch - 1, Excused: true}
	if err := store.Save(z.tx, store.InterruptionKey(q.Graph, q.Node, q.Subject), interrupted); err != nil {
		return err
	}
	fanOut, err := z.fanOutOf(q)
	if err != nil {
		return err
	}
	if fanOut != nil {
		return z.parents.addItem(fanOut, graph.Item{Subject: q.Subject, Queue: q.Queue, Wait: true, AllowFailure: q.AllowFailure})
	}
	n := b.nodes[graph.NodeID(q.Node)]
	t := z.follow(b, graph.Edge{To: b.first(n)}, q.Run, q.Subject)
	t.Skips = q.Skips
	queue := queueOf(t.Subject)
	if q.Standalone || b.byItself(n, q.Subject) {
		t.Node, t.Subject, t.OwnQueue, queue = q.Node, q.Subject, true, q.Queue
		t.AllowFailure = q.AllowFailure
	}
	return z.arrivals.tail(t, queue)
}

// fanOutOf returns the fan-out task that waited for the item of q; nil if it does not exist any more. It still exists
// only if a running attempt or a retry delay has kept it from continuing: if a fan-out task continues while q holds its
// module, it is removed, and its run is held.
func (z *quarantines) fanOutOf(q *store.QuarantinedItem) (fanOut *store.Task, err error) {
	if q.FanOut.IsZero() {
		return nil, nil
	}
	err = eachHead(z.tx, func(t *store.Task) error {
		if t.ID == q.FanOut && t.FanOut != nil && t.Graph == q.Graph && t.Node == q.Node {
			fanOut = t
		}
		return nil
	})
	return fanOut, err
}

// putBack adds the tasks that an older version stored with q to the tail of their queue.
func (z *quarantines) putBack(q *store.QuarantinedItem) error {
	for i := range q.Tasks {
		t := &q.Tasks[i]
		t.ID, t.Waits, t.Parent = z.newID(), false, nil
		if err := z.arrivals.tail(t, q.Queue); err != nil {
			return err
		}
	}
	return nil
}

// skipItem notifies the step of q's item that the item is skipped. If the item consists of held
// events and schedule ticks, skipItem removes them.
func (z *quarantines) skipItem(q *store.QuarantinedItem) error {
	t := &store.Task{ID: q.ID, Graph: q.Graph, Node: q.Node, Subject: q.Subject, Run: q.Run, Pos: store.Pos{Queue: q.Queue}}
	if b, n, err := z.graphs.boundTo(t); err == nil { // the step of an unknown node cannot be notified
		if err := b.notifySkipped(z.tx, n, t); err != nil {
			return err
		}
	}
	if q.First.IsZero() {
		return nil
	}
	k := store.LaneKey{Queue: q.Queue, Module: q.Subject.Module, Hook: q.Subject.Hook, Kind: store.Reactions}
	for t, err := range store.HeldTasks(z.tx, k) {
		if err != nil {
			return err
		}
		if t.ID.Before(q.First) {
			continue
		}
		if q.Last.Before(t.ID) {
			break
		}
		if err := z.remover.removeLast(t, nil); err != nil {
			return err
		}
	}
	return nil
}
