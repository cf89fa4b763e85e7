package workflow

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// An Event is something a trigger has seen.
type Event struct {
	On      graph.Trigger
	Subject store.Subject
	// Queue is where the task goes when the edge says it is bound to one.
	Queue   string
	Payload json.RawMessage
	Object  *store.ObjectRef
	Cause   store.Cause
	// AllowFailure is the allowFailure of the subject's binding.
	AllowFailure bool
	// NoBatch keeps the task from being done together with others of its hook.
	NoBatch bool
	// Supersedes names the node whose runs in the main queue, waiting or under
	// way, this run takes the place of.
	Supersedes graph.NodeID
}

// Raise begins a run for each of events, in order, as part of tx: their tasks
// are in their queues when tx is committed, and a queue that was idle has a
// worker then. A list is made by a transaction of its own, right behind, as its
// step may fail.
func (e *Engine) Raise(tx *store.Tx, events ...Event) error {
	m := newTransition(e, tx)
	err := m.raise(events)
	if err == nil {
		err = m.end()
	}
	if damaged := (*store.RecordError)(nil); errors.As(err, &damaged) && canMend(damaged.Key) {
		// The transaction is not the engine's: its owner tries it again.
		e.run(func() {
			if err := e.mend(damaged); err != nil {
				e.broken("", err)
			}
		})
	}
	return err
}

func (m *transition) raise(events []Event) error {
	for _, ev := range events {
		b := m.e.triggers[ev.On]
		if b == nil {
			return fmt.Errorf("no graph has a trigger named %q", ev.On)
		}
		run, err := m.beginRun(store.Run{
			Graph: b.Graph.Name, Trigger: string(ev.On), Cause: ev.Cause, Subject: ev.Subject,
		})
		if err != nil {
			return err
		}
		if ev.Supersedes != "" {
			if err := m.supersede(b, ev.Supersedes, run); err != nil {
				return err
			}
		}
		for _, edge := range b.Graph.Begin(ev.On) {
			t := m.follow(b, edge, run, ev.Subject)
			t.Payload, t.Object, t.AllowFailure, t.NoBatch = ev.Payload, ev.Object, ev.AllowFailure, ev.NoBatch
			queue := queueOf(t.Subject)
			if edge.Place == graph.BindingQueue && ev.Queue != "" {
				queue = ev.Queue
			}
			acted := m.e.observer.time(PutTime)
			if err := m.send(b, edge, t, queue); err != nil {
				return err
			}
			acted(queue)
		}
		if ev.Supersedes != "" {
			// Other runs that the last process left in the middle go back to their first nodes, so
			// that the start does their work.
			if err := m.prepare(preparation{Start: true}); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow returns a task for edge, not yet put anywhere.
func (m *transition) follow(b *bound, edge graph.Edge, run uint64, subject store.Subject) *store.Task {
	return &store.Task{
		ID: m.newID(), Graph: b.Graph.Name, Node: string(edge.To), Run: run, Queued: m.now,
		Subject: store.Subject(graph.Subject(subject).Trim(b.nodes[edge.To].Scope)),
	}
}

// queueOf returns the queue of work about s that no binding names another for.
func queueOf(s store.Subject) string { return cmp.Or(graph.Subject(s).Queue(), Main) }

func (m *transition) newID() store.ID { return store.ID{Epoch: m.epoch, N: m.tx.NextID()} }

// send puts t, which is of a place of its own, where edge says.
func (m *transition) send(b *bound, edge graph.Edge, t *store.Task, queue string) error {
	switch edge.Place {
	case graph.Rewind:
		return m.rewind(b, t)
	case graph.Front:
		return m.front(t, queue)
	default:
		return m.tail(t, queue)
	}
}

// tail puts t, which is new, at the tail of queue, unless an equal task waits
// there or t is an event that one of too many can say as well. Behind older tasks
// that are held it is held, too.
func (m *transition) tail(t *store.Task, queue string) (err error) {
	t.Queue, t.Depth = queue, 0
	lane, held, err := m.laneFor(t)
	if err != nil {
		return err
	}
	if held {
		t.Lane = lane.Kind
	} else if t.Slot, err = store.TailSlot(m.tx, queue); err != nil {
		return err
	}
	if folded, err := m.coalesceEvent(t); folded || err != nil {
		return err
	}
	if held {
		return m.holdNew(lane, t, nil)
	}
	if err := m.enqueue(t); err != nil {
		return err
	}
	return m.joinDeferred(t)
}

// front puts t at the front of queue, unless an equal task waits there.
func (m *transition) front(t *store.Task, queue string) (err error) {
	t.Queue, t.Depth = queue, 0
	if t.Slot, err = store.FrontSlot(m.tx, queue); err != nil {
		return err
	}
	return m.enqueue(t)
}
