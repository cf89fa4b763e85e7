package settings

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// An Unserved is a setting of addon-operator or shell-operator that is accepted without effect, so
// that existing manifests can be used.
type Unserved struct {
	Flag string // may be empty
	Env  string
	Why  string
}

const (
	alwaysLeads = "the operator uses the Lease of the namespace unless --lease is off, and all replicas but one wait as standby"
	noRoutes    = "the API server can call only hooks; see the settings of webhooks"
	oneClient   = "the client of the operator watches the objects of releases; limit it with --kube-client-qps and --kube-client-burst"
)

// NotServed are the settings without effect that are in the documents RUNNING.md of addon-operator
// and shell-operator.
var NotServed = []Unserved{
	{Env: "ADDON_OPERATOR_HA", Why: alwaysLeads},
	{Env: "USE_NELM", Why: "the operator uses the Helm library"},
	{Env: "NELM_DEPENDENCY_GRAPH_ENABLED", Why: "the operator uses the Helm library"},
	{Flag: "jq-library-path", Env: "JQ_LIBRARY_PATH", Why: "jq filters cannot load libraries"},
	{Flag: "shell-chroot-dir", Env: "ADDON_OPERATOR_SHELL_CHROOT_DIR", Why: "hooks run in the operator's own root directory"},
	{Flag: "applied-module-extenders", Env: "ADDON_OPERATOR_APPLIED_MODULE_EXTENDERS", Why: "the order of the sources that enable modules is fixed"},
	{Env: "ADDON_OPERATOR_ADMISSION_SERVER_ENABLED", Why: noRoutes},
	{Env: "ADDON_OPERATOR_ADMISSION_SERVER_LISTEN_PORT", Why: noRoutes},
	{Env: "ADDON_OPERATOR_ADMISSION_SERVER_CERTS_DIR", Why: noRoutes},
	{Flag: "helm-monitor-kube-client-qps", Env: "HELM_MONITOR_KUBE_CLIENT_QPS", Why: oneClient},
	{Flag: "helm-monitor-kube-client-burst", Env: "HELM_MONITOR_KUBE_CLIENT_BURST", Why: oneClient},
	{Flag: "validating-webhook-failure-policy", Env: "VALIDATING_WEBHOOK_FAILURE_POLICY", Why: "each binding has its own failurePolicy, by default Fail"},
}

// declareUnserved declares the flags of [NotServed] on f as hidden flags. The returned function
// returns a warning for each of these flags or variables that is set. The warning does not contain
// the value of the flag or variable.
func declareUnserved(f *pflag.FlagSet) func() []string {
	for _, s := range NotServed {
		if s.Flag == "" {
			continue
		}
		f.String(s.Flag, "", s.Why)
		f.Lookup(s.Flag).Hidden = true
	}
	return func() (warnings []string) {
		for _, s := range NotServed {
			if s.Flag != "" && f.Changed(s.Flag) {
				warnings = append(warnings, fmt.Sprintf("flag --%s has no effect: %s", s.Flag, s.Why))
			}
			if v, ok := os.LookupEnv(s.Env); ok && v != "" {
				warnings = append(warnings, fmt.Sprintf("variable %s has no effect: %s", s.Env, s.Why))
			}
		}
		return warnings
	}
}
