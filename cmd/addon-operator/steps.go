package main

import (
	"addon-operator/internal/api"
	"addon-operator/store"
)

// stepChanges is notified of changes that steps have made. It notifies the components that react to these changes, such
// as [surveys].
type stepChanges struct{ o *operator }

// recorded passes a history record to the trigger of the ConfigMap. If the record can change the
// modules that addons provide, recorded also starts the survey of registered addons.
func (s stepChanges) recorded(r store.Record) {
	s.o.configMap.Recorded(r)
	if c := r.Subject.Configuration; c != "" && api.ParseIdentity(c).Namespace == "" { // only configurations without a namespace provide modules
		s.o.surveys.registry.raise()
	}
}

func (s stepChanges) ModuleDisabledByConfig(module string) { s.o.canceler.cancel(module) }
func (s stepChanges) ProblemsChanged()                     { s.o.surveys.problems.raise() }
func (s stepChanges) AddonModulesChanged()                 { s.o.surveys.registry.raise() }

// Converged reports that a converge has ended. It makes the operator ready, unless a module is still pending, and
// requests a check for module files that were corrected during the converge.
func (s stepChanges) Converged() {
	s.o.surveys.files.raise()
	s.o.surveys.problems.raise()
	s.o.lifecycleObserver.convergeEnded()
	s.o.status.converged.Store(true)
}
