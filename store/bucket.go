package store

import (
	"time"

	"addon-operator/workflow/graph"
)

// A Bucket is the token bucket of a hook with a rate limit.
type Bucket struct {
	// Full is the time at which the bucket is full, so that the hook may run as often in a row as
	// its burst allows.
	Full time.Time `json:"full"`
	// Deferrals describes the deferred tasks of the hook in each queue.
	Deferrals map[string]Deferral `json:"putOff,omitempty"`
}

// A Deferral has the due time of the deferred tasks of a hook in a queue, and the time between two
// runs.
type Deferral struct {
	Due   time.Time     `json:"due"`
	Every time.Duration `json:"every"`
	// Tasks is the number of tasks deferred so far.
	Tasks int `json:"tasks"`
	// Expedited is the newest task to which the rate limit does not apply, because a person
	// expedited it. The limit does not apply to the tasks deferred before it either. It is zero if
	// there is none.
	Expedited ID `json:"expedited,omitzero"`
	// Returned is the last deferred task that has returned to the queue, in slot ReturnedTo, before
	// a transition that had no room for the others. While the task is in that slot, all newer tasks
	// of the hook that have not begun are behind it.
	Returned   ID     `json:"returned,omitzero"`
	ReturnedTo uint64 `json:"returnedTo,omitempty"`
}

// Expedites reports whether the rate limit does not apply to the task id.
func (p Deferral) Expedites(id ID) bool { return !p.Expedited.IsZero() && !p.Expedited.Before(id) }

// BucketKey returns the key of the bucket of s's hook.
func BucketKey(s graph.Subject) Key { return At(Buckets).Str(s.Module).Str(s.Hook) }
