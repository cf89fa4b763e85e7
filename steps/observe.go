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
)

// An Observer is notified of the work of the steps, to log and count it. An Observer does not influence the steps.
type Observer interface {
	hookrun.Observer
	releases.Observer
	modulerun.Observer
	discover.Observer
	configmap.Observer
}

// Changes is notified of changes that steps have made in the store, after the commit of each change. Its methods wake
// other parts of the operator, such as triggers.
type Changes interface {
	scan.Changes
	converge.Changes
	discover.Changes
	moduledelete.Changes
}

// silent implements Observer and Changes. Its methods do nothing.
type silent struct{ hookrun.Silent }

func (silent) HelmBegins(string, string) func() { return func() {} }
func (silent) ModuleRan(string)                 {}
func (silent) DeletionBlocked([]string, string) {}
func (silent) ConfigRefused(string, string)     {}
func (silent) ModuleDisabledByConfig(string)    {}
func (silent) Converged()                       {}
func (silent) ProblemsChanged()                 {}
func (silent) AddonModulesChanged()             {}
