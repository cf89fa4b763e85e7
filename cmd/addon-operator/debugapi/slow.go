package debugapi

import (
	"maps"
	"slices"
	"sync"

	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

// SlowRuns has the problems of slow work that has not ended: runs of hooks that take much longer than
// earlier runs, enabled scripts that take long, and steps that wait long for a Helm hook.
type SlowRuns struct {
	mu   sync.Mutex
	runs map[store.ID]inspect.Problem // guarded by mu
}

// Add adds the problem p of slow work. Add replaces an earlier problem of the same task. The returned
// function removes the problem of this task.
func (s *SlowRuns) Add(p inspect.Problem) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs == nil {
		s.runs = map[store.ID]inspect.Problem{}
	}
	s.runs[p.Task] = p
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.runs, p.Task)
	}
}

// problems returns the problems, oldest first.
func (s *SlowRuns) problems() []inspect.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.runs), func(a, b inspect.Problem) int { return a.At.Compare(b.At) })
}
