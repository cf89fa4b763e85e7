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
const laneOfModule = besidePrefix + "module-"

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
func (m *move) lagBehind(b *bound, t *store.Task) error {
	if !m.e.ContinueOnFailure || t.Orphan {
		return nil
	}
	if t.Solo { // an item that the run waits for
		list, ok, err := m.list(t.Of)
		if err != nil || !ok {
			return err
		}
		t = list
	}
	n := b.nodes[graph.NodeID(t.Node)]
	if n == nil || n.Of != graph.OfModule || t.Subject.Module == "" {
		return nil
	}
	if first := b.nodes[b.first(n)]; first == nil || !first.Lane {
		return nil
	}
	if home(t) != Main || t.Queue == moduleLane(t.Subject.Module) && (t.Of == nil || t.Of.Lags) {
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
func (m *move) runOf(t *store.Task) (run, rest stack, err error) {
	for other, err := range store.Slot(m.tx, t.Queue, t.Place) {
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
func (m *move) lag(run, rest stack) error {
	bottom := run.bottom()
	var last *store.Task
	if len(rest) > 0 {
		last = rest.bottom()
		if last.ID == rest[0].ID && last.List != nil && last.List.Edge {
			last = nil // there is no step after the list
		}
	} else if list, ok, err := m.list(bottom.Of); err != nil {
		return err
	} else if ok {
		if last, err = m.lastBelow(list); err != nil {
			return err
		}
		if err := m.countDown(bottom.Of, nil); err != nil {
			return err
		}
	} else if bottom.Of != nil && bottom.Of.Lags {
		return nil
	}
	bottom.Of = nil
	if last == nil {
		return nil
	}
	last.Lagging++
	bottom.Of = &store.Ref{ID: last.ID, Pos: last.Pos, Lags: true}
	return m.save(last)
}

// lastBelow returns the last task of the slot of list, nil if that is list itself.
func (m *move) lastBelow(list *store.Task) (last *store.Task, err error) {
	for t, err := range store.Slot(m.tx, list.Queue, list.Place) {
		if err != nil {
			return nil, err
		}
		if t.Height < list.Height {
			last = t
		}
	}
	return last, nil
}

// moveTo moves run, all tasks of a slot that are above others, to the tail of queue, which stands in
// for the main queue.
func (m *move) moveTo(run stack, queue string) error {
	if run[0].Queue == queue {
		return m.save(run.bottom())
	}
	place, err := store.TailPlace(m.tx, queue)
	if err != nil {
		return err
	}
	m.touch(run[0].Queue)
	for i, t := range run {
		height := uint32(len(run) - 1 - i) //nolint:gosec // it is small
		if err := m.relocate(t, store.Pos{Queue: queue, Place: place, Height: height}, Main); err != nil {
			return err
		}
	}
	m.touch(queue)
	return nil
}

// relocate moves t to pos, of a queue that stands in for home, or of home itself if that is empty.
func (m *move) relocate(t *store.Task, pos store.Pos, home string) error {
	m.unwaitAt(t)
	m.tx.Delete(t.Pos.Key())
	t.Pos, t.Home = pos, home
	if t.Waits {
		m.tx.Put(onceKey(t), t.Key())
	}
	if err := m.repoint(t); err != nil {
		return err
	}
	return m.save(t)
}

// unwaitAt deletes the mark of t as waiting, which is under its home queue.
func (m *move) unwaitAt(t *store.Task) {
	if t.Waits {
		m.tx.Delete(onceKey(t))
	}
}

// repoint makes the tasks that name t as the one that waits for them point to its slot.
func (m *move) repoint(t *store.Task) error {
	if t.Lagging == 0 && (t.List == nil || t.List.Open == 0) {
		return nil
	}
	return m.each(func(other, _ *store.Task) error {
		if other.Of == nil || other.Of.ID != t.ID {
			return nil
		}
		other.Of.Pos = t.Pos
		return m.save(other)
	})
}

// catchUp notes that a lagging task has ended. When it was the last of them, the step that waited
// goes to the tail of the main queue.
func (m *move) catchUp(ref *store.Ref) error {
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
	place, err := store.TailPlace(m.tx, Main)
	if err != nil {
		return err
	}
	m.touch(Main)
	return m.relocate(t, store.Pos{Queue: Main, Place: place}, "")
}

// stepAside moves the task t at the head of the main queue out of the way, and reports whether it
// did: a step that waits for lagging ones is parked, and the run of a module whose last run has yet
// to end in a lane goes behind that.
func (m *move) stepAside(n *graph.Node, t *store.Task) (moved bool, err error) {
	switch {
	case t.Queue != Main || t.Orphan || t.Claim != nil && t.Claim.Epoch != 0:
		return false, nil
	case t.Lagging > 0:
		place, err := store.TailPlace(m.tx, Parked)
		if err != nil {
			return false, err
		}
		if err := m.saveTop(); err != nil {
			return false, err
		}
		return true, m.relocate(t, store.Pos{Queue: Parked, Place: place}, "")
	case !n.Lane || !m.e.ContinueOnFailure || t.List != nil:
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
	next.Home = Main
	return true, m.tail(&next, lane)
}

// replaceParked takes away the parked steps of b's graph, in favour of t's run, which comes to them
// itself.
func (m *move) replaceParked(b *bound, t *store.Task) error {
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
