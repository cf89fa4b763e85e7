package hookrun

import (
	"addon-operator/steps/bindings"
	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A Step runs one hook, with the inputs and outputs of its node.
type Step struct {
	node *graph.Node
	// binding is the type of the ordered binding whose hooks the node runs; empty if the task names
	// the binding.
	binding string
	hooks   *Hooks
}

// synchronizes reports whether the step runs Synchronizations.
func (s *Step) synchronizes() bool { return synchronizes(s.node) }

// synchronizes reports whether the hooks of node n run for Synchronization. These nodes are the only ones with the
// input Objects.
func synchronizes(n *graph.Node) bool { return n.Has(lifecycle.Objects) }

// Runs reports whether the step runs the hook for an item s of node n. If the item is a Synchronization of a binding
// with executeHookOnSynchronization: false, the hook does not run.
func Runs(tx *store.Tx, n *graph.Node, s graph.Subject) (bool, error) {
	h, known, err := bindings.LoadHook(tx, s.Module, s.Hook)
	return known && (!synchronizes(n) || !h.Silent(s.Binding)), err
}
