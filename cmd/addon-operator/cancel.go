package main

import (
	"github.com/rs/zerolog"

	"addon-operator/internal/kube"
	"addon-operator/steps"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A moduleCanceler cancels the running tasks of modules that the ConfigMap disables.
type moduleCanceler struct {
	log    zerolog.Logger
	engine *workflow.Engine
	steps  *steps.Lifecycle
}

// configRaised cancels the running tasks of the modules that the new content of the ConfigMap disables. The results of
// these tasks are not needed, because the modules are about to be deleted. Step 16, which waits at the front of the
// main queue, puts the new content in force. The reload after step 16 deletes the modules. But if a task of the main
// queue is failing, the modules are usually deleted directly after step 16, before this reload.
func (c moduleCanceler) configRaised(content kube.Content) {
	modules, err := c.steps.ConfigMap.DisabledBy(content.ResourceVersion, content.Data)
	if err != nil {
		c.log.Warn().Err(err).Msg("cannot determine the modules that the ConfigMap disables; their running tasks are not canceled before their deletion")
		return
	}
	for _, module := range modules {
		c.cancel(module)
	}
}

// cancel cancels the running tasks of a module, except tasks that delete the module.
func (c moduleCanceler) cancel(module string) {
	deletion, _ := lifecycle.Graph.Node(lifecycle.ModuleDelete)
	n := c.engine.CancelWhere(func(t workflow.Task) bool {
		node, ok := lifecycle.Graph.Node(graph.NodeID(t.Node))
		return t.Subject.Module == module && (!ok || node.Group != deletion.Group && node.ID != lifecycle.ModulePurge)
	}, workflow.Cancellation{By: "the operator", Reason: "the ConfigMap switches module " + module + " off"})
	if n > 0 {
		c.log.Warn().Str("module", module).Int("tasks", n).Msg("module is switched off: canceling its running tasks")
	}
}
