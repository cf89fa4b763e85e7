package workflow

import (
	"encoding/json"
	"fmt"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// An Event is one occurrence of a trigger. It starts a run.
type Event struct {
	On      graph.Trigger
	Subject graph.Subject
	// Queue is the queue of the binding. The task is added to this queue if the place of its edge
	// is BindingQueue, and if Queue is not empty. Otherwise the task is added to the main queue or, if
	// the subject is a configuration, to the queue of the configuration.
	Queue   string
	Payload json.RawMessage
	Object  *store.ObjectRef
	Cause   store.Cause
	// AllowFailure is the allowFailure of the binding of the subject.
	AllowFailure bool
	// NoBatch keeps the task out of batches with other tasks of its hook.
	NoBatch bool
	// Supersedes names a node. The new run replaces all runs in the main queue and in the queue Parked that have begun
	// the node or have yet to reach it. The new run also replaces the deferred tasks at the node. Interrupted runs of
	// modules go back to their first nodes, except runs at an Uninterruptible node.
	Supersedes graph.NodeID
}

// A Raiser adds the tasks of events to the store as part of a transaction. [*Engine] is a Raiser.
type Raiser interface {
	Raise(tx *store.Tx, events ...Event) error
}

// Raise starts a run for each of the events, in order, as part of tx. When tx is committed, each
// task is pending or has joined a pending task, and a worker starts for each idle queue whose first
// task can start. The fan-outs of the tasks are created in later transactions, because the steps
// that create them may fail. If Raise fails, the caller must not commit tx.
func (e *Engine) Raise(tx *store.Tx, events ...Event) error {
	m := e.transition(tx)
	err := m.raise(events)
	if err == nil {
		err = m.end()
	}
	if damaged := repairable(err); damaged != nil {
		// The transaction does not belong to the engine, so only its owner can repeat it.
		e.workers.run(func() {
			if _, err := e.repair(damaged); err != nil {
				e.observer.broken("", err)
			}
		})
	}
	return err
}

func (m *transition) raise(events []Event) error {
	for _, ev := range events {
		b := m.graphs.triggers[ev.On]
		if b == nil {
			return fmt.Errorf("no graph has a trigger named %q", ev.On)
		}
		run, err := m.history.beginRun(store.Run{
			Graph: b.Graph.Name, Trigger: string(ev.On), Cause: ev.Cause, Subject: ev.Subject,
		})
		if err != nil {
			return err
		}
		if ev.Supersedes != "" {
			if err := m.rewinds.supersede(b, ev.Supersedes, run); err != nil {
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
			acted := m.observer.time(PutTime)
			if err := m.routes.send(b, edge, t, queue); err != nil {
				return err
			}
			acted(queue)
		}
		if ev.Supersedes != "" {
			// Runs of modules that were interrupted at the end of the last process go back to their
			// first nodes, so that the start run does their work.
			if err := m.preparations.prepare(preparation{Start: true}); err != nil {
				return err
			}
		}
	}
	return nil
}
