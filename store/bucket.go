package store

import (
	"time"

	"addon-operator/workflow/graph"
)

// A Bucket is the token bucket of a hook with a rate limit.
type Bucket struct {
	// Full is the time at which the bucket is full again. From that time on, the rate limit allows
	// the hook as many consecutive runs as its burst.
	Full time.Time `json:"full"`
	// Deferrals describes the deferred tasks of the hook, by queue.
	Deferrals map[string]Deferral `json:"putOff,omitempty"`
}

// A Deferral describes the deferred tasks of a hook in one queue. The field Due is the time at which these tasks are
// due. On average, the rate limit of the hook allows one run in the time Every.
type Deferral struct {
	Due   time.Time     `json:"due"`
	Every time.Duration `json:"every"`
	// Tasks is the number of tasks that were deferred since the Deferral began, including those that have returned.
	Tasks int `json:"tasks"`
	// Expedited is the ID of the newest task that a person has expedited; zero if there is none.
	// The rate limit applies neither to that task nor to older tasks of the hook in this queue,
	// until an attempt at one of these tasks fails.
	Expedited ID `json:"expedited,omitzero"`
	// Returned is the ID of the deferred task that was the last to return to the queue in an earlier
	// transition, and ReturnedTo is the slot of that task; both are zero if they are not known. While
	// the task is in that slot, all newer tasks of the hook that have not begun are behind it.
	Returned   ID     `json:"returned,omitzero"`
	ReturnedTo uint64 `json:"returnedTo,omitempty"`
}

// Expedites reports whether the task with this ID is exempt from the rate limit because a person has expedited tasks.
func (p Deferral) Expedites(id ID) bool { return !p.Expedited.IsZero() && !p.Expedited.Before(id) }

// BucketKey returns the key of the bucket of s's hook.
func BucketKey(s graph.Subject) Key { return At(Buckets).Str(s.Module).Str(s.Hook) }
