package moduledelete

import (
	"context"

	"addon-operator/steps/bindings"
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// Releases are the Helm releases of modules.
type Releases interface {
	// Status returns the status of module's release in the cluster, and whether there is a release.
	Status(ctx context.Context, module string) (status string, released bool, err error)
	// Uninstall deletes the release of t's module.
	Uninstall(ctx context.Context, t workflow.Task) (workflow.Outcome, error)
}

// Changes is notified of deleted modules, after the commit.
type Changes interface {
	// ModuleRetired follows the commit that starts the deletion of a module that the ConfigMap
	// disables.
	ModuleRetired(module string)
	// AddonModulesChanged follows a commit that may have changed which modules are made from
	// addons.
	AddonModulesChanged()
}

// Steps returns the steps that delete a module of state, except the one that deletes its release. The hooks of
// a deletion are run by the steps that hookStep returns. Configs asks hooks for their configurations.
func Steps(
	state *scan.State, configs *hooks.Configs, attached *bindings.Attached, hookStep func(graph.NodeID) workflow.ItemStep,
	releases Releases, changes Changes,
) workflow.Steps {
	return workflow.Steps{
		lifecycle.ModuleDelete:       &beginStep{state: state, hooks: configs, bindings: attached, releases: releases, changes: changes},
		lifecycle.ModuleBeforeDelete: &beforeStep{hookStep(lifecycle.ModuleBeforeDelete)},
		lifecycle.ModuleAfterDelete: &endStep{
			ItemStep: hookStep(lifecycle.ModuleAfterDelete), db: state.DB, values: state.Values, bindings: attached, changes: changes,
		},
		lifecycle.ModulePurge: &purgeStep{bindings: attached, releases: releases},
	}
}
