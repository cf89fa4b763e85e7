package main

import (
	"addon-operator/internal/kube"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// cancelSwitchedOff cancels the running tasks of the modules that content of the ConfigMap switches off.
// Step 16, which is at the front of the main queue, then deletes them.
func (o *operator) cancelSwitchedOff(content kube.Content) {
	modules, err := o.steps.ConfigMap.SwitchedOff(content)
	if err != nil {
		o.log.Warn().Err(err).Msg("modules that the ConfigMap switches off not found: their running tasks are not canceled before their deletion")
		return
	}
	for _, module := range modules {
		o.cancelRunning(module)
	}
}

// cancelRunning cancels the running tasks of a module that the ConfigMap switches off, except those of
// its deletion.
func (o *operator) cancelRunning(module string) {
	deletion, _ := lifecycle.Graph.Node(lifecycle.ModuleDelete)
	n := o.engine.CancelWhere(func(t workflow.Task) bool {
		node, ok := lifecycle.Graph.Node(graph.NodeID(t.Node))
		return t.Subject.Module == module && (!ok || node.Group != deletion.Group && node.ID != lifecycle.ModulePurge)
	}, workflow.Cancellation{By: "the operator", Reason: "the ConfigMap switches module " + module + " off"})
	if n > 0 {
		o.log.Warn().Str("module", module).Int("tasks", n).Msg("module is switched off: canceling its running tasks")
	}
}
