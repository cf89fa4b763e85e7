package workflow

import (
	"slices"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// remover removes a task with all its records, and subtracts it from the counts of its run, lane
// and backlog.
type remover struct {
	*txn
	history   *history
	queues    *queues
	unique    *unique
	backlogs  *backlogs
	parents   *parents
	lanes     *lanes
	exclusive *exclusive
}

// drop removes the waiting task t, and adds a line with the given state to the history. The parameter into is the task
// that replaces t; nil if there is none.
func (rm *remover) drop(t *store.Task, state store.State, into *store.Task) error {
	r := recordOf(t, state)
	if into != nil {
		r.Into = into.ID.String()
		rm.history.join(t.Run, into.Run)
	}
	if err := rm.history.record(r); err != nil {
		return err
	}
	return rm.remove(t)
}

// remove removes t with all its data. remove does not update the parent of t, because another task
// takes the place of t.
func (rm *remover) remove(t *store.Task) error {
	rm.queues.clearTop(t)
	rm.unique.unwait(t)
	if t.CancelsPending {
		rm.tx.Delete(cancelKey(t))
	}
	store.DropTask(rm.tx, t)
	rm.history.count(t.Run, -1)
	rm.queues.touch(t.Queue)
	if err := rm.backlogs.leaveBacklog(t); err != nil {
		return err
	}
	if err := rm.lanes.leaveLane(t); err != nil {
		return err
	}
	return rm.exclusive.endExclusive(t)
}

// removeLast removes t, which has no successors, and reports the end and the facts of t to its
// parent.
func (rm *remover) removeLast(t *store.Task, facts []graph.Fact) error {
	if err := rm.remove(t); err != nil {
		return err
	}
	return rm.parents.countDown(t.Parent, facts)
}

// dropCanceled removes t, which is abandoned or was canceled before it ran.
func (rm *remover) dropCanceled(t *store.Task) error {
	state := store.Dropped
	if t.FanOut != nil && t.FanOut.Edge {
		state = store.Superseded // because only a rewind abandons the fan-out of an edge
	}
	r := recordOf(t, state)
	if state == store.Dropped {
		r.Detail = abandonedDetail
	}
	if err := rm.history.record(r); err != nil {
		return err
	}
	return rm.removeLast(t, nil)
}

// abandonedDetail says in history why an abandoned task is dropped.
const abandonedDetail = "its module is being deleted, or another run took the place of its run"

// dropUnknown removes a task at a node that this version does not have.
func (rm *remover) dropUnknown(t *store.Task, why error) error {
	r := recordOf(t, store.Dropped)
	r.Error = why.Error()
	if err := rm.history.record(r); err != nil {
		return err
	}
	return rm.removeLast(t, nil)
}

// withdraw removes the events of w, as [Task.Withdraw] describes.
func (rm *remover) withdraw(w Withdrawal) error {
	holders, err := holders(rm.tx, w.Queue)
	if err != nil {
		return err
	}
	for t, err := range store.EventsOf(rm.tx, w.Queue, w.Subject) {
		if err != nil {
			return err
		}
		covered := slices.ContainsFunc(holders, func(holder *store.Task) bool { return covers(holder, t) })
		if covered || t.Claim != nil || !w.Match(t) {
			continue
		}
		if !rm.fits(costOf(t)) {
			rm.later(followUp{work: withdrawEvents, queue: w.Queue, events: &w})
			return nil
		}
		r := recordOf(t, store.Dropped)
		r.Detail = w.Why
		if err := rm.history.record(r); err != nil {
			return err
		}
		if err := rm.remove(t); err != nil {
			return err
		}
	}
	return nil
}
