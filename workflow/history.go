package workflow

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"addon-operator/store"
)

// history writes the records of runs and attempts. The record of a run counts the tasks of the run.
// The run ends in the transition that removes its last task.
type history struct {
	*txn

	runs     map[uint64]int    // change in the number of tasks of each run
	begun    []uint64          // runs that begin with the transition
	joined   map[uint64]uint64 // runs that can end in this transition, each with the run that continues its work
	warnings map[uint64]string // new warnings of runs
}

// record adds r to history.
func (h *history) record(r store.Record) error {
	r.Ended = h.now
	if err := store.AddRecord(h.tx, r); err != nil {
		return err
	}
	if f := h.observer.Recorded; f != nil {
		h.tx.OnCommit(func() { f(r) })
	}
	return nil
}

// recordOf returns a record of history for t with this state.
func recordOf(t *store.Task, state store.State) store.Record {
	r := store.Record{
		Run: t.Run, Task: t.ID, Node: t.Node, Subject: t.Subject, Queue: t.Queue, Queued: t.Queued, State: state,
	}
	if t.Claim != nil {
		r.Began, r.Again = t.Claim.Since, t.Claim.Again
	}
	return r
}

// count changes the number of tasks of run by n.
func (h *history) count(run uint64, n int) {
	if h.runs == nil {
		h.runs = map[uint64]int{}
	}
	if _, ok := h.runs[run]; !ok {
		h.reserved.keys++
		h.reserved.bytes += runBytes
	}
	h.runs[run] += n
}

// forgetCounts discards the changes of counts in this transition.
func (h *history) forgetCounts() { h.runs, h.reserved = nil, cost{} }

// join records that the run with the number into continues the work of run. If run ends in this
// transition, its record names the run that continues its work.
func (h *history) join(run, into uint64) {
	if run == into {
		return
	}
	if h.joined == nil {
		h.joined = map[uint64]uint64{}
	}
	h.joined[run] = into
}

// warn sets the warning of run.
func (h *history) warn(run uint64, warning string) {
	if h.warnings == nil {
		h.warnings = map[uint64]string{}
	}
	h.warnings[run] = warning
	h.count(run, 0) // so that saveRuns saves the run
}

// beginRun creates the record of a new run, and returns its number.
func (h *history) beginRun(run store.Run) (uint64, error) {
	id, err := store.NextRun(h.tx)
	if err != nil {
		return 0, err
	}
	run.ID, run.Began = id, h.now
	h.begun = append(h.begun, id)
	h.count(id, 0)
	// The record is written at once, so that the next run gets another number.
	return id, store.Save(h.tx, store.RunKey(id), run)
}

// saveRuns updates the records of the runs that are new, or have a new warning or a changed number
// of tasks. saveRuns reads the records again, because a step may have raised events in the same
// transaction.
func (h *history) saveRuns() error {
	for _, id := range slices.Sorted(maps.Keys(h.runs)) {
		begun := slices.Contains(h.begun, id)
		if h.runs[id] == 0 && !begun && h.warnings[id] == "" {
			continue
		}
		run, ok, err := store.Load[store.Run](h.tx, store.RunKey(id))
		if err != nil {
			return err
		}
		if !ok {
			run.ID = id // the record was lost and is created again
		}
		run.Open += h.runs[id]
		run.Warning = cmp.Or(h.warnings[id], run.Warning)
		if run.Ended, run.Joined = (time.Time{}), 0; run.Open == 0 {
			run.Ended, run.Joined = h.now, h.joined[id]
		}
		if err := store.Save(h.tx, store.RunKey(id), run); err != nil {
			return err
		}
		h.announce(run, begun)
	}
	return nil
}

func (h *history) announce(run store.Run, begun bool) {
	if f := h.observer.Raised; f != nil && begun {
		h.tx.OnCommit(func() { f(run) })
	}
	if f := h.observer.Ended; f != nil && run.Open == 0 {
		h.tx.OnCommit(func() { f(run) })
	}
}
