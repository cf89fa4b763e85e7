package moduledelete

import (
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// Steps returns the steps that delete a module of state, except the step that deletes its release. It also returns the
// step that purges a release without a module. The steps that hookStep returns run the hooks. The argument configs asks
// hooks for their configurations. Releases that are not purged are reported to observer.
func Steps(
	state *scan.State, configs *hooks.Configs, hookStep func(graph.NodeID) workflow.ItemStep,
	releases Releases, changes Changes, observer Observer,
) workflow.Steps {
	return workflow.Steps{
		lifecycle.ModuleDelete:       &beginStep{state: state, hooks: configs, releases: releases, changes: changes},
		lifecycle.ModuleBeforeDelete: &beforeStep{hookStep(lifecycle.ModuleBeforeDelete)},
		lifecycle.ModuleAfterDelete: &endStep{
			ItemStep: hookStep(lifecycle.ModuleAfterDelete), db: state.DB, values: state.Values, changes: changes,
		},
		lifecycle.ModulePurge: &purgeStep{state: state, releases: releases, observer: observer},
	}
}
