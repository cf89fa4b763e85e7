package store

import (
	"errors"
	"iter"
	"time"

	"addon-operator/workflow/graph"
)

// A Run is all work that follows from one occurrence of a trigger.
type Run struct {
	ID      uint64        `json:"id"`
	Graph   string        `json:"graph"`
	Trigger string        `json:"trigger"`
	Cause   Cause         `json:"cause,omitzero"`
	Subject graph.Subject `json:"subject,omitzero"`
	Began   time.Time     `json:"began"`
	// Open is the number of pending tasks of the run. When Open is zero, the run has ended.
	Open  int       `json:"open"`
	Ended time.Time `json:"ended,omitzero"`
	// Joined is the run that continues the work of this one.
	Joined uint64 `json:"joined,omitempty"`
	// Warning is the warning of the last step that ended with a warning.
	Warning string `json:"warning,omitempty"`
}

// A Cause describes why a trigger started a run.
type Cause struct {
	// Object is the changed object, as "Kind namespace/name".
	Object          string `json:"object,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Event is Added, Modified or Deleted.
	Event string `json:"event,omitempty"`
	// Manager is the field manager that changed the object last; empty for a deleted object.
	Manager string `json:"manager,omitempty"`
	// By is the person who requested the run.
	By     string `json:"by,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// RunKey returns the key of the run with this id.
func RunKey(id uint64) Key { return At(Runs).Uint(id) }

// NextRun returns the number of the next run.
func NextRun(tx *Tx) (uint64, error) {
	for k := range tx.Backwards(At(Runs)) {
		parts, err := k.Parts()
		return parts.Uint() + 1, errors.Join(err, parts.Err())
	}
	return 1, nil
}

// RunsBackwards yields the runs, newest first.
func RunsBackwards(tx *Tx) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		for k := range tx.Backwards(At(Runs)) {
			run, _, err := Load[Run](tx, k)
			if !yield(run, err) {
				return
			}
		}
	}
}

// A State is the result of a task or attempt.
type State string

// States of records in history.
const (
	Done        State = "done"        // succeeded
	Failed      State = "failed"      // failed and is retried
	Allowed     State = "allowed"     // failed, but the binding allows failures
	Skipped     State = "skipped"     // a person skipped the task
	Dropped     State = "dropped"     // not run, or the result is ignored, for example because the subject is gone
	Superseded  State = "superseded"  // another task replaced the task
	Joined      State = "joined"      // another task, which was waiting already, does the work
	Quarantined State = "quarantined" // put into quarantine, or left out because of a quarantine or a pause
)

// A Record is one line of history: the result of one attempt or task.
type Record struct {
	Run     uint64        `json:"walk"`
	Task    ID            `json:"task"`
	Node    string        `json:"node"`
	Subject graph.Subject `json:"subject,omitzero"`
	Queue   string        `json:"queue"`
	State   State         `json:"state"`
	Queued  time.Time     `json:"queued,omitzero"`
	Began   time.Time     `json:"began,omitzero"`
	Ended   time.Time     `json:"ended"`
	Try     int           `json:"try,omitempty"`
	// Again is set if an earlier process began the same work and did not end it.
	Again bool     `json:"again,omitempty"`
	Facts []string `json:"facts,omitempty"`
	// Merged is the number of tasks in the batch of this attempt; zero for a single task.
	Merged int    `json:"merged,omitempty"`
	Error  string `json:"error,omitempty"`
	// Detail is one line in which the step describes the result.
	Detail string `json:"detail,omitempty"`
	// Warning is one line about a result that needs attention although the step succeeded.
	Warning string `json:"warning,omitempty"`
	// Output is the output of the step, such as stdout and stderr of a hook, up to a limit. The
	// output can contain secrets.
	Output string `json:"output,omitempty"`
	// Changes are the changed values; nil if there are none. The changes contain no secrets.
	Changes *ValueChanges `json:"changes,omitempty"`
	// Into names the task that does the work instead, or the quarantined item or pause that holds the work.
	Into string `json:"into,omitempty"`
	// Omitted is the number of later attempts of the same step in this run whose records were deleted.
	Omitted int `json:"omitted,omitempty"`
}

// AddRecord appends r to the history of its run.
func AddRecord(tx *Tx, r Record) error {
	return Save(tx, At(History).Uint(r.Run).Uint(tx.Epoch()).Uint(tx.NextID()), r)
}

// RecordsOf yields the records of the history of a run, oldest first.
func RecordsOf(tx *Tx, run uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for k := range tx.Range(At(History).Uint(run)) {
			r, _, err := Load[Record](tx, k)
			if !yield(r, err) {
				return
			}
		}
	}
}

// TrimHistory deletes finished runs and their history, in the order of their numbers. It deletes runs of any age until
// it has freed the number of bytes in the argument excess. After that, it deletes only runs that ended before the given
// time, and stops at the first run that ended later. The argument limit is the maximum number of records that one call
// deletes. The limit includes the records of the runs themselves, because some runs have no history: they have ended in
// the batch of another run. TrimHistory returns the number of freed bytes, and whether it must be called again. It
// never deletes the newest run.
func TrimHistory(tx *Tx, before time.Time, excess int64, limit int) (freed int64, more bool, err error) {
	newest, err := NextRun(tx)
	if err != nil {
		return 0, false, err
	}
	for k, v := range tx.Range(At(Runs)) {
		run, _, err := Load[Run](tx, k)
		if damaged := (*RecordError)(nil); errors.As(err, &damaged) {
			continue
		}
		if err != nil {
			return freed, false, err
		}
		if run.Open > 0 || run.ID+1 == newest {
			continue
		}
		if !run.Ended.Before(before) && freed >= excess {
			return freed, false, nil
		}
		for hk, hv := range tx.Range(At(History).Uint(run.ID)) {
			if limit--; limit < 0 {
				return freed, true, nil
			}
			freed += int64(len(hk) + len(hv))
			tx.Delete(hk)
		}
		if limit--; limit < 0 {
			return freed, true, nil
		}
		freed += int64(len(k) + len(v))
		tx.Delete(k)
	}
	return freed, false, nil
}
