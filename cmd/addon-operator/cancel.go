package main

import (
	"addon-operator/internal/kube"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// cancelSwitchedOff cancels what runs of the modules that content of the ConfigMap switches off.
// Step 16, which is at the front of the main queue, then deletes them.
func (o *operator) cancelSwitchedOff(content kube.Content) {
	modules, err := o.site.SwitchedOff(content)
	if err != nil {
		o.log.Warn().Err(err).Msg("cannot see which modules the ConfigMap switches off: what runs of them is not canceled before they are deleted")
		return
	}
	for _, module := range modules {
		o.cancelRunning(module)
	}
}

// cancelRunning cancels what runs of a module that the ConfigMap switches off, unless it is part of
// the module's deletion.
func (o *operator) cancelRunning(module string) {
	deletion, _ := lifecycle.Graph.Node(lifecycle.ModuleDelete)
	n := o.engine.CancelWhere(func(t workflow.Task) bool {
		node, ok := lifecycle.Graph.Node(graph.NodeID(t.Node))
		return t.Subject.Module == module && (!ok || node.Group != deletion.Group && node.ID != lifecycle.ModulePurge)
	}, workflow.Cancellation{By: "the operator", Reason: "the ConfigMap switches module " + module + " off"})
	if n > 0 {
		o.log.Warn().Str("module", module).Int("tasks", n).Msg("module is switched off: what runs of it is canceled")
	}
}
