package hookrun

import (
	"addon-operator/steps/bindings"
	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A Step implements a node that runs hooks. Each attempt runs one hook, with the inputs and outputs that the node
// declares.
type Step struct {
	node *graph.Node
	// binding is the type of ordered binding for which the node runs all hooks; it is empty if each task names its
	// binding.
	binding string
	hooks   *Hooks
}

// synchronizes reports whether the step runs Synchronizations.
func (s *Step) synchronizes() bool { return synchronizes(s.node) }

// synchronizes reports whether the hooks of node n run for Synchronization. Only these nodes have the input Objects.
func synchronizes(n *graph.Node) bool { return n.Has(lifecycle.Objects) }

// Runs reports whether the step runs a hook for the item s of node n. The hook does not run for the Synchronization
// of a binding with "executeHookOnSynchronization: false".
func Runs(tx *store.Tx, n *graph.Node, s graph.Subject) (bool, error) {
	h, known, err := bindings.LoadHook(tx, s.Module, s.Hook)
	return known && (!synchronizes(n) || !h.Silent(s.Binding)), err
}
