package main

import (
	"addon-operator/internal/api"
	"addon-operator/store"
)

// stepChanges notifies triggers and surveys of changes by steps.
type stepChanges struct{ o *operator }

// BindingsChanged updates the triggers to the attached bindings.
func (s stepChanges) BindingsChanged() {
	s.o.clusterObserver.labels.forget()
	s.o.kube.Changed()
	s.o.schedule.Changed()
	s.o.webhook.Changed()
	s.o.engine.RateLimitsChanged()
	s.o.surveys.filters.raise()
}

// recorded updates the triggers after the end of a task.
func (s stepChanges) recorded(r store.Record) {
	s.o.configMap.Recorded(r)
	if c := r.Subject.Configuration; c != "" && api.ParseIdentity(c).Namespace == "" { // only configurations without a namespace provide modules
		s.o.surveys.registry.raise()
	}
}

func (s stepChanges) ConfigApplied()                       { s.o.configMap.Changed() }
func (s stepChanges) ReleaseChanged(module string)         { s.o.absent.Changed(module) }
func (s stepChanges) ModuleDisabledByConfig(module string) { s.o.canceler.cancel(module) }
func (s stepChanges) ProblemsChanged()                     { s.o.surveys.problems.raise() }
func (s stepChanges) AddonModulesChanged()                 { s.o.surveys.registry.raise() }

// Converged reports the converge, makes the operator ready, and checks for files that were
// corrected in the meantime.
func (s stepChanges) Converged() {
	s.o.surveys.files.raise()
	s.o.surveys.problems.raise()
	s.o.lifecycleObserver.convergeEnded()
	s.o.status.converged.Store(true)
	s.o.webhook.Changed()
}
