package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// An unserved setting is one of the existing operators that is accepted, so that
// their manifests can be used, and has no effect.
type unserved struct {
	flag string // may be empty
	env  string
	why  string
}

const (
	alwaysLeads = "the Lease of the namespace is always held: of several replicas, all but one wait as standby"
	noRoutes    = "nothing but hooks is asked by the API server; see the settings of webhooks"
	oneClient   = "all requests go through one client; limit it with --kube-client-qps"
)

// unservedSettings are those of the addon-operator and shell-operator RUNNING
// documents.
var unservedSettings = []unserved{
	{env: "ADDON_OPERATOR_HA", why: alwaysLeads},
	{env: "USE_NELM", why: "releases are made by the Helm library"},
	{env: "NELM_DEPENDENCY_GRAPH_ENABLED", why: "releases are made by the Helm library"},
	{flag: "jq-library-path", env: "JQ_LIBRARY_PATH", why: "jq filters have no library"},
	{env: "TRACING_OTLP_ENDPOINT", why: "nothing is traced; see workflow inspect"},
	{env: "TRACING_OTLP_AUTH_TOKEN", why: "nothing is traced; see workflow inspect"},
	{flag: "shell-chroot-dir", env: "ADDON_OPERATOR_SHELL_CHROOT_DIR", why: "hooks run in the operator's own root directory"},
	{flag: "applied-module-extenders", env: "ADDON_OPERATOR_APPLIED_MODULE_EXTENDERS", why: "the order of those who enable modules is fixed"},
	{env: "ADDON_OPERATOR_ADMISSION_SERVER_ENABLED", why: noRoutes},
	{env: "ADDON_OPERATOR_ADMISSION_SERVER_LISTEN_PORT", why: noRoutes},
	{env: "ADDON_OPERATOR_ADMISSION_SERVER_CERTS_DIR", why: noRoutes},
	{flag: "helm-monitor-kube-client-qps", env: "HELM_MONITOR_KUBE_CLIENT_QPS", why: oneClient},
	{flag: "helm-monitor-kube-client-burst", env: "HELM_MONITOR_KUBE_CLIENT_BURST", why: oneClient},
	{flag: "validating-webhook-failure-policy", env: "VALIDATING_WEBHOOK_FAILURE_POLICY", why: "each binding has a failurePolicy of its own, Fail if it gives none"},
}

// declareUnserved declares the flags that have no effect, hidden, on f. The
// returned function tells of those that were given, by flag or variable. It
// never tells their values.
func declareUnserved(f *pflag.FlagSet) func() []string {
	for _, s := range unservedSettings {
		if s.flag == "" {
			continue
		}
		f.String(s.flag, "", s.why)
		f.Lookup(s.flag).Hidden = true
	}
	return func() (warnings []string) {
		for _, s := range unservedSettings {
			if s.flag != "" && f.Changed(s.flag) {
				warnings = append(warnings, fmt.Sprintf("flag --%s has no effect: %s", s.flag, s.why))
			}
			if v, ok := os.LookupEnv(s.env); ok && v != "" {
				warnings = append(warnings, fmt.Sprintf("variable %s has no effect: %s", s.env, s.why))
			}
		}
		return warnings
	}
}
