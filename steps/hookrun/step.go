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

// synchronizes reports whether the hooks of node n run a Synchronization: only these nodes receive
// all objects of a binding.
func synchronizes(n *graph.Node) bool { return n.Has(lifecycle.Objects) }

// Runs reports whether the step runs the hook of an item of node n. It does not if the item is a
// Synchronization and the binding has executeHookOnSynchronization: false.
func Runs(tx *store.Tx, n *graph.Node, s graph.Subject) (bool, error) {
	h, known, err := bindings.LoadHook(tx, s.Module, s.Hook)
	return known && (!synchronizes(n) || !h.Silent(s.Binding)), err
}
