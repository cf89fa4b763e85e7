package report

import (
	"time"

	"addon-operator/internal/hook"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// An Observer is notified of runs of hooks, to log and count them. An Observer does not influence the steps.
type Observer interface {
	// HookRan reports a run of a hook.
	HookRan(Run)
	// HookSlow reports a run of a hook that takes much longer than all earlier runs, a long run of an enabled script, or
	// a long wait for a Helm hook.
	// The returned function is called at the end of the run or wait; it can be nil.
	HookSlow(SlowRun) (ended func())
}

// A Run describes one run of a hook.
type Run struct {
	Task  workflow.Task
	Node  graph.NodeID
	Usage hook.Usage
	// Binding is the type of the binding for which the hook ran, such as kubernetes.
	Binding string
	// Err is nil if the hook succeeded.
	Err error
}

// A SlowRun is a run of a hook that takes much longer than all earlier runs, a long run of an enabled script, or a long
// wait for a Helm hook.
type SlowRun struct {
	Task workflow.Task
	Node graph.NodeID
	// Awaits is the Job or Pod that Helm waits for; it is empty for the run of a hook.
	Awaits string
	// The field Since is the time at which the attempt of the run, or the wait, began.
	Since time.Time
	// The field After is the duration after which the run or the wait is reported.
	After time.Duration
	// Longest is the approximate duration of the longest earlier run with the same code; zero if none has succeeded.
	Longest time.Duration
}

// Silent is an [Observer] that does nothing.
type Silent struct{}

// HookRan does nothing.
func (Silent) HookRan(Run) {}

// HookSlow does nothing.
func (Silent) HookSlow(SlowRun) func() { return nil }
