package steps

import (
	"addon-operator/steps/configmap"
	"addon-operator/steps/converge"
	"addon-operator/steps/discover"
	"addon-operator/steps/hookrun"
	"addon-operator/steps/moduledelete"
	"addon-operator/steps/modulerun"
	"addon-operator/steps/releases"
	"addon-operator/steps/scan"
	"addon-operator/workflow"
	"addon-operator/workflow/lifecycle"
)

// Options are the clients and settings of the steps.
type Options struct {
	State     scan.Options
	Hooks     hookrun.Options
	Releases  releases.Options
	Discovery discover.Options

	// Observer logs and counts the work of the steps. It can be nil.
	Observer Observer
	// Changes is notified of commits that other parts of the operator react to. It can be nil.
	Changes Changes
}

// A Lifecycle implements the nodes of the lifecycle graph. Its parts share data through the store. They also keep some
// data in memory: for example, State keeps the result of its last scan of the directories.
type Lifecycle struct {
	State     *scan.State         // the modules on disk, their values, and the ConfigMap
	Releases  *releases.Releases  // the charts of modules and their Helm releases
	Hooks     *hookrun.Hooks      // runs hooks
	Discovery *discover.Discovery // finds which modules exist and are enabled
	ConfigMap *configmap.Step     // puts new content of the ConfigMap in force

	observer Observer
	changes  Changes
}

// New returns the steps of the lifecycle. The caller must call [hookrun.Hooks.Connect] of the field Hooks before the
// first step runs.
func New(o Options) *Lifecycle {
	if o.Observer == nil {
		o.Observer = silent{}
	}
	if o.Changes == nil {
		o.Changes = silent{}
	}
	l := &Lifecycle{observer: o.Observer, changes: o.Changes}
	l.State = scan.New(o.State, o.Changes)
	l.Releases = releases.New(o.Releases, l.State, o.Observer)
	l.Hooks = hookrun.New(o.Hooks, l.State, l.Releases.Charts, o.Observer)
	l.Discovery = discover.New(o.Discovery, l.State, discover.Hooks{Configs: l.Hooks.Configs, Scripts: l.Hooks}, o.Observer, o.Changes)
	l.ConfigMap = configmap.New(l.State, l.Releases.Charts, l.Discovery.Decider, o.Observer)
	return l
}

// Implementation returns the lifecycle graph joined with the steps of its nodes.
func (l *Lifecycle) Implementation() workflow.Implementation {
	state, hooks := l.State, l.Hooks
	return workflow.Join(lifecycle.Graph,
		// Steps 1, 8: the first step of a start and the last step of a converge.
		converge.Steps(state, hooks.Configs, hooks.Step, l.changes),
		// Steps 2, 3, 5a to 5c, 9 to 12: hooks.
		hooks.Steps(),
		// Steps 4, 4a: the decision which modules are enabled, and their CRDs.
		l.Discovery.Steps(),
		// Steps 5, 5f: the start and the end of the run of a module.
		modulerun.Steps(state, hooks.Configs, hooks.Step, l.Discovery.Survey, l.observer),
		// Steps 5d, 5e, 6c: Helm releases.
		l.Releases.Steps(),
		// Steps 6, 6b, 6d, 7: deletions.
		moduledelete.Steps(state, hooks.Configs, hooks.Step, l.Releases, l.changes, l.observer),
		// Step 16: the ConfigMap.
		l.ConfigMap.Steps(),
	)
}
