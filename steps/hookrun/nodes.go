package hookrun

import (
	"addon-operator/internal/hook"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// BindingType returns a type of ordered binding, such as beforeHelm, if the node runs all hooks that have a binding
// of this type. For other nodes, whose tasks name their bindings, it returns "".
func BindingType(id graph.NodeID) string { return ordered[id] }

// ordered has the nodes that run all hooks with one type of ordered binding, and maps each node to this type.
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

// Step returns the step that runs the hooks of a node.
func (h *Hooks) Step(id graph.NodeID) workflow.ItemStep {
	n, _ := lifecycle.Graph.Node(id)
	return &Step{node: n, binding: ordered[id], hooks: h}
}

// Steps returns the steps of the nodes that only run hooks.
func (h *Hooks) Steps() workflow.Steps {
	steps := workflow.Steps{}
	for _, id := range []graph.NodeID{
		lifecycle.GlobalSynchronization, lifecycle.GlobalBeforeAll,
		lifecycle.ModuleOnStartup, lifecycle.ModuleSynchronization, lifecycle.ModuleBeforeHelm,
		lifecycle.GlobalKubernetesEvent, lifecycle.ModuleKubernetesEvent,
		lifecycle.GlobalScheduleEvent, lifecycle.ModuleScheduleEvent,
	} {
		steps[id] = h.Step(id)
	}
	return steps
}
