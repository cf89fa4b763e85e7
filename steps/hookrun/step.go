package hookrun

import (
	"context"

	"addon-operator/internal/hook"
	"addon-operator/steps/bindings"
	"addon-operator/steps/charts"
	"addon-operator/steps/desired"
	"addon-operator/steps/hookio"
	"addon-operator/steps/report"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A Runner runs the programs of hooks.
type Runner interface {
	// Run runs a hook and returns what it has written.
	Run(ctx context.Context, run hook.Run) (hook.Result, error)
}

// Components are what the steps of all nodes use.
type Components struct {
	DB       *store.DB
	Runner   Runner
	Modules  *desired.Modules
	Values   *desired.Values
	Bindings *bindings.Attached
	Exchange *hookio.Exchange
	Charts   *charts.Charts
	Reports  *report.Runs
	// TraceParent returns the span of an attempt, "" if it is not traced.
	TraceParent func(t workflow.Task) string
}

// A Step runs one hook, with the inputs and outputs of its node.
type Step struct {
	node *graph.Node
	// binding is the type of the ordered binding whose hooks the node runs; empty if the task names
	// the binding.
	binding    string
	components Components
}

// New returns the step of a node. Binding is the type of the ordered binding whose hooks the node runs;
// empty if a task names the binding.
func New(id graph.NodeID, binding string, c Components) *Step {
	n, _ := lifecycle.Graph.Node(id)
	return &Step{node: n, binding: binding, components: c}
}

// Runs reports whether the hook of an item of node n runs. A Synchronization that its hook does not want to be told of
// does not.
func Runs(tx *store.Tx, n *graph.Node, s graph.Subject) (bool, error) {
	h, known, err := bindings.LoadHook(tx, s.Module, s.Hook)
	return known && (!n.Has(lifecycle.Objects) || !h.Silent(s.Binding)), err
}
