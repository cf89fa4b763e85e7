package main

import (
	"addon-operator/internal/api"
	"addon-operator/store"
)

// stepChanges notifies triggers and surveys of the changes that steps have made.
type stepChanges struct{ o *operator }

// BindingsChanged notifies the triggers that the attached bindings have changed.
func (s stepChanges) BindingsChanged() {
	s.o.clusterObserver.labels.forget()
	s.o.kube.Changed()
	s.o.schedule.Changed()
	s.o.webhook.Changed()
	s.o.engine.RateLimitsChanged()
	s.o.surveys.filters.raise()
}

// recorded notifies the trigger of the ConfigMap and the survey of registered addons of a history
// record.
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

// Converged reports that a converge has ended, makes the operator ready, and requests a check for
// module files that were corrected during the converge.
func (s stepChanges) Converged() {
	s.o.surveys.files.raise()
	s.o.surveys.problems.raise()
	s.o.lifecycleObserver.convergeEnded()
	s.o.status.converged.Store(true)
	s.o.webhook.Changed()
}
