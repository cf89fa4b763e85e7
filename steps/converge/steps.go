package converge

import (
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// Steps returns the first step of a start and the last step of a converge of the modules of state. Each of these two
// steps runs the global hooks of its node with the step that hookStep returns. The argument configs asks hooks for
// their configurations.
func Steps(state *scan.State, configs *hooks.Configs, hookStep func(graph.NodeID) workflow.ItemStep, changes Changes) workflow.Steps {
	return workflow.Steps{
		lifecycle.GlobalOnStartup: &startStep{ItemStep: hookStep(lifecycle.GlobalOnStartup), state: state, hooks: configs},
		lifecycle.GlobalAfterAll:  &endStep{ItemStep: hookStep(lifecycle.GlobalAfterAll), values: state.Values, changes: changes},
	}
}
