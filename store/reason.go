package store

import (
	"strings"
	"time"
)

// A Reason is the reason why a task cannot start.
type Reason struct {
	Kind ReasonKind `json:"kind"`
	// Detail is one line for people. Detail contains no time.
	Detail string `json:"detail"`
	// By is the task that must end first, or the item that must first be released from quarantine or
	// resumed.
	By ID `json:"by,omitzero"`
	// Until is the time at which the task can start, if the task waits only for a delay or a rate limit.
	Until time.Time `json:"until,omitzero"`
}

// A ReasonKind is a kind of reason.
type ReasonKind string

// Reasons why a task cannot start.
const (
	// AwaitsStart: a step that must run before the hook of the task has not run in this start yet. Or the module of the
	// task has no directory or cannot be loaded. If it cannot be loaded, its error is in the Detail, after a colon. The
	// task is held.
	AwaitsStart ReasonKind = "start"
	// AwaitsRelease: an item in quarantine holds the task; see [QuarantinedItem.Holds].
	AwaitsRelease ReasonKind = "quarantine"
	// AwaitsResume: a person paused the task's module or hook. The task is held.
	AwaitsResume ReasonKind = "pause"
	// AwaitsQueue: a person paused the task's queue, or all work.
	AwaitsQueue ReasonKind = "queue pause"
	// AwaitsLimit: the rate limit of the task's hook defers the task.
	AwaitsLimit ReasonKind = "rate limit"
	// AwaitsDelay: the task is deferred, because its run has changed values in each pass of a loop.
	AwaitsDelay ReasonKind = "delay"
	// AwaitsRetry: the task has failed, and its delay has not passed yet.
	AwaitsRetry ReasonKind = "retry"
	// AwaitsExclusive: a task of another queue runs exclusively, or must run exclusively next.
	AwaitsExclusive ReasonKind = "exclusive"
	// AwaitsItems: items of this fan-out task in other queues have not ended yet.
	AwaitsItems ReasonKind = "items"
	// AwaitsModules: runs of failing modules have not succeeded yet in their retry queues.
	AwaitsModules ReasonKind = "modules"
)

// Holds reports whether a task with this reason is held: it leaves its queue, and the tasks behind
// it continue. Holds returns false for a nil reason.
func (r *Reason) Holds() bool { return r.Is(AwaitsStart) || r.Is(AwaitsRelease) || r.Is(AwaitsResume) }

// WithoutError returns a copy of the reason without the error of a module that cannot be loaded. This
// error can quote the output of a hook.
func (r *Reason) WithoutError() *Reason {
	short := *r
	if r.Kind == AwaitsStart {
		short.Detail, _, _ = strings.Cut(r.Detail, ": ")
	}
	return &short
}

// Is reports whether the reason is of that kind. Is returns false for a nil reason.
func (r *Reason) Is(kind ReasonKind) bool { return r != nil && r.Kind == kind }

// String returns the reason as one line for people. The line begins with "held" or "deferred" if a
// task with this reason leaves its queue.
func (r *Reason) String() string {
	switch {
	case r.Holds():
		return "held: " + r.Detail
	case r.Is(AwaitsLimit), r.Is(AwaitsDelay):
		return "deferred: " + r.Detail
	default:
		return r.Detail
	}
}
