package workflow

import (
	"slices"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// parents updates the links between a task and its parent, which is the task that waits for it. A
// fan-out task counts exactly the pending tasks whose parent it is. The last task of a run counts
// its lagging tasks, which are the runs of failing modules that it waits for. Each of the counted
// tasks stores the position of its parent.
type parents struct {
	*txn
	queues *queues
	unique *unique
}

// countDown records in the parent at ref that one of its items or lagging tasks has ended. A fan-out
// task also gets the facts of the item. If ref is nil, or the parent no longer exists, countDown does
// nothing.
func (p *parents) countDown(ref *store.Ref, facts []graph.Fact) error {
	if ref != nil && ref.Lags {
		return p.laggingDone(ref)
	}
	t, ok, err := fanOutAt(p.tx, ref)
	if err != nil || !ok {
		return err
	}
	t.FanOut.Open--
	t.FanOut.Facts = report(t.FanOut.Facts, facts)
	p.queues.touch(t.Queue)
	return p.queues.save(t)
}

// laggingDone records that a lagging task of the parent at ref has ended. When the last lagging
// task has ended, a parked parent moves to the tail of the main queue.
func (p *parents) laggingDone(ref *store.Ref) error {
	if err := p.queues.saveTop(); err != nil {
		return err
	}
	t, ok, err := taskAt(p.tx, ref)
	if err != nil || !ok {
		return err
	}
	return p.setLagging(t, t.Lagging-1)
}

// setLagging saves in t the number of lagging tasks that t waits for. If the number is 0 and t is
// parked, t moves to the tail of the main queue.
func (p *parents) setLagging(t *store.Task, n int) error {
	t.Lagging = n
	if n > 0 || t.Queue != Parked {
		p.queues.touch(t.Queue)
		return p.queues.save(t)
	}
	slot, err := store.TailSlot(p.tx, Main)
	if err != nil {
		return err
	}
	p.queues.touch(Main)
	return p.relocate(t, store.Pos{Queue: Main, Slot: slot}, "")
}

// exists reports whether the parent at ref still exists. exists returns false if ref is nil.
func (p *parents) exists(ref *store.Ref) (ok bool, err error) {
	if ref != nil && ref.Lags {
		_, ok, err = taskAt(p.tx, ref)
	} else {
		_, ok, err = fanOutAt(p.tx, ref)
	}
	return ok, err
}

// oneOf returns the parent that keeps waiting for a task with two possible parents. If first still
// exists, oneOf returns first and decrements the count of second. If first does not exist any more,
// oneOf returns second.
func (p *parents) oneOf(first, second *store.Ref) (*store.Ref, error) {
	switch {
	case first == nil:
		return second, nil
	case second == nil || !first.Lags && first.ID == second.ID:
		return first, nil
	}
	if ok, err := p.exists(first); err != nil || !ok {
		return second, err
	}
	return first, p.countDown(second, nil)
}

// returnItem adds t, an item in a queue of its own, to the items that its fan-out task has yet to start. The caller
// removes t. If the fan-out task is held as well, its run starts over later, with all items. If nothing holds the
// fan-out task when it continues, it starts the item again, because possibly no other run repeats the item. If t is no
// such item, or no fan-out task waits for t, returnItem does nothing.
func (p *parents) returnItem(t *store.Task) error {
	parent, awaited, err := fanOutAt(p.tx, t.Parent)
	if err != nil || !awaited || !t.OwnQueue {
		return err
	}
	return p.addItem(parent, graph.Item{Subject: t.Subject, Queue: homeQueue(t), Wait: true, AllowFailure: t.AllowFailure})
}

// addItem adds item to the items that the fan-out task t has yet to start.
func (p *parents) addItem(t *store.Task, item graph.Item) error {
	if err := store.SaveItem(p.tx, t.ID, t.FanOut.Len, item); err != nil {
		return err
	}
	t.FanOut.Len++
	return p.queues.save(t)
}

// itemDone records the facts of the current item of t, and moves t to the next item.
func (p *parents) itemDone(t *store.Task, facts []graph.Fact) {
	store.DeleteItem(p.tx, t.ID, t.FanOut.Next)
	t.FanOut.Next++
	t.FanOut.Facts = report(t.FanOut.Facts, facts)
	t.Claim = nil
	p.queues.setTop(t)
}

// report adds each new fact to known, which has the facts of earlier items.
func report(known []string, facts []graph.Fact) []string {
	for _, f := range facts {
		if !slices.Contains(known, string(f)) {
			known = append(known, string(f))
		}
	}
	return known
}

// relocate moves t to pos. The parameter home is the home queue of t if pos is in a parallel queue; otherwise it is "".
func (p *parents) relocate(t *store.Task, pos store.Pos, home string) error {
	p.unique.unmark(t)
	p.tx.Delete(t.Pos.Key())
	t.Pos, t.HomeQueue = pos, home
	p.unique.mark(t)
	if err := p.repoint(t); err != nil {
		return err
	}
	return p.queues.save(t)
}

// repoint updates the position of t in the tasks whose parent is t.
func (p *parents) repoint(t *store.Task) error {
	if t.Lagging == 0 && (t.FanOut == nil || t.FanOut.Open == 0) {
		return nil
	}
	return eachQueued(p.tx, func(other, _ *store.Task) error {
		if other.Parent == nil || other.Parent.ID != t.ID {
			return nil
		}
		other.Parent.Pos = t.Pos
		return p.queues.save(other)
	})
}

// lift increases the depth of t by one and removes the parent of t, so that another task can take
// the old position and the parent.
func (p *parents) lift(t *store.Task) error {
	p.tx.Delete(t.Pos.Key())
	t.Depth++
	t.Parent = nil
	if err := p.repoint(t); err != nil {
		return err
	}
	return p.queues.save(t)
}

func saveItems(tx *store.Tx, t *store.Task, items []graph.Item) error {
	for i, item := range items {
		if err := store.SaveItem(tx, t.ID, i, item); err != nil {
			return err
		}
	}
	return nil
}
