package workflow

import (
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// fanOuts moves fan-out tasks from item to item. Items start in order. The fan-out task processes
// an item itself, or starts a task for the item.
type fanOuts struct {
	*txn
	queues    *queues
	unique    *unique
	parents   *parents
	lanes     *lanes
	exclusive *exclusive
	remover   *remover
	arrivals  *arrivals
	routes    *routes
	gate      *gate
	openings  *openings
	lagging   *lagging
	groups    *groups
}

// makeFanOut creates the fan-out of t: it writes the items for which t's node is repeated.
func (fs *fanOuts) makeFanOut(b *bound, n *graph.Node, t *store.Task) (err error) {
	fanOut := &store.FanOut{}
	var items []graph.Item
	if n.JoinsRunning {
		if items, err = runningOf(fs.tx, t); err != nil {
			return err
		}
	} else if fanOuter, ok := b.Steps[n.ID].(FanOuter); ok {
		err := guard(n, "Items", func() (err error) {
			items, fanOut.Note, err = fanOuter.Items(fs.tx, Task{Task: *t})
			return err
		})
		if err != nil {
			return &fanOutError{refOf(t), err}
		}
	}
	if err := fs.abandonChanged(t, items); err != nil {
		return err
	}
	fanOut.Len = len(items)
	t.FanOut = fanOut
	fs.openings.mayUnblock(t.Subject)
	return saveItems(fs.tx, t, items)
}

// abandonChanged abandons tasks in other queues that process items with the field Changed, if the
// tasks are running or have begun their effects. So the new fan-out task t does not wait for these
// tasks, but starts the items again behind them.
func (fs *fanOuts) abandonChanged(t *store.Task, items []graph.Item) error {
	changed := map[graph.Subject]bool{}
	for _, item := range items {
		if item.Changed {
			changed[item.Subject] = true
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return eachHead(fs.tx, func(begun *store.Task) error {
		equal := begun.OwnQueue && begun.Graph == t.Graph && begun.Node == t.Node && changed[begun.Subject]
		if !equal || begun.Abandoned || !claimed(fs.tx, begun) && !begun.Journal {
			return nil
		}
		begun.Abandoned = true
		return fs.queues.save(begun)
	})
}

// goOn continues the fan-out task t with its next item. If t must process the item itself, goOn
// returns the item; otherwise it starts a task for the item. After the last item, goOn ends the
// fan-out. The result wait is true if the next item cannot start yet.
func (fs *fanOuts) goOn(b *bound, n *graph.Node, t *store.Task) (next *graph.Item, wait bool, err error) {
	l := t.FanOut
	if l.Next == l.Len {
		if l.Edge {
			return nil, false, fs.remover.removeLast(t, nil)
		}
		return nil, false, fs.endFanOut(b, n, t)
	}
	item, err := store.LoadItem[graph.Item](fs.tx, t.ID, l.Next)
	if err != nil {
		return nil, false, err
	}
	var parallel string
	if l.Edge {
		var ready bool
		if parallel, ready, err = fs.groups.queueForItem(t, item); err != nil || !ready {
			return nil, true, err
		}
	}
	if parallel != "" {
		item.Queue, item.Wait = parallel, true
	}
	here := !n.JoinsRunning && doneHere(t, item.Queue)
	if here && !l.Edge {
		next, err = fs.own(b, n, t, item)
		return next, false, err
	}
	fs.unique.unwait(t)
	store.DeleteItem(fs.tx, t.ID, l.Next)
	l.Next++
	child := &store.Task{
		ID: fs.newID(), Graph: t.Graph, Node: t.Node, Subject: item.Subject, Run: t.Run,
		Queued: fs.now, AllowFailure: item.AllowFailure, Past: t.Past, Loop: t.Loop,
	}
	if !here {
		child.Queue, child.OwnQueue = item.Queue, !l.Edge
		if parallel != "" {
			child.HomeQueue = homeQueue(t)
		}
		if fs.continueOnFailure && parallel == retryQueue(item.Subject.Module) {
			err = fs.startLagging(n, t, child)
		} else {
			err = fs.startElsewhere(n, t, child, item.Wait)
		}
		if err != nil {
			return nil, false, err
		}
		return nil, false, fs.queues.save(t)
	}
	child.Pos, child.HomeQueue = store.Pos{Queue: t.Queue, Slot: t.Slot, Depth: t.Depth + 1}, t.HomeQueue
	if err := fs.queues.save(t); err != nil {
		return nil, false, err
	}
	return nil, false, fs.arrivals.enqueue(child)
}

// own returns the given item, which t processes itself. If a quarantine or a pause holds the item,
// and the item has not begun its effects, own skips the item and returns nil.
func (fs *fanOuts) own(b *bound, n *graph.Node, t *store.Task, item graph.Item) (*graph.Item, error) {
	q, err := store.QuarantineOf(fs.tx, t.Graph, t.Node, ofRun(item.Subject))
	if err != nil {
		return nil, err
	}
	if q == nil || t.Journal {
		return &item, nil
	}
	return nil, fs.passOver(b, n, t, item, q)
}

// doneHere reports whether an item for the given queue is processed in the queue of t. If t is in a
// parallel queue, items for other parallel queues, which a binding can name, are processed in the
// queue of t, too. If such an item started in its own queue, two runs could wait for each other
// forever.
func doneHere(t *store.Task, queue string) bool {
	return queue == "" || queue == t.Queue || queue == t.HomeQueue || t.HomeQueue != "" && strings.HasPrefix(queue, parallelPrefix)
}

// endFanOut calls End of t's step, if it has one, and follows the node's edges.
func (fs *fanOuts) endFanOut(b *bound, n *graph.Node, t *store.Task) error {
	facts := make([]graph.Fact, 0, len(t.FanOut.Facts))
	for _, f := range t.FanOut.Facts {
		facts = append(facts, graph.Fact(f))
	}
	if ender, ok := b.Steps[n.ID].(Ender); ok {
		err := guard(n, "End", func() error {
			more, err := ender.End(fs.tx, Task{Task: *t}, facts)
			facts = append(facts, more...)
			return err
		})
		if err != nil {
			return &fanOutError{refOf(t), err}
		}
	}
	return fs.routes.complete(b, n, t, facts, nil)
}

// passOver skips the current item of the fan-out task t, because the quarantine or pause q holds
// the item. If the item can be repeated alone, as a global hook of step 1 or 2, it is held as a
// task of its own. If the item cannot be repeated alone, a new run starts when q no longer holds
// the item.
func (fs *fanOuts) passOver(b *bound, n *graph.Node, t *store.Task, item graph.Item, q *store.QuarantinedItem) error {
	s := item.Subject
	if err := fs.exclusive.endExclusive(t); err != nil {
		return err
	}
	next := fs.follow(b, graph.Edge{To: b.first(n)}, t.Run, t.Subject)
	if b.byItself(n, s) {
		next.Subject, next.OwnQueue, next.AllowFailure = s, true, item.AllowFailure
	}
	next.Queue = t.Queue
	if !q.Holds(next.Graph, next.Node, next.Subject) {
		fs.parents.itemDone(t, nil)
		return fs.gate.owe(q, b.first(n), t, s)
	}
	fs.parents.itemDone(t, nil)
	if err := fs.queues.saveTop(); err != nil {
		return err
	}
	reason := q.Reason()
	return fs.arrivals.holdNew(laneOf(n, next), next, &reason)
}

// startElsewhere adds child, a task for an item of t, to the queue of child. If that queue has an equal task already,
// child is not added. If the parameter wait is true, t waits for child or, as waitFor describes, for the equal task. No
// task waits for an equal task that stays held. The caller saves t.
func (fs *fanOuts) startElsewhere(n *graph.Node, t, child *store.Task, wait bool) error {
	there, joined, err := fs.equalElsewhere(n, child)
	switch {
	case err != nil || joined:
		return err
	case there != nil && wait:
		return fs.waitFor(n, t, there)
	case there != nil || n.JoinsRunning: // without an equal task, the running task has ended since the fan-out was created
		return nil
	}
	if !wait {
		return fs.arrivals.tail(child, child.Queue)
	}
	parent := &store.Ref{ID: t.ID, Pos: t.Pos}
	child.Parent = parent
	t.FanOut.Open++
	// child may replace or join an equal task that has another parent. Then tail may decrement the count of t in the
	// store. So t is saved before, and its count is read again afterwards.
	if err := fs.queues.save(t); err != nil {
		return err
	}
	if err := fs.arrivals.tail(child, child.Queue); err != nil {
		return err
	}
	stored, _, err := fanOutAt(fs.tx, parent)
	if err == nil {
		t.FanOut.Open = stored.FanOut.Open
	}
	return err
}

// startLagging adds child, the run of a module whose earlier run fails, to the retry queue of the module. If an equal
// run waits or has begun, child is not added. The last task below t waits for the run; t does not. The earlier run is
// retried at once, because a new converge does not wait for a retry delay.
func (fs *fanOuts) startLagging(n *graph.Node, t, child *store.Task) error {
	failing, ok, err := store.Head(fs.tx, child.Queue)
	if err != nil || !ok {
		return err
	}
	if failing.Failed != nil && fs.now.Before(failing.Due) {
		failing.Due = fs.now
		fs.queues.touch(failing.Queue)
		if err := fs.queues.save(failing); err != nil {
			return err
		}
	}
	there, joined, err := fs.equalElsewhere(n, child)
	switch {
	case err != nil || joined:
		return err
	case there == nil:
		if err := fs.lagging.awaitBelow(t, child); err != nil {
			return err
		}
		return fs.arrivals.tail(child, child.Queue)
	}
	if err := fs.lagging.awaitBelow(t, there); err != nil {
		return err
	}
	return fs.queues.save(there)
}

// equalElsewhere returns the task that does the same work as child. The result is nil if there is no such task, if
// child has replaced it, or if it will join child. If child has joined a held task, the result is nil too, and joined
// is true. child is not in a queue yet.
func (fs *fanOuts) equalElsewhere(n *graph.Node, child *store.Task) (there *store.Task, joined bool, err error) {
	there, ok, err := equalTo(fs.tx, n, child)
	switch {
	case err != nil || !ok:
		return nil, false, err
	case there.IsHeld():
		joined, err = fs.joinHeld(there, child)
		return nil, joined, err
	case child.HomeQueue != "" && there.Queue == child.HomeQueue:
		return nil, false, nil // the equal task is behind the fan-out task and will join child
	}
	if dropSkips(there, child) {
		err = fs.queues.save(there)
	}
	return there, false, err
}

// joinHeld lets child join old, an equal held task, if something still holds old. Otherwise, child replaces old,
// because a fan-out task can wait for child, but not for a held task. joinHeld reports whether child has joined old.
func (fs *fanOuts) joinHeld(old, child *store.Task) (joined bool, err error) {
	reason, err := fs.openings.stillBlocked(old)
	if err != nil {
		return false, err
	}
	if reason != nil {
		return true, fs.lanes.joinHeld(old, child)
	}
	if err := noteInterruption(fs.tx, old); err != nil {
		return false, err
	}
	return false, fs.remover.drop(old, store.Joined, child)
}

// waitFor makes t wait for other, a task that does the same work as an item of t: t becomes the parent of other. If
// another task waits for other already, t replaces that task as the parent only if n has JoinsRunning; otherwise,
// waitFor changes nothing. The caller saves t.
func (fs *fanOuts) waitFor(n *graph.Node, t, other *store.Task) error {
	if other.Parent != nil && other.Parent.ID == t.ID {
		return nil
	}
	if awaited, err := fs.parents.exists(other.Parent); err != nil || awaited && !n.JoinsRunning {
		return err
	}
	if err := fs.parents.countDown(other.Parent, nil); err != nil {
		return err
	}
	other.Parent = &store.Ref{ID: t.ID, Pos: t.Pos}
	t.FanOut.Open++
	return fs.queues.save(other)
}

// equalTo returns a task that does the same work as t, and whether there is one: a waiting task, as
// equalWaiting finds it, or a begun task in the queue of t. If n has JoinsRunning, every begun task
// with the subject of t does the same work.
func equalTo(tx *store.Tx, n *graph.Node, t *store.Task) (*store.Task, bool, error) {
	if there, ok, err := equalWaiting(tx, t); ok || err != nil {
		return there, ok, err
	}
	for there, err := range heads(tx, t.Queue) {
		if err != nil {
			return nil, false, err
		}
		begun := (there.Claim != nil || there.Failed != nil) && (n.JoinsRunning || !there.Abandoned)
		if begun && there.Graph == t.Graph && there.Subject == t.Subject && (n.JoinsRunning || there.Node == t.Node && there.OwnQueue == t.OwnQueue) {
			return there, true, nil
		}
	}
	return nil, false, nil
}

// runningOf lists tasks of t's module that are in other queues than t, and are running or have
// begun their effects.
func runningOf(tx *store.Tx, t *store.Task) (items []graph.Item, err error) {
	err = eachHead(tx, func(other *store.Task) error {
		if (claimed(tx, other) || other.Journal) && other.Queue != t.Queue &&
			other.Graph == t.Graph && other.Subject.Module == t.Subject.Module {
			items = append(items, graph.Item{Subject: other.Subject, Queue: other.Queue, Wait: true})
		}
		return nil
	})
	return items, err
}

// A fanOutRef names a fan-out task at the head of its queue. A fanOutRef does not use the ID of the
// task, because a task that a transition creates has another ID each time the transition is
// repeated.
type fanOutRef struct {
	queue, graph, node string
	subject            graph.Subject
}

func refOf(t *store.Task) fanOutRef { return fanOutRef{t.Queue, t.Graph, t.Node, t.Subject} }

// A fanOutError is an error of a step that creates or ends a fan-out. The transition must be rolled
// back, because the step may have written records.
type fanOutError struct {
	fanOut fanOutRef
	err    error
}

func (l *fanOutError) Error() string { return l.err.Error() }
func (l *fanOutError) Unwrap() error { return l.err }
