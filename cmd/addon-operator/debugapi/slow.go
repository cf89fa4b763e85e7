package debugapi

import (
	"maps"
	"slices"
	"sync"

	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

// SlowRuns are the unfinished runs of hooks that take far longer than any before.
type SlowRuns struct {
	mu   sync.Mutex
	runs map[store.ID]inspect.Problem // guarded by mu
}

// Add keeps a run until the returned function is called.
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

// problems returns the runs, the oldest first.
func (s *SlowRuns) problems() []inspect.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.runs), func(a, b inspect.Problem) int { return a.At.Compare(b.At) })
}
