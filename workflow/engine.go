// Package workflow is the engine: it walks graphs through durable queues.
//
// A trigger raises events, each of which puts a task in a queue. A worker takes
// the first task of its queue, does the task's step, and ends the task in one
// transaction, the move: it writes the result, takes the task away, puts those
// that the graph's edges lead to, and claims what then stands first. So at any
// instant the store says exactly what is done and what is pending, and a new
// process goes on from there.
//
// A step reports facts and never decides what comes next; the graph does.
package workflow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// An Engine walks the graphs it was bound to through the queues of one store.
type Engine struct {
	db       *store.DB
	observer Observer
	graphs   map[string]*bound
	triggers map[graph.Trigger]*bound

	ctx      context.Context //nolint:containedctx // the workers' life: set by Start, ended by Stop
	cancel   context.CancelFunc
	workers  sync.WaitGroup
	stopping atomic.Bool

	mu     sync.Mutex
	timers map[string]*alarm // by queue; "" for tasks that are due later; guarded by mu
	closed bool              // no timer is armed any more; guarded by mu
}

// An alarm wakes a queue when its head is due.
type alarm struct {
	timer *time.Timer
	due   time.Time
}

// bound is a graph with its steps, indexed.
type bound struct {
	Binding
	nodes map[graph.NodeID]*graph.Node
	cuts  map[graph.NodeID]bool // nodes that cuts lead back to
}

// New returns an engine that walks bindings' graphs through the queues of db.
// It fails when a graph is not whole or a node has no step.
func New(db *store.DB, observer Observer, bindings ...Binding) (*Engine, error) {
	e := &Engine{
		db: db, observer: observer,
		graphs: map[string]*bound{}, triggers: map[graph.Trigger]*bound{}, timers: map[string]*alarm{},
	}
	for _, binding := range bindings {
		if err := binding.check(); err != nil {
			return nil, err
		}
		b := &bound{Binding: binding, nodes: map[graph.NodeID]*graph.Node{}, cuts: map[graph.NodeID]bool{}}
		for i := range b.Graph.Nodes {
			b.nodes[b.Graph.Nodes[i].ID] = &b.Graph.Nodes[i]
		}
		for _, edge := range b.Graph.Edges {
			if edge.Put == graph.Cut {
				b.cuts[edge.To] = true
			}
		}
		for on := range b.Graph.Triggers {
			e.triggers[on] = b
		}
		e.graphs[b.Graph.Name] = b
	}
	return e, nil
}

// Start lets the workers begin. The events that begin returns are raised in the
// transaction that gives the workers their first tasks, so that they come in
// their order among what was pending. Pending work goes on where it stood. The
// workers end when Stop is called, or when the store is closed.
func (e *Engine) Start(begin func(*store.Tx) ([]Event, error)) error {
	e.ctx, e.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // a worker's life ends by Stop, after a grace period that outlasts the caller's context
	return e.update(func(m *move) error {
		events, err := begin(m.tx)
		if err != nil {
			return err
		}
		if err := m.raise(events); err != nil {
			return err
		}
		for queue, err := range store.AllQueues(m.tx) {
			if err != nil {
				return err
			}
			m.touch(queue)
		}
		return m.armLater()
	})
}

// Drain ends the claiming of tasks: what runs goes on to its move, and nothing
// after it is begun.
func (e *Engine) Drain() {
	e.stopping.Store(true)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, a := range e.timers {
		a.timer.Stop()
	}
}

// Stop drains the engine, cancels the context of the steps that run, and
// returns when all workers have ended. A step that ends with an error
// because of it was interrupted: its task is done again by the next life.
func (e *Engine) Stop() {
	e.Drain()
	if e.cancel != nil {
		e.cancel()
	}
	e.workers.Wait()
}

// Wait returns when no worker runs. Together with Drain it lets what runs come
// to its end.
func (e *Engine) Wait() { e.workers.Wait() }

// update runs fn as one move and lets loose the workers it gave tasks to.
func (e *Engine) update(fn func(*move) error) error {
	return e.db.Update(func(tx *store.Tx) error {
		m := newMove(e, tx)
		if err := fn(m); err != nil {
			return err
		}
		return m.end()
	})
}

// work does c and what follows it in its queue, until nothing there can be
// done now.
func (e *Engine) work(c *claim) {
	defer e.workers.Done()
	for c != nil {
		next, err := e.turn(e.ctx, c)
		if err != nil {
			if e.observer.Broken != nil && !errors.Is(err, context.Canceled) {
				e.observer.Broken(c.task.Queue, err)
			}
			return
		}
		c = next
	}
}

// begin starts a worker on c. It is called after the commit that claimed it.
func (e *Engine) begin(c *claim) {
	e.workers.Add(1)
	go e.work(c)
}

// poke looks whether the first task of queue can be done now.
func (e *Engine) poke(queue string) {
	err := e.update(func(m *move) error {
		m.touch(queue)
		return nil
	})
	if err != nil && e.observer.Broken != nil {
		e.observer.Broken(queue, err)
	}
}

// arm has queue looked at when due has come. An earlier alarm stays.
func (e *Engine) arm(queue string, now, due time.Time, wake func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	if a := e.timers[queue]; a != nil {
		if !a.due.After(due) && a.due.After(now) {
			return
		}
		a.timer.Stop()
	}
	e.timers[queue] = &alarm{due: due, timer: time.AfterFunc(due.Sub(now), wake)}
}

// bound returns the graph and the node of t.
func (e *Engine) boundTo(t *store.Task) (*bound, *graph.Node, error) {
	b := e.graphs[t.Graph]
	if b == nil {
		return nil, nil, fmt.Errorf("task %s is of graph %q, which this version does not have", t.ID, t.Graph)
	}
	n := b.nodes[graph.NodeID(t.Node)]
	if n == nil {
		return nil, nil, fmt.Errorf("task %s is at node %q of graph %s, which this version does not have", t.ID, t.Node, t.Graph)
	}
	return b, n, nil
}
