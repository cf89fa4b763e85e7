package main

import (
	"addon-operator/cmd/addon-operator/crashtest"
	"addon-operator/internal/failpoint"
	"addon-operator/workflow"
)

// checkpoint returns the function that the engine calls at each [workflow.Moment] of an attempt, such as before the
// step begins. The function is nil unless the command "test" has started this process, or the program is built for crash
// tests.
func checkpoint(control *crashtest.Control) func(workflow.Task, workflow.Moment) {
	switch {
	case control != nil:
		return control.Checkpoint
	case failpoint.Enabled:
		return func(t workflow.Task, at workflow.Moment) { failpoint.Reach(t.Node, string(at)) }
	default:
		return nil
	}
}
