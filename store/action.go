package store

import (
	"errors"
	"iter"
	"slices"
	"time"

	"addon-operator/workflow/graph"
)

// mostActions is the maximum number of stored actions.
const mostActions = 1000

// An Action is one use of a command with which a person changes the work of the operator, such as a pause or the skip
// of a task.
type Action struct {
	At time.Time `json:"at"`
	By string    `json:"by"`
	// Verb is the command without its arguments, such as "task retry".
	Verb string `json:"verb"`
	// The field What has the arguments of the command, such as the kind and the name of the work. It is empty for a
	// command without arguments, such as a reload.
	What   string `json:"what,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Subject, Queue, Task and Run identify the target of the action. A field that is not known is zero.
	Subject graph.Subject `json:"subject,omitzero"`
	Queue   string        `json:"queue,omitempty"`
	Task    ID            `json:"task,omitzero"`
	Run     uint64        `json:"run,omitempty"`
}

// AddAction stores the action a with the time of tx, and truncates long texts of the action. It deletes the oldest
// actions, so that at most mostActions are stored.
func AddAction(tx *Tx, a Action) error {
	a.At = tx.Now()
	a.By, a.What, a.Reason = truncated(a.By), truncated(a.What), truncated(a.Reason)
	deleteOldest(tx, Actions, mostActions-1)
	return Save(tx, At(Actions).Uint(tx.Epoch()).Uint(tx.NextID()), a)
}

// ActionsBackwards yields the actions, newest first. It skips records that cannot be read.
func ActionsBackwards(tx *Tx) iter.Seq2[Action, error] { return readableBackwards[Action](tx, Actions) }

// ActionsAfter returns the actions that are newer than the action whose ID is the argument after, oldest first. It
// skips records that cannot be read. The result last is the ID of the newest action, or equal to after if no action
// is newer.
func ActionsAfter(tx *Tx, after ID) (actions []Action, last ID, err error) {
	last = after
	for k := range tx.Backwards(At(Actions)) {
		parts, err := k.Parts()
		if err != nil {
			return nil, after, err
		}
		id := ID{Epoch: parts.Uint(), N: parts.Uint()}
		if err := parts.Err(); err != nil {
			return nil, after, err
		}
		if !after.Before(id) {
			break
		}
		if last.Before(id) {
			last = id
		}
		a, ok, err := Load[Action](tx, k)
		if damaged := (*RecordError)(nil); errors.As(err, &damaged) {
			continue
		}
		if err != nil {
			return nil, after, err
		}
		if ok {
			actions = append(actions, a)
		}
	}
	slices.Reverse(actions)
	return actions, last, nil
}
