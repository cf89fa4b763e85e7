package discover

import (
	"addon-operator/steps/crds"
	"addon-operator/steps/decide"
	"addon-operator/steps/safety"
	"addon-operator/steps/scan"
	"addon-operator/steps/stale"
	"addon-operator/steps/survey"
	"addon-operator/workflow"
	"addon-operator/workflow/lifecycle"
)

// Options are the clients and settings of discoveries.
type Options struct {
	safety.Options

	CRDs crds.Options
	// ParallelModules is the maximum number of modules of equal order that run at the same time. If it is less than 2,
	// modules run one after another.
	ParallelModules int
}

// An Observer is notified of blocked deletions, to log and count them. An Observer does not influence the steps.
type Observer = safety.Observer

// Configs asks hooks for their configurations and checks the configurations.
type Configs interface {
	decide.Hooks
	stale.Hooks
}

// Hooks gives access to the hooks and the enabled scripts of modules.
type Hooks struct {
	Configs Configs
	Scripts decide.Scripts
}

// A Discovery discovers modules. Between two discoveries, Survey and Stale find the problems and the stale bindings
// that the next discovery would find. Decider decides which modules are enabled.
type Discovery struct {
	Stale   *stale.Bindings
	Survey  *survey.Survey
	Decider *decide.Decider

	crds *crds.Definitions
	step *step
}

// New returns the discovery of the modules of state.
func New(o Options, state *scan.State, hooks Hooks, observer Observer, changes Changes) *Discovery {
	d := &Discovery{
		Stale: stale.New(state.DB, state.Log, state.Modules, hooks.Configs),
		Survey: survey.New(survey.Sources{
			DB: state.DB, Log: state.Log, Modules: state.Modules, Addons: state.Addons, Applied: state.Applied,
			Values: state.Values, ConfigMap: state.ConfigMap, Hooks: hooks.Configs,
		}, changes),
		Decider: decide.New(state.Values, hooks.Configs, hooks.Scripts),

		crds: crds.New(o.CRDs, state.Log, state.Modules, o.Helm),
	}
	d.step = &step{
		state: state, decider: d.Decider, crds: d.crds,
		safety: safety.New(o.Options, state.Log, state.ConfigMap, observer), stale: d.Stale, survey: d.Survey,
		changes: changes, parallelModules: o.ParallelModules,
	}
	return d
}

// Steps returns the step that discovers modules, and the step that installs their CRDs.
func (d *Discovery) Steps() workflow.Steps {
	steps := d.crds.Steps()
	steps[lifecycle.DiscoverModules] = d.step
	return steps
}
