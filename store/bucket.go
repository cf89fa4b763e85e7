package store

import (
	"time"

	"addon-operator/workflow/graph"
)

// A Bucket is what is left of a hook's runs when no more than some are allowed
// in a time.
type Bucket struct {
	// Full is when as many may follow each other as the hook's burst says.
	Full time.Time `json:"full"`
	// Deferral says of each queue when what of the hook was put off is due.
	Deferrals map[string]Deferral `json:"putOff,omitempty"`
}

// A Deferral says when what was put off is due, and in what time one run is
// allowed.
type Deferral struct {
	Due   time.Time     `json:"due"`
	Every time.Duration `json:"every"`
	// Tasks is how many were put off so far.
	Tasks int `json:"tasks"`
	// Expedited is the newest task that a person has released from the rate limit, with all
	// that were deferred before it; zero if none is.
	Expedited ID `json:"expedited,omitzero"`
}

// Expedites reports whether the rate limit does not apply to the task id.
func (p Deferral) Expedites(id ID) bool { return !p.Expedited.IsZero() && !p.Expedited.Before(id) }

// BucketKey returns the key of the bucket of s's hook.
func BucketKey(s graph.Subject) Key { return At(Buckets).Str(s.Module).Str(s.Hook) }
