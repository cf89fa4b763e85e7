package modulerun

import (
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A Survey compares the directory of a module with the one that its last run used.
type Survey interface {
	// RunBegan notes, when tx is committed, that a run of module has begun.
	RunBegan(tx *store.Tx, module string)
	// RunEnded notes, when tx is committed, that a run of module has ended.
	RunEnded(tx *store.Tx, module string)
}

// An Observer is notified of module runs. It logs and counts. No step depends on it.
type Observer interface {
	// ModuleRan is called after the commit that ends a run of module.
	ModuleRan(module string)
}

// Changes is notified of changes of releases, after the commit.
type Changes interface {
	// ReleaseChanged follows the commit that ends a run of module, and with it the work on its release.
	ReleaseChanged(module string)
}

// Steps returns the steps that begin and end the run of a module of state. The end runs the afterHelm hooks
// with the step that hookStep returns. Configs asks hooks for their configurations.
func Steps(
	state *scan.State, configs *hooks.Configs, hookStep func(graph.NodeID) workflow.ItemStep, survey Survey, observer Observer, changes Changes,
) workflow.Steps {
	return workflow.Steps{
		lifecycle.ModuleRun: &checkStep{state: state, hooks: configs, survey: survey},
		lifecycle.ModuleAfterHelm: &endStep{
			ItemStep: hookStep(lifecycle.ModuleAfterHelm), values: state.Values, survey: survey, observer: observer, changes: changes,
		},
	}
}
