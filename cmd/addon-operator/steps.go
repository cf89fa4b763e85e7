package main

import (
	"addon-operator/steps"
	"addon-operator/steps/hookmetrics"
)

// stepObserver logs and counts what the steps do.
type stepObserver struct{ o *operator }

func (s stepObserver) HookRan(r steps.Report)               { s.o.hookRan(r) }
func (s stepObserver) HookSlow(r steps.SlowRun) func()      { return s.o.hookSlow(r) }
func (s stepObserver) MetricsDropped(d hookmetrics.Dropped) { s.o.metricsDropped(d) }
func (s stepObserver) ModuleRan(module string)              { s.o.moduleRan(module) }
func (s stepObserver) ConfigRefused(version, why string)    { s.o.refused(version, why) }
func (s stepObserver) HelmBegins(module, operation string) func() {
	return s.o.helmBegins(module, operation)
}

func (s stepObserver) DeletionBlocked(releases []string, why string) {
	s.o.blockedDeletions(releases, why)
}

// stepChanges passes on what the steps change to the triggers and surveys that follow from it.
type stepChanges struct{ o *operator }

// BindingsChanged makes the triggers follow the attached bindings.
func (s stepChanges) BindingsChanged() {
	s.o.labels.forget()
	s.o.kube.Changed()
	s.o.schedule.Changed()
	s.o.webhook.Changed()
	s.o.engine.RateLimitsChanged()
	s.o.refilter.raise()
}

func (s stepChanges) ConfigApplied()               { s.o.configMap.Changed() }
func (s stepChanges) ReleaseChanged(module string) { s.o.absent.Changed(module) }
func (s stepChanges) ModuleRetired(module string)  { s.o.cancelRunning(module) }
func (s stepChanges) ProblemsChanged()             { s.o.recheck.raise() }
func (s stepChanges) AddonModulesChanged()         { s.o.addonsChanged.raise() }

// Converged reports the converge, makes the operator ready, and looks for files that were corrected
// while it ran.
func (s stepChanges) Converged() {
	s.o.mended.raise()
	s.o.recheck.raise()
	s.o.convergeEnded()
	s.o.status.converged.Store(true)
	s.o.webhook.Changed()
}
