package workflow

import (
	"errors"
	"slices"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A preparation is work that must be complete before any task of the main queue or of a parallel queue is claimed. If
// the work does not fit in one transaction, the record of the preparation exists until the work is complete.
type preparation struct {
	// Start is set for the preparation of a start run, which does the work of interrupted runs
	// itself.
	Start bool `json:"start"`
}

// preparations does the work of a preparation, and writes its record. When the record is deleted,
// no interrupted run of a module is past its first node, except a run at an Uninterruptible node.
type preparations struct {
	*txn
	history  *history
	queues   *queues
	backlogs *backlogs
	parents  *parents
	lanes    *lanes
	remover  *remover
	arrivals *arrivals
	rewinds  *rewinds
}

// prepare moves interrupted runs of modules back to their first nodes, as restartRuns describes. For
// a start run, prepare also abandons Synchronizations that have begun their effects, moves waiting
// runs of modules out of retry queues and parallel queues, and moves tasks with a journal to the
// front of the main queue. Work that exceeds the budget is done in later transactions.
func (ps *preparations) prepare(p preparation) error {
	pending, err := loadPreparation(ps.tx)
	if err != nil {
		return err
	}
	if pending != nil {
		p.Start = p.Start || pending.Start
	}
	work := []func() error{ps.restartRuns}
	if p.Start {
		work = append(work, ps.abandonSynchronizations, ps.leaveRetryQueues, ps.finishFirst)
	}
	for _, fn := range work {
		err := fn()
		if errors.Is(err, errEnough) {
			ps.later(followUp{work: continuePreparation, queue: Main})
			return store.Save(ps.tx, store.PreparationKey(), p)
		}
		if err != nil {
			return err
		}
	}
	if pending == nil {
		return nil
	}
	ps.tx.Delete(store.PreparationKey())
	return ps.lanes.touchAll()
}

// loadPreparation returns the incomplete preparation; nil if there is none. If the record of a
// preparation cannot be read, all work of the preparation is repeated, which is harmless.
func loadPreparation(tx *store.Tx) (*preparation, error) {
	p, ok, err := store.Load[preparation](tx, store.PreparationKey())
	if damaged := (*store.RecordError)(nil); errors.As(err, &damaged) {
		return &preparation{Start: true}, nil
	}
	if err != nil || !ok {
		return nil, err
	}
	return &p, nil
}

// continuePreparation continues an incomplete preparation, possibly of an earlier process.
func (ps *preparations) continuePreparation() error {
	p, err := loadPreparation(ps.tx)
	if err != nil || p == nil {
		return err
	}
	return ps.prepare(*p)
}

// waitsForPreparation reports whether the tasks of queue wait for a preparation.
func waitsForPreparation(tx *store.Tx, queue string) bool {
	return (queue == Main || strings.HasPrefix(queue, parallelPrefix)) && tx.Get(store.PreparationKey()) != nil
}

// restartRuns moves the runs of modules back to their first nodes. Runs with a running task, and
// runs at an Uninterruptible node, stay. A moved run joins an equal pending run, if there is one.
// restartRuns returns errEnough if the budget is spent.
func (ps *preparations) restartRuns() error {
	return eachHead(ps.tx, func(t *store.Task) error {
		b, first := ps.runStart(t)
		if first == "" {
			return nil
		}
		if !ps.fits(costOf(t)) {
			return errEnough
		}
		return ps.restartRun(b, first, t)
	})
}

// runStart returns the first node of the module's run or deletion that t belongs to. A deletion starts over at step 6,
// which checks again whether the module must be deleted. runStart returns an empty node if t is at the first node
// already, is not part of such a run, is abandoned, is running, or must not be interrupted.
func (ps *preparations) runStart(t *store.Task) (*bound, graph.NodeID) {
	b, n, err := ps.graphs.boundTo(t)
	if err != nil || n.Uninterruptible || t.OwnQueue || t.Abandoned || claimed(ps.tx, t) || homeQueue(t) != Main {
		return nil, "" // a task of an unknown node is removed when it reaches the head of its queue
	}
	first := b.nodes[b.first(n)]
	if first.ID == n.ID || first.Scope != graph.ScopeModule {
		return nil, ""
	}
	return b, first.ID
}

// restartRun replaces t, at the top of its slot, by a task at node. If t has a journal, its effects
// are executed first, and their result is ignored.
func (ps *preparations) restartRun(b *bound, node graph.NodeID, t *store.Task) error {
	dropped, err := ps.rewinds.cancelItems(t)
	if err != nil {
		return err
	}
	if t.FanOut != nil {
		t.FanOut.Open -= dropped
	}
	next := ps.backTo(b, node, t)
	if t.Journal {
		next.ID, t.Abandoned = ps.newID(), true
		if err := ps.parents.lift(t); err != nil {
			return err
		}
		return ps.arrivals.enqueue(next)
	}
	r := recordOf(t, store.Superseded)
	r.Detail = "interrupted; its run starts over at " + string(node)
	if err := noteInterruption(ps.tx, t); err != nil {
		return err
	}
	if err := ps.history.record(r); err != nil {
		return err
	}
	if err := ps.remover.remove(t); err != nil {
		return err
	}
	return ps.arrivals.enqueue(next)
}

// abandonSynchronizations abandons the items that no fan-out task waits for, if they do not run but have begun their
// effects. An equal item of the start run then runs after these effects. cancelItems does the same for items of
// unfinished fan-out tasks. abandonSynchronizations returns errEnough if the budget is spent.
func (ps *preparations) abandonSynchronizations() error {
	return eachHead(ps.tx, func(t *store.Task) error {
		if !t.OwnQueue || !t.Journal || t.Abandoned || t.Parent != nil || claimed(ps.tx, t) {
			return nil
		}
		if !ps.fits(costOf(t)) {
			return errEnough
		}
		t.Abandoned = true
		return ps.queues.save(t)
	})
}

// leaveRetryQueues moves the waiting runs of modules from their retry queues, and from the parallel queues in which
// they wait behind another run, to the tail of the main queue. It leaves the items of fan-out tasks where they are. The
// start run reaches these modules itself, and no other run may reach them before the start run. leaveRetryQueues
// returns errEnough if the budget is spent.
func (ps *preparations) leaveRetryQueues() error {
	for queue, err := range store.QueuesFrom(ps.tx, parallelPrefix) {
		if err != nil {
			return err
		}
		if !strings.HasPrefix(queue, parallelPrefix) {
			continue
		}
		for t, err := range store.Tasks(ps.tx, queue) {
			if err == nil {
				err = ps.leaveRetryQueue(t)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// leaveRetryQueue moves t, a task in a parallel queue, to the tail of the main queue if t is a waiting run of a module
// and no fan-out task waits for t.
func (ps *preparations) leaveRetryQueue(t *store.Task) error {
	_, n, err := ps.graphs.boundTo(t)
	if err != nil || t.Parent != nil && !t.Parent.Lags || !n.RetryQueue || !t.Waits {
		return nil //nolint:nilerr // a task of an unknown node is removed when it reaches the head of its queue
	}
	if !ps.fits(costOf(t)) {
		return errEnough
	}
	slot, err := store.TailSlot(ps.tx, Main)
	if err != nil {
		return err
	}
	ps.queues.touch(Main)
	return ps.parents.relocate(t, store.Pos{Queue: Main, Slot: slot}, "")
}

// finishFirst moves the tasks of the main queue that have a journal to its front, because their remaining effects must
// not undo effects of the start run. finishFirst returns errEnough if the budget is spent.
func (ps *preparations) finishFirst() error {
	var begun []*store.Task
	var last *store.Task // the last task with a journal
	front := true        // whether all tasks before t have a journal, or are in the batch of such a task
	for t, err := range heads(ps.tx, Main) {
		switch {
		case err != nil:
			return err
		case last != nil && last.Slot < t.Slot && covers(last, t): // t is in the batch of last
		case !t.Journal:
			front = false
		default:
			if last = t; !front {
				begun = append(begun, t)
			}
		}
	}
	for _, t := range slices.Backward(begun) {
		if err := ps.moveToFront(t); err != nil {
			return err
		}
	}
	return nil
}

// moveToFront moves t, which has a journal, and the other tasks of its batch to the front of the main queue. The tasks
// below t in its slot stay behind. moveToFront returns errEnough if the budget is spent.
func (ps *preparations) moveToFront(t *store.Task) error {
	batch, total := []*store.Task{t}, costOf(t)
	for other, err := range store.TasksFrom(ps.tx, Main, t.Slot+1) {
		if err != nil {
			return err
		}
		if !covers(t, other) {
			break
		}
		batch, total = append(batch, other), total.plus(costOf(other))
	}
	if !ps.fits(total) { // all tasks move in one transaction, because the claim of t names its batch by the last slot
		return errEnough
	}
	last, err := store.FrontSlot(ps.tx, Main)
	if err != nil {
		return err
	}
	if t.Claim != nil && t.Claim.End != 0 {
		t.Claim.End = last
	}
	for i, other := range slices.Backward(batch) {
		slot := last - uint64(len(batch)-1-i) //nolint:gosec // a batch is small
		if err := ps.parents.relocate(other, store.Pos{Queue: Main, Slot: slot}, ""); err != nil {
			return err
		}
		if err := ps.backlogs.follows(other); err != nil {
			return err
		}
	}
	return nil
}
