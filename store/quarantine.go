package store

import (
	"iter"
	"slices"
	"strings"
	"time"

	"addon-operator/workflow/graph"
)

// mostEnds is the maximum number of epochs in [Ends.Unclean].
const mostEnds = 64

// Ends is the record of how the epochs of the store ended.
type Ends struct {
	// Begun is the last epoch that began to process tasks, and Ended is the last epoch that recorded its clean exit in
	// this record. A clean exit in the note beside the store does not change Ended; see [DB.ExitedCleanly].
	Begun uint64 `json:"begun,omitempty"`
	Ended uint64 `json:"ended,omitempty"`
	// Unclean are the most recent epochs without a clean exit.
	Unclean []uint64 `json:"unclean,omitempty"`
}

// EndsKey returns the key of the record of type Ends.
func EndsKey() Key { return At(Meta).Str("ends") }

// ExclusiveKey returns the key of the Ref to the task that must run exclusively.
func ExclusiveKey() Key { return At(Meta).Str("alone") }

// PreparationKey returns the key of the record of work that must be complete before the engine
// claims tasks of the main queue or of a parallel queue.
func PreparationKey() Key { return At(Meta).Str("preparation") }

// Begin records that the process of the given epoch begins to process tasks. If the epoch Begun has not recorded a
// clean exit, and exitedCleanly returns false for it, Begin adds this earlier epoch to Unclean.
func (e *Ends) Begin(epoch uint64, exitedCleanly func(epoch uint64) bool) {
	if e.Begun != 0 && e.Ended != e.Begun && !exitedCleanly(e.Begun) {
		e.Unclean = append(e.Unclean, e.Begun)
		e.Unclean = e.Unclean[max(0, len(e.Unclean)-mostEnds):]
	}
	e.Begun = epoch
}

// Crashed reports whether epoch ended without a clean exit.
func (e *Ends) Crashed(epoch uint64) bool { return slices.Contains(e.Unclean, epoch) }

// RecordedEnd returns the epoch of this process if the store has a record of its clean exit; otherwise 0. A clean exit
// in the note beside the store is not such a record.
func RecordedEnd(db *DB) uint64 {
	var ends Ends
	if err := db.View(func(tx *Tx) (err error) {
		ends, _, err = Load[Ends](tx, EndsKey())
		return err
	}); err != nil || ends.Ended != db.Epoch() {
		return 0
	}
	return ends.Ended
}

// A QuarantinedItem prevents work from starting. If Paused is nil, the work has crashed the process several times, and
// waits until a person releases or skips it. If Paused is set, a person has paused the work, and it waits until a
// person resumes it.
type QuarantinedItem struct {
	ID      ID            `json:"id"`
	Graph   string        `json:"graph"`
	Node    string        `json:"node"`
	Subject graph.Subject `json:"subject,omitzero"`
	Queue   string        `json:"queue"`
	Run     uint64        `json:"walk"`
	At      time.Time     `json:"at"`
	Crashes int           `json:"crashes"`
	// Paused is set if the item is a pause. The Node of a pause is empty. If a queue or all work is
	// paused, Subject is empty too. If all work is paused, Queue is also empty.
	Paused *Pause `json:"paused,omitempty"`
	// First and Last are the oldest and the newest task of the item, if its tasks are held in a
	// lane. The lane can also have other events and schedule ticks of the same hook.
	First ID `json:"first,omitzero"`
	Last  ID `json:"last,omitzero"`
	// Standalone is set if the item can run without its fan-out: it belongs to a global hook, or no run waits for it.
	// After the release, only the item runs again, because no new run repeats it.
	Standalone bool `json:"standalone,omitempty"`
	// FanOut is the ID of the fan-out task that waited for the item of a module; zero if none did.
	FanOut ID `json:"fanOut,omitzero"`
	// AllowFailure is set if the binding of the item allows its hook to fail.
	AllowFailure bool `json:"allowFailure,omitempty"`
	// Skips are the steps that the run of the item passes over when it starts over.
	Skips []StepRef `json:"skips,omitempty"`
	// Rerun is set if other runs have skipped this work because it is paused or in quarantine. After the resumption or
	// the release, a new run starts at the node that Rerun names.
	Rerun string `json:"rerun,omitempty"`
	// RerunOf is the last run that skipped this work. The new run has the trigger of that run. RerunOf is zero if an
	// older version has set Rerun.
	RerunOf uint64 `json:"rerunOf,omitempty"`
	// Tasks and Released are only written by older versions. Tasks are the tasks of the item.
	// Released are the items that were released while this item was still in quarantine.
	Tasks    []Task            `json:"tasks,omitempty"`
	Released []QuarantinedItem `json:"released,omitempty"`
}

// QuarantineKey returns the key of the item id in quarantine.
func QuarantineKey(id ID) Key { return At(Quarantine).Uint(id.Epoch).Uint(id.N) }

// QuarantinedItems yields the items in quarantine, oldest first.
func QuarantinedItems(tx *Tx) iter.Seq2[QuarantinedItem, error] {
	return records[QuarantinedItem](tx, At(Quarantine))
}

// QuarantineOf returns the first item, in quarantine or paused, that holds the work on s at the given node of the
// graph; nil if there is none. See [QuarantinedItem.Holds].
func QuarantineOf(tx *Tx, graphName, node string, s graph.Subject) (*QuarantinedItem, error) {
	for q, err := range QuarantinedItems(tx) {
		if err != nil {
			return nil, err
		}
		if q.Holds(graphName, node, s) {
			return &q, nil
		}
	}
	return nil, nil
}

// Reason returns the reason why the work that q holds cannot start.
func (q *QuarantinedItem) Reason() Reason {
	if p := q.Paused; p != nil {
		kind := AwaitsResume
		if q.Subject == (graph.Subject{}) {
			kind = AwaitsQueue
		}
		return Reason{Kind: kind, By: q.ID, Detail: q.paused() + " by " + p.By + ": " + p.Reason}
	}
	what := "module " + q.Subject.Module
	switch {
	case q.Subject.Configuration != "":
		what = "configuration " + q.Subject.Configuration
	case q.Subject.Module == "" && q.Subject.Hook != "":
		what = "global hook " + q.Subject.Hook
	case q.Subject.Module == "":
		what = "step " + q.Node
	}
	return Reason{Kind: AwaitsRelease, By: q.ID, Detail: what + " is in quarantine (task " + q.ID.String() + ")"}
}

// paused describes the paused work.
func (q *QuarantinedItem) paused() string {
	if what := q.What(); len(what) > 1 {
		return strings.Join(what, " ") + " is paused"
	}
	return "all work is paused"
}

// Holds reports whether q prevents the work on s at the given node of the graph from starting. An item holds all work
// of its module, configuration or global hook. A pause of a module's hook holds only that hook. An item without a
// subject holds only the work without a subject at its node. For a pause of a queue or of all work, Holds returns
// false; see [QuarantinedItem.PausesQueue].
func (q *QuarantinedItem) Holds(graphName, node string, s graph.Subject) bool {
	switch {
	case q.Graph != graphName:
		return false
	case q.Subject.Configuration != "":
		return s.Configuration == q.Subject.Configuration
	case q.Subject.Module != "":
		return s.Module == q.Subject.Module && (q.Paused == nil || q.Subject.Hook == "" || q.Subject.Hook == s.Hook)
	case q.Subject.Hook != "":
		return s.Module == "" && s.Hook == q.Subject.Hook
	}
	return s == (graph.Subject{}) && node == q.Node
}
