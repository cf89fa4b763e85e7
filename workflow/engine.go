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
	"addon-operator/store"
)

// An Engine runs the graphs it was bound to through the queues of one store.
type Engine struct {
	db       *store.DB
	observer Observer
	graphs   graphs

	// ContinueOnFailure lets the run of a module that fails go on in a lane of its own, while what is
	// behind it goes on, too. The last step of a converge waits for it. It is set before Start.
	ContinueOnFailure bool

	// NewContainer is set where this process runs in another container than the one before it. Files
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
