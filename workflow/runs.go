package workflow

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"addon-operator/store"
)

// record adds r to history.
func (m *transition) record(r store.Record) error {
	r.Ended = m.now
	if err := store.AddRecord(m.tx, r); err != nil {
		return err
	}
	if f := m.e.observer.Recorded; f != nil {
		m.tx.OnCommit(func() { f(r) })
	}
	return nil
}

// recordOf returns a record of t with state.
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
func (m *transition) count(run uint64, n int) {
	if m.runs == nil {
		m.runs = map[uint64]int{}
	}
	m.runs[run] += n
}

// join has run point to the one that goes on in its stead, should it end.
func (m *transition) join(run, into uint64) {
	if run == into {
		return
	}
	if m.joined == nil {
		m.joined = map[uint64]uint64{}
	}
	m.joined[run] = into
}

// warn sets the warning of run.
func (m *transition) warn(run uint64, warning string) {
	if m.warnings == nil {
		m.warnings = map[uint64]string{}
	}
	m.warnings[run] = warning
	m.count(run, 0) // so that the run is saved
}

// beginRun makes a new run for w's trigger.
func (m *transition) beginRun(w store.Run) (uint64, error) {
	id, err := store.NextRun(m.tx)
	if err != nil {
		return 0, err
	}
	w.ID, w.Began = id, m.now
	m.begun = append(m.begun, id)
	m.count(id, 0)
	// It is written at once, so that the next one gets another number.
	return id, store.Save(m.tx, store.RunKey(id), w)
}

// saveRuns writes the runs whose number of tasks has changed. A step may have
// raised events in the same transaction, so what is written there counts.
func (m *transition) saveRuns() error {
	for _, id := range slices.Sorted(maps.Keys(m.runs)) {
		begun := slices.Contains(m.begun, id)
		if m.runs[id] == 0 && !begun && m.warnings[id] == "" {
			continue
		}
		w, ok, err := store.Load[store.Run](m.tx, store.RunKey(id))
		if err != nil {
			return err
		}
		if !ok {
			w.ID = id // its tasks outlived its record, which is no reason to stop
		}
		w.Open += m.runs[id]
		w.Warning = cmp.Or(m.warnings[id], w.Warning)
		if w.Ended, w.Joined = (time.Time{}), 0; w.Open == 0 {
			w.Ended, w.Joined = m.now, m.joined[id]
		}
		if err := store.Save(m.tx, store.RunKey(id), w); err != nil {
			return err
		}
		m.announce(w, begun)
	}
	return nil
}

func (m *transition) announce(w store.Run, begun bool) {
	if f := m.e.observer.Raised; f != nil && begun {
		m.tx.OnCommit(func() { f(w) })
	}
	if f := m.e.observer.Ended; f != nil && w.Open == 0 {
		m.tx.OnCommit(func() { f(w) })
	}
}
