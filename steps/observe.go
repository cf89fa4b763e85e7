package steps

import (
	"addon-operator/steps/charts"
	"addon-operator/steps/hookmetrics"
	"addon-operator/steps/releases"
	"addon-operator/steps/report"
	"addon-operator/store"
)

// An Observer is notified of what the steps do. It logs and counts. No step depends on it.
type Observer interface {
	report.Observer
	hookmetrics.Observer
	charts.Observer
	// ModuleRan is called after the commit that ends a run of module.
	ModuleRan(module string)
	// DeletionBlocked reports releases that were not deleted because of a safety check.
	DeletionBlocked(releases []string, why string)
	// ConfigRefused reports invalid content of the ConfigMap at each attempt to apply it.
	ConfigRefused(resourceVersion, why string)
}

// Changes is notified of what a step has changed in the store, after the commit. Triggers and
// surveys depend on it.
type Changes interface {
	// BindingsChanged follows a commit that attached or detached bindings.
	BindingsChanged()
	// ConfigApplied follows a commit that put content of the ConfigMap in force.
	ConfigApplied()
	releases.Changes
	// ModuleRetired follows the commit that starts the deletion of a module that the ConfigMap
	// disables.
	ModuleRetired(module string)
	// Converged follows the commit that ends a converge.
	Converged()
	// ProblemsChanged follows a commit that may have caused or solved a problem that [Survey.Run]
	// finds.
	ProblemsChanged()
	// AddonModulesChanged follows a commit that may have changed which modules are made from
	// addons.
	AddonModulesChanged()
}

// releaseChanged reports a change of module's release after the commit of tx.
func releaseChanged(tx *store.Tx, to Changes, module string) {
	tx.OnCommit(func() { to.ReleaseChanged(module) })
}

// silent is an Observer and Changes that do nothing.
type silent struct{}

func (silent) HookRan(report.Run)                 {}
func (silent) HookSlow(report.SlowRun) func()     { return nil }
func (silent) MetricsDropped(hookmetrics.Dropped) {}
func (silent) HelmBegins(string, string) func()   { return func() {} }
func (silent) ModuleRan(string)                   {}
func (silent) DeletionBlocked([]string, string)   {}
func (silent) ConfigRefused(string, string)       {}
func (silent) BindingsChanged()                   {}
func (silent) ConfigApplied()                     {}
func (silent) ReleaseChanged(string)              {}
func (silent) ModuleRetired(string)               {}
func (silent) Converged()                         {}
func (silent) ProblemsChanged()                   {}
func (silent) AddonModulesChanged()               {}
