package debugapi

import (
	"cmp"

	"addon-operator/internal/metrics"
	"addon-operator/steps/hookrun"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// taskTypes maps nodes to the types that their tasks have in the metrics of flant/addon-operator. If a node is not in
// taskTypes, the type of its tasks is the name of the node.
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

// TaskType returns the task type for the tasks of a node, as in the metrics of flant/addon-operator.
func TaskType(node string) string { return cmp.Or(taskTypes[graph.NodeID(node)], node) }

// BindingOf returns the metric labels of the binding that the subject s names. If s names no binding, the label of the
// binding is the binding type of the node.
func BindingOf(s graph.Subject, node, queue string) metrics.Binding {
	b := metrics.Binding{Module: s.Module, Hook: s.Hook, Name: s.Binding, Queue: queue}
	if b.Name == "" {
		b.Name = hookrun.BindingType(graph.NodeID(node))
	}
	return b
}
