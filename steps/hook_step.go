package steps

import (
	"addon-operator/steps/bindings"
	"addon-operator/steps/charts"
	"addon-operator/steps/desired"
	"addon-operator/steps/hookio"
	"addon-operator/steps/hooks"
	"addon-operator/steps/report"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A hookStep runs one hook, with the inputs and outputs of its node.
type hookStep struct {
	node *graph.Node
	// binding is the type of the ordered binding whose hooks the node runs; empty if the task names
	// the binding.
	binding string

	db       *store.DB
	modules  *desired.Modules
	values   *desired.Values
	runner   hooks.Runner
	bindings *bindings.Attached
	exchange *hookio.Exchange
	charts   *charts.Charts
	reports  *report.Runs
	// traceParent returns the span of an attempt, "" if it is not traced.
	traceParent func(t workflow.Task) string
}

// Runs reports whether the hook of an item of node n runs. A Synchronization that its hook does not want to be told of
// does not.
func Runs(tx *store.Tx, n *graph.Node, s graph.Subject) (bool, error) {
	h, known, err := bindings.LoadHook(tx, s.Module, s.Hook)
	return known && (!n.Has(lifecycle.Objects) || !h.Silent(s.Binding)), err
}
