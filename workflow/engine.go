// Package workflow is the engine, which runs graphs and stores their tasks in durable queues.
//
// A trigger raises events, and each event adds a task to a queue. A transition is one transaction
// of the engine. A transition claims the first task of the queue, and then a worker executes the
// step of this task. Another transition ends the task: it writes the result, removes the task, adds
// the tasks of the next edges, and claims the next task of the queue for the same worker. So the
// store always has exactly the pending tasks, and a new process continues with them.
//
// A step reports facts and never decides which node comes next; the graph does.
//
// Words for tasks whose step does not run, or does not run to its end:
//
//	drop       remove a task that does not run, and record why
//	cancel     an attempt: end its context, which sends SIGTERM to a hook;
//	           pending tasks: drop those that wait, and abandon those that run
//	abandon    let a task that runs, or has begun its effects, end without a result
//	withdraw   drop waiting events of a hook, because a step says that they need no delivery
//	supersede  drop and abandon the tasks of a run, because another run does their work
//	join       keep only one of two equal waiting tasks
//	coalesce   replace a waiting event by a newer event of the same object
package workflow

import (
	"fmt"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// An Engine runs its graphs with the queues of one store.
type Engine struct {
	db       *store.DB
	observer Observer
	graphs   graphs

	// ContinueOnFailure moves the run of a failing module to a retry queue, so that the tasks
	// behind the run continue. The last step of a converge waits for those module runs of the
	// converge that are in retry queues. ContinueOnFailure must be set before Start.
	ContinueOnFailure bool

	// NewContainer is set if this process runs in another container than the previous process. Files
	// that earlier steps left in the previous container are gone, so runs of modules that were in
	// progress start over at their first node. NewContainer must be set before Start.
	NewContainer bool

	// Checkpoint is called at each [Moment] that an attempt reaches. The worker waits until
	// Checkpoint returns. Checkpoint is nil except in crash tests, which kill the process at such a
	// Moment. Checkpoint must be set before Start.
	Checkpoint func(t Task, at Moment)

	sizes    sizes
	workers  workers
	alarms   alarms
	attempts attempts
}

// New returns an engine that runs the graphs of implementations through the queues of db. New fails
// if a graph is invalid, if nodes and steps do not match, or if two graphs share a name or a
// trigger.
func New(db *store.DB, observer Observer, implementations ...Implementation) (*Engine, error) {
	e := &Engine{
		db: db, observer: observer, sizes: sizes{backlog: mostEvents, batch: batchTasks},
		graphs: graphs{named: map[string]*bound{}, triggers: map[graph.Trigger]*bound{}},
	}
	for _, implementation := range implementations {
		if err := implementation.check(); err != nil {
			return nil, err
		}
		name := implementation.Graph.Name
		if e.graphs.named[name] != nil {
			return nil, fmt.Errorf("two graphs are named %s", name)
		}
		b := &bound{Implementation: implementation, nodes: map[graph.NodeID]*graph.Node{}, rewinds: map[graph.NodeID]bool{}}
		for i := range b.Graph.Nodes {
			b.nodes[b.Graph.Nodes[i].ID] = &b.Graph.Nodes[i]
		}
		for _, edge := range b.Graph.Edges {
			if edge.Place == graph.Rewind {
				b.rewinds[edge.To] = true
			}
		}
		for on := range b.Graph.Triggers {
			if other := e.graphs.triggers[on]; other != nil {
				return nil, fmt.Errorf("trigger %q starts runs of both graph %s and graph %s", on, other.Graph.Name, name)
			}
			e.graphs.triggers[on] = b
		}
		e.graphs.named[name] = b
	}
	return e, nil
}
