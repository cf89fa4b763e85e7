// Package workflow is the engine: it runs graphs through durable queues.
//
// A trigger raises events, each of which puts a task in a queue. A worker takes
// the first task of its queue, does the task's step, and ends the task in one
// transaction, the transition: it writes the result, takes the task away, puts those
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

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// An Engine runs the graphs it was bound to through the queues of one store.
type Engine struct {
	db       *store.DB
	observer Observer
	graphs   map[string]*bound
	triggers map[graph.Trigger]*bound

	// ContinueOnFailure lets the run of a module that fails go on in a lane of its own, while what is
	// behind it goes on, too. The last step of a converge waits for it. It is set before Start.
	ContinueOnFailure bool

	// NewContainer is set where this process runs in another container than the one before it. Files
	// that earlier steps left in that container are gone, so runs of modules that were in progress
	// start over at their first node. It is set before Start.
	NewContainer bool

	ctx    context.Context //nolint:containedctx // the workers' life: set by Start, ended by Stop
	cancel context.CancelFunc

	mu      sync.Mutex
	idle    sync.Cond // signalled when working becomes 0
	open    bool      // tasks are claimed and alarms set: from Start to Drain; guarded by mu
	working int       // goroutines of the engine; guarded by mu
	// attempts are those under way; guarded by mu.
	attempts map[*claim]struct{}
	loaded   int // bytes of the payloads of their batches; guarded by mu
	// alarms go off when the head of a queue, whose name they have, or what is
	// due later, laterAlarm, is due; guarded by mu.
	alarms map[string]*alarm
}

// bound is a graph with its steps, indexed.
type bound struct {
	Binding
	nodes   map[graph.NodeID]*graph.Node
	rewinds map[graph.NodeID]bool // nodes that cuts lead back to
}

// New returns an engine that runs bindings' graphs through the queues of db.
// It fails when a graph is not whole, a node has no step, or two graphs share a
// name or a trigger.
func New(db *store.DB, observer Observer, bindings ...Binding) (*Engine, error) {
	e := &Engine{
		db: db, observer: observer,
		graphs: map[string]*bound{}, triggers: map[graph.Trigger]*bound{}, alarms: map[string]*alarm{},
		attempts: map[*claim]struct{}{},
	}
	e.idle.L = &e.mu
	for _, binding := range bindings {
		if err := binding.check(); err != nil {
			return nil, err
		}
		name := binding.Graph.Name
		if e.graphs[name] != nil {
			return nil, fmt.Errorf("two graphs are named %s", name)
		}
		b := &bound{Binding: binding, nodes: map[graph.NodeID]*graph.Node{}, rewinds: map[graph.NodeID]bool{}}
		for i := range b.Graph.Nodes {
			b.nodes[b.Graph.Nodes[i].ID] = &b.Graph.Nodes[i]
		}
		for _, edge := range b.Graph.Edges {
			if edge.Place == graph.Rewind {
				b.rewinds[edge.To] = true
			}
		}
		for on := range b.Graph.Triggers {
			if other := e.triggers[on]; other != nil {
				return nil, fmt.Errorf("trigger %q begins walks of both graph %s and graph %s", on, other.Graph.Name, name)
			}
			e.triggers[on] = b
		}
		e.graphs[name] = b
	}
	return e, nil
}

// Start lets the workers begin. The events that begin returns are raised in the
// transaction that gives the workers their first tasks, so that they come in
// their order among what was pending; it may be called again when that has to be
// done anew. Pending work goes on where it stood. The workers end when Stop is
// called, or when the store is closed. An engine is started once in the life of
// its store. On a full disk, Start waits for room until Stop is called.
func (e *Engine) Start(begin func(*store.Tx) ([]Event, error)) error {
	e.mu.Lock()
	e.ctx, e.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // a worker's life ends by Stop, after a grace period that outlasts the caller's context
	e.open = true
	e.mu.Unlock()
	err := e.db.WithRoom(e.ctx, func() error { return e.start(begin) })
	if err != nil {
		e.Drain()
	}
	return err
}

// start gives the workers their first tasks.
func (e *Engine) start(begin func(*store.Tx) ([]Event, error)) error {
	return e.update(func(m *transition) error {
		if err := m.beginEpoch(); err != nil {
			return err
		}
		if err := m.continuePreparation(); err != nil {
			return err
		}
		if e.NewContainer {
			if err := m.prepare(preparation{}); err != nil {
				return err
			}
		}
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
		if err := m.resumeHeld(); err != nil {
			return err
		}
		if err := m.bringInExpedited(); err != nil {
			return err
		}
		return m.armLater()
	})
}

// Drain ends the claiming of tasks: what runs goes on to its move, and nothing
// after it is begun. The store knows then that this life has ended as it was
// meant to, whatever becomes of the process.
func (e *Engine) Drain() {
	if e.close() {
		e.endEpoch()
	}
}

// close ends the claiming of tasks and the alarms, and reports whether that had
// not been done.
func (e *Engine) close() (was bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	was, e.open = e.open, false
	for _, a := range e.alarms {
		a.timer.Stop()
	}
	clear(e.alarms)
	return was
}

// Stop drains the engine, cancels the context of the steps that run, and
// returns when all workers have ended. A step that ends with an error
// because of it was interrupted: its task is done again by the next life.
func (e *Engine) Stop() {
	e.Drain()
	e.mu.Lock()
	cancel := e.cancel
	e.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	e.Wait()
}

// Wait returns when no worker runs. Together with Drain it lets what runs come
// to its end.
func (e *Engine) Wait() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.working > 0 {
		e.idle.Wait()
	}
}

// run has fn done by a goroutine that Wait waits for, unless the engine claims
// nothing any more.
func (e *Engine) run(fn func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open {
		return
	}
	e.working++
	go func() {
		defer e.done()
		fn()
	}()
}

func (e *Engine) done() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.working--; e.working == 0 {
		e.idle.Broadcast()
	}
}

func (e *Engine) claims() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open
}

// work does c and what follows it in its queue, until nothing there can be
// done now.
func (e *Engine) work(c *claim) {
	for c != nil {
		next, err := e.process(e.ctx, c)
		if err != nil {
			e.broken(c.task.Queue, err)
			if e.db.Err() == nil {
				e.look(c.task.Queue) // what is left of it may go on
			}
			return
		}
		c = next
	}
}

// broken reports that the engine cannot go on with queue. A store that was closed is no news, and
// neither is a full disk: the store reports that itself, and the engine tries again.
func (e *Engine) broken(queue string, err error) {
	if e.observer.Broken != nil && !errors.Is(err, store.ErrClosed) && !errors.Is(err, store.ErrFull) {
		e.observer.Broken(queue, err)
	}
}

// boundTo returns the graph and the node of t.
func (e *Engine) boundTo(t *store.Task) (*bound, *graph.Node, error) {
	b := e.graphs[t.Graph]
	if b == nil {
		return nil, nil, fmt.Errorf("task %s is of graph %q, which this version does not have", t.ID, t.Graph)
	}
	n := b.nodes[graph.NodeID(t.Node)]
	if n == nil {
		return nil, nil, fmt.Errorf("task %s is at node %q of graph %s, which this version does not have", t.ID, t.Node, t.Graph)
	}
	if n.Junction {
		return nil, nil, fmt.Errorf("task %s is at node %q of graph %s, which takes no tasks in this version", t.ID, t.Node, t.Graph)
	}
	return b, n, nil
}
