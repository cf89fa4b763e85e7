package workflow

import "errors"

// ErrNoTask is returned for an ID that no pending task has. [Engine.Find] returns ErrNoTask for a
// name that no pending or quarantined task has.
var ErrNoTask = errors.New("no pending task has this id")

// ErrRuns is returned for a task that cannot be changed, because its attempt runs, or because the
// attempt or the journal of another task covers it.
var ErrRuns = errors.New("the task is running")

// ErrWaitsForItems is returned for a fan-out task that can be neither skipped nor canceled, because
// it only waits for its items.
var ErrWaitsForItems = errors.New("the task waits for its items")

// ErrHeld is returned for a held task, which can be neither retried nor released.
var ErrHeld = errors.New("the task is held")

// ErrNotRunning is returned for a task without a running attempt.
var ErrNotRunning = errors.New("the task is not running")

// ErrNotFailed is returned for a queued task that has not failed, and thus cannot be retried.
var ErrNotFailed = errors.New("the task has not failed")

// ErrQuarantined is returned for a task in quarantine, which can only be released or skipped.
var ErrQuarantined = errors.New("the task is in quarantine")

// ErrNotQuarantined is returned for a pending task that is not in quarantine, and thus cannot be released.
var ErrNotQuarantined = errors.New("the task is not in quarantine")

// ErrAmbiguous is returned for a name that several tasks share.
var ErrAmbiguous = errors.New("several tasks have this name; give the id of one")
