package workflow

import (
	"cmp"
	"errors"
	"iter"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// heads yields the tasks of queue that may have begun: those in slots below store.FirstSlot, which
// were put at the front of the queue, and the first task behind them.
func heads(tx *store.Tx, queue string) iter.Seq2[*store.Task, error] {
	return func(yield func(*store.Task, error) bool) {
		for t, err := range store.Tasks(tx, queue) {
			if !yield(t, err) || err != nil || t.Slot >= store.FirstSlot {
				return
			}
		}
	}
}

// eachHead calls fn for the tasks that heads yields for each queue, until fn fails.
func eachHead(tx *store.Tx, fn func(*store.Task) error) error {
	for queue, err := range store.AllQueues(tx) {
		if err != nil {
			return err
		}
		for t, err := range heads(tx, queue) {
			if err != nil {
				return err
			}
			if err := fn(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachQueued calls fn for the tasks of all queues, in order, until fn fails. The parameter holder of fn is the task
// whose running attempt or whose journal covers the task t; holder can be t itself. If holder is nil, t can be removed.
func eachQueued(tx *store.Tx, fn func(t, holder *store.Task) error) error {
	var holder *store.Task
	for t, err := range store.AllTasks(tx) {
		if err != nil {
			return err
		}
		if claimed(tx, t) || t.Journal {
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

// covers reports whether the slot of t is in the range of slots that the task holder has claimed.
func covers(holder, t *store.Task) bool {
	last := holder.Slot
	if holder.Claim != nil {
		last = max(last, holder.Claim.End)
	}
	return t.Queue == holder.Queue && holder.Slot <= t.Slot && t.Slot <= last
}

// claimed reports whether an attempt of this process processes t.
func claimed(tx *store.Tx, t *store.Task) bool { return t.Claim != nil && t.Claim.Epoch == tx.Epoch() }

// runOf returns the tasks in t's slot that belong to the run of t's module, and the tasks below
// them.
func runOf(tx *store.Tx, t *store.Task) (run, rest stack, err error) {
	for other, err := range store.Slot(tx, t.Queue, t.Slot) {
		if err != nil {
			return nil, nil, err
		}
		if len(rest) == 0 && other.Subject.Module == t.Subject.Module {
			run = append(run, other)
			continue
		}
		rest = append(rest, other)
	}
	return run, rest, nil
}

// lastBelow returns the last task in the slot of t; nil if t itself is the last.
func lastBelow(tx *store.Tx, t *store.Task) (last *store.Task, err error) {
	for other, err := range store.Slot(tx, t.Queue, t.Slot) {
		if err != nil {
			return nil, err
		}
		if other.Depth < t.Depth {
			last = other
		}
	}
	return last, nil
}

// MainWaitsFor reports whether match returns true for a task that the main queue waits for. These are the tasks that
// may have begun in the main queue, and in each queue for which a fan-out task of the main queue waits, directly or
// through the items of other fan-out tasks.
func MainWaitsFor(tx *store.Tx, match func(*store.Task) bool) (bool, error) {
	for t, err := range heads(tx, Main) {
		if err != nil || match(t) {
			return err == nil, err
		}
	}
	return awaitsHead(tx, match, func(by *store.Task) bool { return by.Queue == Main })
}

// awaitsHead reports whether a fan-out task waits for a queue in which a task may have begun. The function by must
// return true for the fan-out task, and the function match for the task that may have begun.
func awaitsHead(tx *store.Tx, match, by func(*store.Task) bool) (awaits bool, err error) {
	err = eachHead(tx, func(t *store.Task) (err error) {
		if !awaits && match(t) {
			awaits, err = isAwaited(tx, t.Queue, by)
		}
		return err
	})
	return awaits, err
}

// isAwaited reports whether a fan-out task for which match returns true waits for a task of queue, directly or through
// the items of other fan-out tasks.
func isAwaited(tx *store.Tx, queue string, match func(by *store.Task) bool) (bool, error) {
	for t, err := range store.Tasks(tx, queue) {
		if err != nil {
			return false, err
		}
		for {
			by, err := awaiterOf(tx, t)
			if err != nil {
				return false, err
			}
			if by == nil {
				break
			}
			if match(by) {
				return true, nil
			}
			t = by
		}
	}
	return false, nil
}

// awaiterOf returns the fan-out task that waits for the run of t; nil if there is none.
func awaiterOf(tx *store.Tx, t *store.Task) (*store.Task, error) {
	if t.Depth > 0 {
		last, err := lastBelow(tx, t)
		if err != nil {
			return nil, err
		}
		t = cmp.Or(last, t)
	}
	if t.Parent == nil || t.Parent.Lags {
		return nil, nil
	}
	by, ok, err := fanOutAt(tx, t.Parent)
	if err != nil || !ok {
		return nil, err
	}
	return by, nil
}

// hasClaimed reports whether a task of queue is running.
func hasClaimed(tx *store.Tx, queue string) (bool, error) {
	for t, err := range heads(tx, queue) {
		if err != nil || claimed(tx, t) {
			return err == nil, err
		}
	}
	return false, nil
}

// taskAt returns the task that ref refers to, and whether it still exists.
func taskAt(tx *store.Tx, ref *store.Ref) (*store.Task, bool, error) {
	if ref == nil {
		return nil, false, nil
	}
	t, ok, err := store.LoadTask(tx, ref.Pos)
	if err != nil || !ok || t.ID != ref.ID {
		return nil, false, err
	}
	return t, true, nil
}

// fanOutAt is like taskAt, but reports false if the task is not a fan-out task.
func fanOutAt(tx *store.Tx, ref *store.Ref) (*store.Task, bool, error) {
	t, ok, err := taskAt(tx, ref)
	return t, ok && t.FanOut != nil, err
}

// isStandalone reports whether t is an item that can run without its fan-out. This is the case if
// the item belongs to a global hook, or if no fan-out task waits for t.
func isStandalone(tx *store.Tx, t *store.Task) (bool, error) {
	if !t.OwnQueue || t.Subject.Module == "" {
		return t.OwnQueue, nil
	}
	_, awaited, err := fanOutAt(tx, t.Parent)
	return !awaited, err
}

// itemOf returns the current subject of t. If t is a fan-out task that processes its items itself,
// this is the subject of its current item.
func itemOf(tx *store.Tx, t *store.Task) (graph.Subject, error) {
	l := t.FanOut
	if l == nil || l.Edge || l.Next == l.Len {
		return t.Subject, nil
	}
	item, err := store.LoadItem[graph.Item](tx, t.ID, l.Next)
	return item.Subject, err
}

// eachDeferred calls fn for the deferred tasks, in the order of their due times, until fn fails.
func eachDeferred(tx *store.Tx, fn func(t *store.Task) error) error {
	for t, err := range store.DeferredTasks(tx) {
		if err != nil {
			return err
		}
		if err := fn(t); err != nil {
			return err
		}
	}
	return nil
}

// eachOut calls fn for the deferred tasks and then for the held tasks in held, until fn fails.
func eachOut(tx *store.Tx, held iter.Seq2[*store.Task, error], fn func(t *store.Task) error) error {
	if err := eachDeferred(tx, fn); err != nil {
		return err
	}
	for t, err := range held {
		if err != nil {
			return err
		}
		if err := fn(t); err != nil {
			return err
		}
	}
	return nil
}

// pendingTask returns the pending task with the given ID, which is in a queue, deferred or held; nil if there is none.
func pendingTask(tx *store.Tx, id store.ID) (found *store.Task, err error) {
	search := func(t *store.Task) error {
		if t.ID != id {
			return nil
		}
		found = t
		return errFound
	}
	err = eachQueued(tx, func(t, _ *store.Task) error { return search(t) })
	if err == nil {
		err = eachOut(tx, store.AllHeldTasks(tx), search)
	}
	if errors.Is(err, errFound) {
		return found, nil
	}
	return nil, err
}

// holders returns those tasks of queue that have a running attempt or a journal.
func holders(tx *store.Tx, queue string) (holders []*store.Task, err error) {
	for t, err := range heads(tx, queue) {
		if err != nil {
			return nil, err
		}
		if claimed(tx, t) || t.Journal {
			holders = append(holders, t)
		}
	}
	return holders, nil
}

// errEnough ends an iteration over tasks early, in most cases because the budget is spent.
var errEnough = errors.New("enough tasks were taken away")

// errFound ends a search.
var errFound = errors.New("found")

// waitsForGroup reports whether items of t run in parallel queues.
func waitsForGroup(t *store.Task) bool {
	return t.FanOut != nil && t.FanOut.Edge && t.FanOut.Group != "" && t.FanOut.Open > 0
}

// waitsForItems reports whether t is a fan-out task that only waits for its items.
func waitsForItems(t *store.Task) bool {
	return t.FanOut != nil && (t.FanOut.Next == t.FanOut.Len || waitsForGroup(t))
}

// A stack has the tasks of one slot in the order in which they are processed.
type stack []*store.Task

func (s stack) bottom() *store.Task { return s[len(s)-1] }
