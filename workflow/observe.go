package workflow

import (
	"errors"
	"time"

	"addon-operator/store"
)

// An Observer is told what happens, after it was committed. Nil functions are
// silence. The functions are called by the workers and must not block.
type Observer struct {
	// Began is called when a task's step begins.
	Began func(t Task)
	// Recorded is called for each line of history.
	Recorded func(r store.Record)
	// Raised is called for each run a trigger begins.
	Raised func(w store.Run)
	// Ended is called for each run that has ended.
	Ended func(w store.Run)
	// Looped is called when a circle of the graph was closed for the third time
	// in a row or more, and waits before it goes on.
	Looped func(t store.Task)
	// Quarantined is called when work that crashes the process is quarantined.
	Quarantined func(q store.QuarantinedItem)
	// Paused is called when a person paused or resumed work.
	Paused func(q store.QuarantinedItem, by string, paused bool)
	// Damaged is called when an unreadable record was moved to the table of damaged records.
	Damaged func(d store.Damaged)
	// Broken is called when the engine itself cannot go on with a queue; with "", with what is due
	// later. It is not called because the disk is full: see [store.DB.Shortage].
	Broken func(queue string, err error)
	// Acted is called for each action on a queue, with how long it took by Clock.
	// Both are there or none.
	Acted func(queue string, action Action, took time.Duration)
	Clock func() time.Time
}

// An Action is something the engine does to a queue.
type Action string

// The actions.
const (
	// PutTime is the time of adding tasks to a queue in the transaction of a trigger.
	PutTime Action = "put"
	// TransitionTime is the time of one transition, including its commit.
	TransitionTime Action = "transition"
)

// time begins to time an action; the returned function ends it for a queue.
func (o Observer) time(action Action) func(queue string) {
	if o.Acted == nil {
		return func(string) {}
	}
	began := o.Clock()
	return func(queue string) { o.Acted(queue, action, o.Clock().Sub(began)) }
}

// broken reports that the engine cannot go on with queue. A store that was closed is no news, and
// neither is a full disk: the store reports that itself, and the engine tries again.
func (o Observer) broken(queue string, err error) {
	if o.Broken != nil && !errors.Is(err, store.ErrClosed) && !errors.Is(err, store.ErrFull) {
		o.Broken(queue, err)
	}
}
