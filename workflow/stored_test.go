package workflow_test

import (
	"slices"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
)

// view calls fn with a read transaction of the store.
func (w *fixture) view(fn func(*store.Tx) error) {
	w.t.Helper()
	if err := w.db.View(fn); err != nil {
		w.t.Fatal(err)
	}
}

// pending returns the tasks of queue, the first one first.
func (w *fixture) pending(queue string) (tasks []*store.Task) {
	w.t.Helper()
	w.view(func(tx *store.Tx) error {
		for t, err := range store.Tasks(tx, queue) {
			if err != nil {
				return err
			}
			tasks = append(tasks, t)
		}
		return nil
	})
	return tasks
}

// expectPending compares the tasks of queue with want, as "node subject".
func (w *fixture) expectPending(queue string, want ...string) {
	w.t.Helper()
	var got []string
	for _, t := range w.pending(queue) {
		got = append(got, name(t.Node, t.Subject))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("tasks of queue %s (-want +got):\n%s", queue, diff)
	}
}

// runs returns the runs, oldest first.
func (w *fixture) runs() (runs []store.Run) {
	w.t.Helper()
	w.view(func(tx *store.Tx) error {
		for run, err := range store.RunsBackwards(tx) {
			if err != nil {
				return err
			}
			runs = append(runs, run)
		}
		return nil
	})
	slices.Reverse(runs)
	return runs
}

// expectAllEnded fails unless all runs have ended.
func (w *fixture) expectAllEnded() {
	w.t.Helper()
	for _, run := range w.runs() {
		if run.Open != 0 || run.Ended.IsZero() {
			w.t.Errorf("run %d of %q has not ended: %+v", run.ID, run.Trigger, run)
		}
	}
}

// history returns the history of run, as "state node subject".
func (w *fixture) history(run uint64) (lines []string) {
	w.t.Helper()
	for _, r := range w.records(run) {
		lines = append(lines, string(r.State)+" "+name(r.Node, r.Subject))
	}
	return lines
}

func (w *fixture) records(run uint64) (records []store.Record) {
	w.t.Helper()
	w.view(func(tx *store.Tx) error {
		for r, err := range store.RecordsOf(tx, run) {
			if err != nil {
				return err
			}
			records = append(records, r)
		}
		return nil
	})
	return records
}

// contents returns all records, except those about the store itself.
func (w *fixture) contents() map[string]string {
	w.t.Helper()
	all := map[string]string{}
	w.view(func(tx *store.Tx) error {
		for k, v := range tx.Range(nil) {
			if k.Table() != store.Meta {
				all[k.String()] = string(v)
			}
		}
		return nil
	})
	return all
}

// changed returns the number of records that fn adds, changes or deletes, except those about the store itself.
func (w *fixture) changed(fn func()) int {
	w.t.Helper()
	before := w.contents()
	fn()
	after := w.contents()
	n := 0
	for k, v := range after {
		if old, ok := before[k]; !ok || old != v {
			n++
		}
	}
	for k := range before {
		if _, ok := after[k]; !ok {
			n++
		}
	}
	return n
}
