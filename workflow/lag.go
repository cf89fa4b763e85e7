package workflow

import (
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// Parked is the queue that holds the last steps of runs whose other steps have ended, but for some that fail and
// are retried in lanes of their own. No hook can name it, as it contains a space.
const Parked = "after failing modules"

// laneOfModule begins the names of the lanes in which the failing runs of modules are retried.
const laneOfModule = parallelPrefix + "module-"

// moduleLane returns the lane in which the failing run of a module is retried.
func moduleLane(module string) string { return laneOfModule + module }

// LaggingModules returns the modules whose failing runs are retried in lanes of their own.
func LaggingModules(tx *store.Tx) (modules []string, err error) {
	for queue, err := range store.AllQueues(tx) {
		if err != nil {
			return nil, err
		}
		if module, ok := strings.CutPrefix(queue, laneOfModule); ok {
			modules = append(modules, module)
		}
	}
	return modules, nil
}

// lagBehind lets the run of a module, whose task t has just failed, go on in a lane of its own, if
// the engine is to continue. The tasks behind it go on; the last task of its slot, if that is
// another step, waits for it.
func (m *transition) lagBehind(b *bound, t *store.Task) error {
	if !m.e.ContinueOnFailure || t.Abandoned {
		return nil
	}
	if t.Detached { // an item that the run waits for
		list, ok, err := m.fanOut(t.Parent)
		if err != nil || !ok {
			return err
		}
		t = list
	}
	n := b.nodes[graph.NodeID(t.Node)]
	if n == nil || n.Scope != graph.ScopeModule || t.Subject.Module == "" {
		return nil
	}
	if first := b.nodes[b.first(n)]; first == nil || !first.Lane {
		return nil
	}
	if homeQueue(t) != Main || t.Queue == moduleLane(t.Subject.Module) && (t.Parent == nil || t.Parent.Lags) {
		return nil // it is where it belongs
	}
	if err := m.saveTop(); err != nil {
		return err
	}
	run, rest, err := m.runOf(t)
	if err != nil || len(run) == 0 || run[0].ID != t.ID {
		return err
	}
	if err := m.lag(run, rest); err != nil {
		return err
	}
	return m.moveTo(run, moduleLane(t.Subject.Module))
}

// runOf returns the tasks of the slot of t that are of the run of its module, and those below.
func (m *transition) runOf(t *store.Task) (run, rest stack, err error) {
	for other, err := range store.Slot(m.tx, t.Queue, t.Slot) {
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

// lag makes the last task of the run that waits for run wait for it, and its list no longer.
func (m *transition) lag(run, rest stack) error {
	bottom := run.bottom()
	var last *store.Task
	if len(rest) > 0 {
		last = rest.bottom()
		if last.ID == rest[0].ID && last.FanOut != nil && last.FanOut.Edge {
			last = nil // there is no step after the list
		}
	} else if list, ok, err := m.fanOut(bottom.Parent); err != nil {
		return err
	} else if ok {
		if last, err = m.lastBelow(list); err != nil {
			return err
		}
		if err := m.countDown(bottom.Parent, nil); err != nil {
			return err
		}
	} else if bottom.Parent != nil && bottom.Parent.Lags {
		return nil
	}
	bottom.Parent = nil
	if last == nil {
		return nil
	}
	last.Lagging++
	bottom.Parent = &store.Ref{ID: last.ID, Pos: last.Pos, Lags: true}
	return m.save(last)
}

// lastBelow returns the last task of the slot of list, nil if that is list itself.
func (m *transition) lastBelow(list *store.Task) (last *store.Task, err error) {
	for t, err := range store.Slot(m.tx, list.Queue, list.Slot) {
		if err != nil {
			return nil, err
		}
		if t.Depth < list.Depth {
			last = t
		}
	}
	return last, nil
}

// moveTo moves run, all tasks of a slot that are above others, to the tail of queue, which stands in
// for the main queue.
func (m *transition) moveTo(run stack, queue string) error {
	if run[0].Queue == queue {
		return m.save(run.bottom())
	}
	place, err := store.TailSlot(m.tx, queue)
	if err != nil {
		return err
	}
	m.touch(run[0].Queue)
	for i, t := range run {
		height := uint32(len(run) - 1 - i) //nolint:gosec // it is small
		if err := m.relocate(t, store.Pos{Queue: queue, Slot: place, Depth: height}, Main); err != nil {
			return err
		}
	}
	m.touch(queue)
	return nil
}

// relocate moves t to pos, of a queue that stands in for home, or of home itself if that is empty.
func (m *transition) relocate(t *store.Task, pos store.Pos, home string) error {
	m.unwaitAt(t)
	m.tx.Delete(t.Pos.Key())
	t.Pos, t.HomeQueue = pos, home
	if t.Waits {
		m.tx.Put(uniqueKey(t), t.Key())
	}
	if err := m.repoint(t); err != nil {
		return err
	}
	return m.save(t)
}

// unwaitAt deletes the mark of t as waiting, which is under its home queue.
func (m *transition) unwaitAt(t *store.Task) {
	if t.Waits {
		m.tx.Delete(uniqueKey(t))
	}
}

// repoint makes the tasks that name t as the one that waits for them point to its slot.
func (m *transition) repoint(t *store.Task) error {
	if t.Lagging == 0 && (t.FanOut == nil || t.FanOut.Open == 0) {
		return nil
	}
	return m.each(func(other, _ *store.Task) error {
		if other.Parent == nil || other.Parent.ID != t.ID {
			return nil
		}
		other.Parent.Pos = t.Pos
		return m.save(other)
	})
}

// catchUp notes that a lagging task has ended. When it was the last of them, the step that waited
// goes to the tail of the main queue.
func (m *transition) catchUp(ref *store.Ref) error {
	if m.top != nil && m.top.ID == ref.ID {
		if err := m.saveTop(); err != nil {
			return err
		}
	}
	t, ok, err := m.taskAt(ref)
	if err != nil || !ok {
		return err
	}
	t.Lagging--
	if t.Lagging > 0 || t.Queue != Parked {
		m.touch(t.Queue)
		return m.save(t)
	}
	place, err := store.TailSlot(m.tx, Main)
	if err != nil {
		return err
	}
	m.touch(Main)
	return m.relocate(t, store.Pos{Queue: Main, Slot: place}, "")
}

// stepAside moves the task t at the head of the main queue out of the way, and reports whether it
// did: a step that waits for lagging ones is parked, and the run of a module whose last run has yet
// to end in a lane goes behind that.
func (m *transition) stepAside(n *graph.Node, t *store.Task) (moved bool, err error) {
	switch {
	case t.Queue != Main || t.Abandoned || t.Claim != nil && t.Claim.Epoch != 0:
		return false, nil
	case t.Lagging > 0:
		place, err := store.TailSlot(m.tx, Parked)
		if err != nil {
			return false, err
		}
		if err := m.saveTop(); err != nil {
			return false, err
		}
		return true, m.relocate(t, store.Pos{Queue: Parked, Slot: place}, "")
	case !n.Lane || !m.e.ContinueOnFailure || t.FanOut != nil:
		return false, nil
	}
	lane := moduleLane(t.Subject.Module)
	if _, ok, err := store.Head(m.tx, lane); err != nil || !ok {
		return false, err
	}
	if err := m.saveTop(); err != nil {
		return false, err
	}
	run, rest, err := m.runOf(t)
	if err != nil || len(run) != 1 {
		return false, err
	}
	if len(rest) > 0 {
		if err := m.lag(run, rest); err != nil {
			return false, err
		}
	}
	// Of two equal tasks that wait the one in the lane stays.
	next := *run[0]
	if err := m.remove(run[0]); err != nil {
		return false, err
	}
	next.HomeQueue = Main
	return true, m.tail(&next, lane)
}

// replaceParked takes away the parked steps of b's graph, in favour of t's run, which comes to them
// itself.
func (m *transition) replaceParked(b *bound, t *store.Task) error {
	var parked []*store.Task
	for other, err := range store.Tasks(m.tx, Parked) {
		if err != nil {
			return err
		}
		if other.Graph == b.Graph.Name && other.Past == t.Node {
			parked = append(parked, other)
		}
	}
	for _, other := range parked {
		if err := m.drop(other, store.Superseded, t); err != nil {
			return err
		}
	}
	return nil
}
