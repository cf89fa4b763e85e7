package debugapi

import (
	"maps"
	"slices"
	"sync"

	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

// SlowRuns has the unfinished runs of hooks that take much longer than earlier runs, and the steps that
// wait long for a Helm hook.
type SlowRuns struct {
	mu   sync.Mutex
	runs map[store.ID]inspect.Problem // guarded by mu
}

// Add adds the problem p of a slow run. Add replaces an earlier problem of the same task. The
// problem is removed when the returned function is called.
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

// problems returns the slow runs as problems, oldest first.
func (s *SlowRuns) problems() []inspect.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.runs), func(a, b inspect.Problem) int { return a.At.Compare(b.At) })
}
