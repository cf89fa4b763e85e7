package store

import (
	"errors"
	"maps"

	"addon-operator/workflow/graph"
)

// keptAttempts is the number of latest attempts of each step that Forget leaves in the history of an unfinished run.
// The first attempt of the step stays, too.
const keptAttempts = 100

// A step identifies the work that an attempt tried to do.
type step struct {
	node    string
	subject graph.Subject
	queue   string
}

// Attempts are the attempts that can be deleted from the history of unfinished runs. For example, if a step fails for
// weeks, only its first and its latest attempts stay in the history.
type Attempts struct {
	runs []uint64
	// excess counts the attempts to delete, by run and step.
	excess map[uint64]map[step]int
}

// ExcessAttempts returns the attempts that can be deleted from the history of unfinished runs.
func ExcessAttempts(tx *Tx) (*Attempts, error) {
	a := &Attempts{excess: map[uint64]map[step]int{}}
	for run, err := range RunsBackwards(tx) {
		if damaged := (*RecordError)(nil); errors.As(err, &damaged) || err == nil && run.Open == 0 {
			continue
		} else if err != nil {
			return nil, err
		}
		excess := map[step]int{}
		for r, err := range RecordsOf(tx, run.ID) {
			if err == nil {
				excess[stepOf(r)]++
			} else if damaged := (*RecordError)(nil); !errors.As(err, &damaged) {
				return nil, err
			}
		}
		maps.DeleteFunc(excess, func(s step, n int) bool {
			excess[s] = n - 1 - keptAttempts
			return excess[s] <= 0
		})
		if len(excess) > 0 {
			a.runs, a.excess[run.ID] = append(a.runs, run.ID), excess
		}
	}
	return a, nil
}

func stepOf(r Record) step { return step{node: r.Node, subject: r.Subject, queue: r.Queue} }

// Forget deletes attempts of one run, oldest first, and stops when the budget of tx is spent. For each step, it adds
// the number of deleted attempts to Omitted in the record of the step's first attempt. Forget returns the number of
// freed bytes, and whether attempts that can be deleted are left. If tx is not committed, the next call of Forget
// repeats the work.
func (a *Attempts) Forget(tx *Tx) (freed int64, more bool, err error) {
	if len(a.runs) == 0 {
		return 0, false, nil
	}
	run := a.runs[0]
	left, forgotten := maps.Clone(a.excess[run]), map[step]int{}
	first := map[step]Key{}
	for k, v := range tx.Range(At(History).Uint(run)) {
		if len(left) == 0 || tx.Spent() {
			break
		}
		r, _, err := Load[Record](tx, k)
		if err != nil {
			continue // damaged records stay
		}
		switch s := stepOf(r); {
		case left[s] == 0:
		case first[s] == nil:
			first[s] = k
		default:
			forgotten[s] += 1 + r.Omitted
			freed += int64(len(k) + len(v))
			tx.Delete(k)
			if left[s]--; left[s] == 0 {
				delete(left, s)
			}
		}
	}
	for s, n := range forgotten {
		r, _, err := Load[Record](tx, first[s])
		if err != nil {
			return 0, false, err
		}
		r.Omitted += n
		if err := Save(tx, first[s], r); err != nil {
			return 0, false, err
		}
	}
	done := len(left) == 0 || freed == 0
	tx.OnCommit(func() {
		a.excess[run] = left
		if done {
			a.runs = a.runs[1:]
		}
	})
	return freed, !done || len(a.runs) > 1, nil
}
