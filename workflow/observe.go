package workflow

import (
	"context"
	"errors"
	"time"

	"addon-operator/store"
)

// An Observer is notified of events. If an event changes the store, the notification comes after the commit, except for
// PutTime. The functions of an Observer can be nil. Workers and commits call these functions, so a function must
// neither block nor write to the store.
type Observer struct {
	// Began is called when an attempt begins.
	Began func(t Task)
	// Context returns the context of an attempt. The result must be derived from ctx, and can have values for the
	// packages that the step calls.
	Context func(ctx context.Context, t Task) context.Context
	// Recorded is called for each line of history.
	Recorded func(r store.Record)
	// Raised is called for each run that begins: after an event of a trigger, or after the end of a
	// quarantine or a pause.
	Raised func(run store.Run)
	// Ended is called for each run that has ended.
	Ended func(run store.Run)
	// Looped is called when a run is delayed because it has taken the same loop edge at least three
	// times in a row.
	Looped func(t store.Task)
	// Quarantined is called when work that crashes the process is quarantined.
	Quarantined func(q store.QuarantinedItem)
	// Paused is called when a person has paused or resumed work.
	Paused func(q store.QuarantinedItem, by string, paused bool)
	// Damaged is called when an unreadable record was moved to the table of damaged records.
	Damaged func(d store.Damaged)
	// Broken is called when the engine itself cannot process a queue. The parameter queue is "" for work that belongs to
	// no queue, such as returning deferred tasks. Broken is not called if the store is closed, or if the disk is full:
	// see [store.DB.Shortage].
	Broken func(queue string, err error)
	// Acted is called after each action on a queue, with the duration of the action. For PutTime, it
	// is called before the commit. Clock returns the current time, and must be set if Acted is set.
	Acted func(queue string, action Action, took time.Duration)
	Clock func() time.Time
}

// An Action is an operation of the engine on a queue.
type Action string

// Actions that are measured.
const (
	// PutTime is the time of adding tasks to a queue in the transaction of a trigger.
	PutTime Action = "put"
	// TransitionTime is the time of one transition that a worker makes for its task, including the commit.
	TransitionTime Action = "transition"
)

// context returns the context of an attempt at t.
func (o Observer) context(ctx context.Context, t Task) context.Context {
	if o.Context == nil {
		return ctx
	}
	return o.Context(ctx, t)
}

// time starts to measure the duration of an action. The returned function must be called at the end
// of the action, and passes the duration and the queue to Acted.
func (o Observer) time(action Action) func(queue string) {
	if o.Acted == nil {
		return func(string) {}
	}
	began := o.Clock()
	return func(queue string) { o.Acted(queue, action, o.Clock().Sub(began)) }
}

// broken reports that the engine cannot process queue. broken ignores a closed store. broken
// ignores a full disk too, because the store reports it, and the engine retries.
func (o Observer) broken(queue string, err error) {
	if o.Broken != nil && !errors.Is(err, store.ErrClosed) && !errors.Is(err, store.ErrFull) {
		o.Broken(queue, err)
	}
}
