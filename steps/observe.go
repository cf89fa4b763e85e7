package steps

import (
	"time"

	"addon-operator/internal/hook"
	"addon-operator/steps/hookmetrics"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// An Observer is notified of what the steps do. It logs and counts. No step depends on it.
type Observer interface {
	// HookRan reports a run of a hook.
	HookRan(Report)
	// HookSlow reports a run of a hook that takes much longer than any run before, or a long wait for a
	// Helm hook. The returned function is called at the end of the run or wait; it can be nil.
	HookSlow(SlowRun) (ended func())
	hookmetrics.Observer
	// HelmBegins reports the start of an operation on a module's chart. The returned function is
	// called at its end.
	HelmBegins(module, operation string) (ends func())
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
	// ReleaseChanged follows a commit that changed the record of module's release, or that ended
	// work on it.
	ReleaseChanged(module string)
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

func (silent) HookRan(Report)                     {}
func (silent) HookSlow(SlowRun) func()            { return nil }
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

// A SlowRun is a run of a hook that takes far longer than any before, or a long wait for a Helm hook.
type SlowRun struct {
	Task workflow.Task
	Node graph.NodeID
	// Awaits is the Job or Pod that Helm waits for; empty for the run of a hook of a module.
	Awaits string
	// Since is when the attempt or the wait began.
	Since time.Time
	// After is the time after which the run is reported.
	After time.Duration
	// Longest is the duration of the longest earlier run; zero if none has succeeded.
	Longest time.Duration
}

// A Report describes one run of a hook.
type Report struct {
	Task  workflow.Task
	Node  graph.NodeID
	Usage hook.Usage
	// Binding is the type of the binding that the hook ran for, such as kubernetes.
	Binding string
	// Err is nil when the hook succeeded.
	Err error
}
