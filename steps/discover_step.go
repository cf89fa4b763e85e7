package steps

import (
	"addon-operator/internal/helm"
	"addon-operator/internal/kube"
	"addon-operator/steps/bindings"
	"addon-operator/steps/desired"
	"addon-operator/steps/hooks"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/report"
	"addon-operator/steps/stale"
	"addon-operator/store"
)

// A discoverStep returns the modules to enable, the modules to delete, and the releases to purge.
type discoverStep struct {
	directories *directories
	db          *store.DB
	log         *oncelog.Logger
	client      *kube.Client
	modules     *desired.Modules
	values      *desired.Values
	config      *desired.ConfigMap
	hooks       *hooks.Configs
	runner      hooks.Runner
	bindings    *bindings.Attached
	helm        *helm.Client
	stale       *stale.Bindings
	survey      *Survey
	reports     *report.Runs
	observer    Observer
	changes     Changes

	namespace       string
	pod             string // the operator's own, if it runs in one
	ignoreRelease   string // never purged: the operator's own
	allowPurge      int    // releases that may be purged without the safety check
	parallelModules int
}
