package workflow

import (
	"addon-operator/store"
)

// An Observer is told what happens, after it was committed. Nil functions are
// silence. The functions are called by the workers and must not block.
type Observer struct {
	// Began is called when a task's step begins.
	Began func(t Task)
	// Recorded is called for each line of history.
	Recorded func(r store.Record)
	// Raised is called for each walk a trigger begins.
	Raised func(w store.Walk)
	// Ended is called for each walk that has ended.
	Ended func(w store.Walk)
	// Looped is called when a circle of the graph was closed for the third time
	// in a row or more, and waits before it goes on.
	Looped func(t store.Task)
	// Broken is called when the engine itself cannot go on with a queue; with
	// "", with what is due later. While the disk is full it tries again.
	Broken func(queue string, err error)
}
