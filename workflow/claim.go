package workflow

import (
	"errors"
	"fmt"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// The greatest range one claim covers.
const (
	rangeTasks = 1000
	rangeBytes = 8 << 20
)

// mostStarts is how many members a move starts, or lists it passes through,
// before it leaves the rest to the next.
const mostStarts = 256

// A claim is a task that a worker has to do.
type claim struct {
	task    Task
	bound   *bound
	node    *graph.Node
	outcome *Outcome // what its journal holds
	prepare bool     // the node is to be prepared, its list is not made yet
}

// advance claims the first task of queue and returns it, or nothing where none
// can be done now: then an alarm is set for the time it can. Lists that are
// empty, only start members, or have ended, are seen to on the way.
func (m *move) advance(queue string) (*claim, error) {
	m.settled = append(m.settled, queue)
	if m.e.stopping.Load() {
		return nil, nil
	}
	for range mostStarts {
		t, ok, err := store.Head(m.tx, queue)
		if err != nil || !ok {
			return nil, err
		}
		if m.now.Before(m.due(t)) {
			due := m.due(t)
			m.tx.OnCommit(func() { m.e.arm(queue, m.now, due, func() { m.e.poke(queue) }) })
			return nil, nil
		}
		b, n, err := m.e.boundTo(t)
		if err != nil {
			if err := m.dropUnknown(t, err); err != nil {
				return nil, err
			}
			continue
		}
		c, wait, err := m.reach(b, n, t)
		if c != nil || wait || err != nil {
			return c, err
		}
	}
	m.tx.OnCommit(func() { m.e.poke(queue) })
	return nil, nil
}

// due returns when t may be done. A time further off than the longest delay
// comes from a clock that was wrong, and is now.
func (m *move) due(t *store.Task) time.Time {
	if t.Due.Sub(m.now) > LongestDelay {
		return m.now
	}
	return t.Due
}

// dropUnknown takes away a task that this version of the graph cannot do.
func (m *move) dropUnknown(t *store.Task, why error) error {
	r := recordOf(t, store.Dropped)
	r.Error = why.Error()
	if err := m.record(r); err != nil {
		return err
	}
	return m.leave(t)
}

// reach brings the task t at the head of its queue to where something is to be
// done: it returns the claim on it, reports that it waits for members, or has
// changed what stands at the head.
func (m *move) reach(b *bound, n *graph.Node, t *store.Task) (c *claim, wait bool, err error) {
	if t.Orphan && !t.Journal {
		return nil, false, m.abandon(t)
	}
	if b.cuts[n.ID] {
		t.Past = t.Node
	}
	if n.Each == "" && t.List == nil || t.Solo || t.Journal {
		c, err = m.claim(b, n, t)
		return c, false, err
	}
	if t.List == nil {
		if _, ok := b.Steps[n.ID].(Preparer); ok && !t.Prepared {
			c, err = m.claim(b, n, t)
			return c, false, err
		}
		if err := m.makeList(b, n, t); err != nil {
			return nil, false, m.retryLater(b, n, t, failure{err: err, subject: t.Subject})
		}
	}
	switch l := t.List; {
	case l.Next < l.Len:
		return m.nextMember(b, n, t)
	case l.Open > 0:
		return nil, true, store.SaveTask(m.tx, t)
	case l.Edge:
		return nil, false, m.leave(t)
	default:
		if err := m.endList(b, n, t); err != nil {
			return nil, false, m.retryLater(b, n, t, failure{err: err, subject: t.Subject})
		}
		return nil, false, nil
	}
}

// claim gives t to a worker: the header says so, and how far it reaches.
func (m *move) claim(b *bound, n *graph.Node, t *store.Task) (*claim, error) {
	c := &claim{bound: b, node: n, prepare: n.Each != "" && t.List == nil && !t.Solo}
	m.unwait(t)
	again := t.Claim != nil
	end := uint64(0)
	if again {
		end = t.Claim.End
	}
	t.Claim = &store.Claim{Epoch: m.epoch, Since: m.now, End: end, Again: again}
	t.Due = time.Time{}
	c.task.Range = []*store.Task{t}
	if n.Ranges {
		if err := m.extend(b, c, t, again); err != nil {
			return nil, err
		}
	}
	if err := store.SaveTask(m.tx, t); err != nil {
		return nil, err
	}
	return c, m.describe(c, t)
}

// describe fills in what the step is told of the task it is given.
func (m *move) describe(c *claim, t *store.Task) error {
	for _, other := range c.task.Range {
		if err := store.LoadPayload(m.tx, other); err != nil {
			return err
		}
	}
	c.task.Task = *t
	if l := t.List; l != nil && !c.prepare {
		member, err := store.LoadMember[graph.Member](m.tx, t.ID, l.Next)
		if err != nil {
			return err
		}
		c.task.Subject, c.task.Lenient = store.Subject(member.Subject), member.Lenient
	}
	c.task.Try, c.task.Previous = 1, None
	if f := t.Failed; f != nil && f.Node == t.Node && f.Subject == c.task.Subject {
		c.task.Try, c.task.Previous = f.Count+1, WasFailed
	}
	if t.Claim.Again {
		c.task.Previous = Interrupted
	}
	if t.Journal {
		out, ok, err := store.Load[Outcome](m.tx, store.JournalKey(t.ID))
		if err != nil || !ok {
			return errors.Join(fmt.Errorf("the journal of task %s is missing", t.ID), err)
		}
		c.outcome = &out
	}
	return nil
}

// extend takes the adjacent tasks of the same hook into the claim on t. A claim
// that was interrupted covers what it covered then.
func (m *move) extend(b *bound, c *claim, t *store.Task, again bool) error {
	size := len(t.Payload)
	end := t.Claim.End
	for other, err := range store.TasksFrom(m.tx, t.Queue, t.Place+1) {
		if err != nil {
			return err
		}
		n := b.nodes[graph.NodeID(other.Node)]
		size += len(other.Payload) + other.Chunks*store.PayloadChunk
		if other.Graph != t.Graph || n == nil || !n.Ranges || other.Subject.Module != t.Subject.Module ||
			other.Subject.Hook != t.Subject.Hook || other.Orphan || other.Journal || len(c.task.Range) == rangeTasks || size > rangeBytes {
			break
		}
		if again && other.Place > end {
			break
		}
		if other.Waits {
			m.unwait(other)
			if err := store.SaveTask(m.tx, other); err != nil {
				return err
			}
		}
		c.task.Range = append(c.task.Range, other)
		t.Claim.End = other.Place
	}
	return nil
}
