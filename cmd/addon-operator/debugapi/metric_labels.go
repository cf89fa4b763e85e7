package debugapi

import (
	"cmp"

	"addon-operator/internal/metrics"
	"addon-operator/steps/hookrun"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// taskTypes are the words of addon-operator for the tasks of nodes. The others have the names of their nodes.
var taskTypes = map[graph.NodeID]string{
	lifecycle.GlobalOnStartup: "GlobalHookRun", lifecycle.GlobalSynchronization: "GlobalHookRun", lifecycle.GlobalBeforeAll: "GlobalHookRun",
	lifecycle.GlobalAfterAll: "GlobalHookRun", lifecycle.GlobalKubernetesEvent: "GlobalHookRun", lifecycle.GlobalScheduleEvent: "GlobalHookRun",
	lifecycle.ModuleKubernetesEvent: "ModuleHookRun", lifecycle.ModuleScheduleEvent: "ModuleHookRun", lifecycle.ModuleSynchronization: "ModuleHookRun",
	lifecycle.DiscoverModules: "ConvergeModules", lifecycle.EnsureCRDs: "ModuleEnsureCRDs",
	lifecycle.ModuleRun: "ModuleRun", lifecycle.ModuleOnStartup: "ModuleRun", lifecycle.ModuleBeforeHelm: "ModuleRun",
	lifecycle.ReleaseCheck: "ModuleRun", lifecycle.ReleaseUpgrade: "ModuleRun", lifecycle.ModuleAfterHelm: "ModuleRun",
	lifecycle.ModuleDelete: "ModuleDelete", lifecycle.ModuleRetire: "ModuleDelete", lifecycle.ModuleBeforeDelete: "ModuleDelete",
	lifecycle.ReleaseDelete: "ModuleDelete", lifecycle.ModuleAfterDelete: "ModuleDelete",
	lifecycle.ModulePurge: "ModulePurge", lifecycle.ConfigMapChanged: "ApplyKubeConfigValues",
}

// TaskType returns the word of addon-operator for the tasks of a node.
func TaskType(node string) string { return cmp.Or(taskTypes[graph.NodeID(node)], node) }

// BindingOf returns the labels of a binding. A task that names no binding has that of its node.
func BindingOf(s graph.Subject, node, queue string) metrics.Binding {
	b := metrics.Binding{Module: s.Module, Hook: s.Hook, Name: s.Binding, Queue: queue}
	if b.Name == "" {
		b.Name = hookrun.BindingType(graph.NodeID(node))
	}
	return b
}
