package inspect

import (
	"fmt"

	"addon-operator/store"
	"addon-operator/workflow"
)

// choose returns the run to show if the user has not named a run. [Request] says which run that is.
func choose(s *scan, problems []Problem) (uint64, error) {
	var id uint64
	for _, p := range problems {
		id = max(id, p.Run)
	}
	if id != 0 {
		return id, nil
	}
	if main := s.queues[workflow.Main]; main != nil {
		if main.busy != nil {
			return main.busy.Run, nil
		}
		return main.head.Run, nil
	}
	for _, q := range s.queues {
		id = max(id, q.head.Run)
	}
	if id = max(id, s.newest()); id != 0 {
		return id, nil
	}
	return chooseEnded(s)
}

// mostPassed is the maximum number of runs with one or two lines of history that are skipped in search of a run with
// more lines.
const mostPassed = 300

// chooseEnded returns the newest run with more than two lines of history, or the last converge if the search reaches it
// first and it has a line of history. If the search finds neither, chooseEnded returns the newest run with a line of
// history or, if no run has one, the newest run.
func chooseEnded(s *scan) (id uint64, err error) {
	startup, _, err := load[store.Startup](s.unreadable, store.StartupKey())
	if err != nil {
		return 0, err
	}
	passed := 0
	for w, err := range readable(s.unreadable, store.RunsBackwards(s.tx)) {
		if err != nil {
			return 0, err
		}
		steps := 0
		for range s.tx.Range(store.At(store.History).Uint(w.ID)) {
			if steps++; steps == 3 {
				return w.ID, nil
			}
		}
		if w.ID == startup.Converged && steps > 0 {
			return w.ID, nil
		}
		if id == 0 || steps > 0 && passed == 0 {
			id = w.ID
		}
		if steps > 0 {
			passed++
		}
		if passed == mostPassed {
			break
		}
	}
	if id == 0 {
		return 0, fmt.Errorf("%w: nothing has begun yet", ErrNoRun)
	}
	return id, nil
}
