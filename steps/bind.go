package steps

import (
	"addon-operator/internal/hook"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// Lifecycle returns the lifecycle graph joined with the code of its nodes, which
// work on s.
func (s *Site) Lifecycle() workflow.Binding {
	return workflow.Binding{Graph: lifecycle.Graph, Steps: map[graph.NodeID]workflow.Step{
		lifecycle.GlobalOnStartup:       &startupStep{s.hookStep(lifecycle.GlobalOnStartup, hook.OnStartup)},
		lifecycle.GlobalSynchronization: s.hooks(lifecycle.GlobalSynchronization, ""),
		lifecycle.GlobalBeforeAll:       s.hooks(lifecycle.GlobalBeforeAll, hook.BeforeAll),
		lifecycle.DiscoverModules:       &discoverStep{s},
		lifecycle.EnsureCRDs:            &ensureCRDsStep{s},
		lifecycle.ModuleRun:             &moduleRunStep{s},
		lifecycle.ModuleOnStartup:       s.hooks(lifecycle.ModuleOnStartup, hook.OnStartup),
		lifecycle.ModuleSynchronization: s.hooks(lifecycle.ModuleSynchronization, ""),
		lifecycle.ModuleBeforeHelm:      s.hooks(lifecycle.ModuleBeforeHelm, hook.BeforeHelm),
		lifecycle.ReleaseCheck:          &releaseCheckStep{s},
		lifecycle.ReleaseUpgrade:        &releaseUpgradeStep{s},
		lifecycle.ModuleAfterHelm:       &afterHelmStep{s.hookStep(lifecycle.ModuleAfterHelm, hook.AfterHelm)},
		lifecycle.ModuleDelete:          &moduleDeleteStep{s},
		lifecycle.ModuleBeforeDelete:    &beforeDeleteStep{s.hookStep(lifecycle.ModuleBeforeDelete, hook.BeforeDeleteHelm)},
		lifecycle.ReleaseDelete:         &releaseDeleteStep{s},
		lifecycle.ModuleAfterDelete:     &afterDeleteStep{s.hookStep(lifecycle.ModuleAfterDelete, hook.AfterDeleteHelm)},
		lifecycle.ModulePurge:           &modulePurgeStep{s},
		lifecycle.GlobalAfterAll:        &afterAllStep{s.hookStep(lifecycle.GlobalAfterAll, hook.AfterAll)},
		lifecycle.GlobalKubernetesEvent: s.hooks(lifecycle.GlobalKubernetesEvent, ""),
		lifecycle.ModuleKubernetesEvent: s.hooks(lifecycle.ModuleKubernetesEvent, ""),
		lifecycle.GlobalScheduleEvent:   s.hooks(lifecycle.GlobalScheduleEvent, ""),
		lifecycle.ModuleScheduleEvent:   s.hooks(lifecycle.ModuleScheduleEvent, ""),
		lifecycle.ConfigMapChanged:      &configMapStep{s},
	}}
}

func (s *Site) hookStep(id graph.NodeID, binding string) hookStep {
	n, _ := lifecycle.Graph.Node(id)
	return hookStep{site: s, node: n, binding: binding}
}

func (s *Site) hooks(id graph.NodeID, binding string) *hookStep {
	step := s.hookStep(id, binding)
	return &step
}
