package modulerun

import (
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// Steps returns the steps that begin and end the run of a module of state. The last step runs the afterHelm hooks
// with the step that hookStep returns. The argument configs asks hooks for their configurations.
func Steps(
	state *scan.State, configs *hooks.Configs, hookStep func(graph.NodeID) workflow.ItemStep, survey Survey, observer Observer,
) workflow.Steps {
	return workflow.Steps{
		lifecycle.ModuleRun: &checkStep{state: state, hooks: configs, survey: survey},
		lifecycle.ModuleAfterHelm: &endStep{
			ItemStep: hookStep(lifecycle.ModuleAfterHelm), values: state.Values, survey: survey, observer: observer,
		},
	}
}
