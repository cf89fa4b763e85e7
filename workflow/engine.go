// Package workflow is the engine: it runs graphs through durable queues.
//
// A trigger raises events, each of which puts a task in a queue. A worker claims the first task of
// its queue, executes the task's step, and ends the task in one transaction, the transition. A
// transition writes the result, removes the task, adds the tasks of the edges that follow, and
// claims the next task of the queue. So the store always has exactly the tasks that are pending,
// and a new process continues with them.
//
// A step reports facts and never decides which node comes next; the graph does.
package workflow

import (
	"addon-operator/store"
)

// An Engine runs the graphs it was bound to through the queues of one store.
type Engine struct {
	db       *store.DB
	observer Observer
	graphs   graphs

	// ContinueOnFailure moves the run of a failing module to a lane of its own, so that the tasks
	// behind it continue. The last step of a converge waits for it. It is set before Start.
	ContinueOnFailure bool

	// NewContainer is set if this process runs in another container than the previous one. Files
	// that earlier steps left in that container are gone, so runs of modules that were in progress
	// start over at their first node. It is set before Start.
	NewContainer bool

	// Checkpoint is called at each moment of each attempt, by the worker, which waits for its return.
	// It is nil except in crash tests, which kill the process in it. It is set before Start.
	Checkpoint func(t Task, at Moment)

	workers  workers
	alarms   alarms
	attempts attempts
}
