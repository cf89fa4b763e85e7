package hookrun

import (
	"addon-operator/internal/hook"
	"addon-operator/steps/bindings"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// ordered has the nodes that run all hooks with one type of ordered binding. A task of another node names
// its binding.
var ordered = map[graph.NodeID]string{
	lifecycle.GlobalOnStartup:    hook.OnStartup,
	lifecycle.GlobalBeforeAll:    hook.BeforeAll,
	lifecycle.ModuleOnStartup:    hook.OnStartup,
	lifecycle.ModuleBeforeHelm:   hook.BeforeHelm,
	lifecycle.ModuleAfterHelm:    hook.AfterHelm,
	lifecycle.ModuleBeforeDelete: hook.BeforeDeleteHelm,
	lifecycle.ModuleAfterDelete:  hook.AfterDeleteHelm,
	lifecycle.GlobalAfterAll:     hook.AfterAll,
}

// A Step runs one hook, with the inputs and outputs of its node.
type Step struct {
	node *graph.Node
	// binding is the type of the ordered binding whose hooks the node runs; empty if the task names
	// the binding.
	binding string
	hooks   *Hooks
}

// Step returns the step that runs the hooks of a node.
func (h *Hooks) Step(id graph.NodeID) workflow.ItemStep {
	n, _ := lifecycle.Graph.Node(id)
	return &Step{node: n, binding: ordered[id], hooks: h}
}

// Runs reports whether the hook of an item of node n runs. A Synchronization that its hook does not want to be told of
// does not.
func Runs(tx *store.Tx, n *graph.Node, s graph.Subject) (bool, error) {
	h, known, err := bindings.LoadHook(tx, s.Module, s.Hook)
	return known && (!n.Has(lifecycle.Objects) || !h.Silent(s.Binding)), err
}
