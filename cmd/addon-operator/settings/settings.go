// Package settings declares the flags and variables of the operator, and reads and checks their values.
package settings

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"addon-operator/triggers"
)

// Settings are the settings of an operator. A flag takes precedence over its variables, and the variables take
// precedence over the default. If a flag has several variables, the first one in its help text that is not empty is
// used.
type Settings struct {
	ModulesDirs     string
	GlobalHooksDir  string
	UnnumberedOrder int
	StrictValues    bool
	AddonsModules   bool
	ParallelModules int
	TempDir         string
	ToolsDir        string
	KeepTemp        bool
	Store           string
	Startup         string
	ScheduleMissed  string
	AllowPurge      int
	HistoryAge      time.Duration
	HistoryMiB      int
	SnapshotEvery   time.Duration

	Namespace   string
	Lease       string
	ConfigMap   string
	Kubeconfig  string
	KubeContext string
	KubeServer  string
	KubeQPS     float64
	KubeBurst   int

	ObjectQPS     float64
	ObjectBurst   int
	ObjectTimeout time.Duration

	// WithdrawWebhooks is WithdrawNever, WithdrawAtZero or WithdrawAlways.
	WithdrawWebhooks string
	// OnModuleFailure is BlockOnFailure or ContinueOnFailure.
	OnModuleFailure string
	// HookTimeout limits a run of an enabled script, or of a hook that has no timeout in its
	// configuration. 0 means no limit.
	HookTimeout time.Duration

	HelmHistoryMax    int
	HelmTimeout       time.Duration
	HelmIgnoreRelease string
	Pod               string
	HelmDriver        string
	ExtraLabels       string
	CRDFilters        string

	ListenAddress string
	ListenPort    int
	MetricsPrefix string
	// UngroupedMetrics is KeepMetrics or ExpireMetrics.
	UngroupedMetrics string
	QueueActions     bool
	DebugSocket      string
	DebugAddress     string
	// DebugKubernetes makes the operator log each request to the API server.
	DebugKubernetes bool
	LogLevel        string
	LogType         string
	LogNoTime       bool
	LogJoinJSON     bool

	Webhooks Webhooks
	Addons   Addons
	Web      Web
	Tracing  Tracing

	// Warnings are texts about settings that have no effect, and about settings of traces that are invalid.
	Warnings []string
}

// Declare declares the flags of s on f. The caller must call the returned function after f has parsed the command line:
// for each flag that the command line does not set, the function uses the value of the flag's environment variable. The
// function returns an error if such a value is invalid.
func Declare(s *Settings, f *pflag.FlagSet) func() error {
	d := &declarations{flags: f}
	d.text(&s.ModulesDirs, "modules-dir", "modules", "directories of modules, separated by colons", "ADDON_OPERATOR_MODULES_DIR", "MODULES_DIR")
	d.text(&s.GlobalHooksDir, "global-hooks-dir", "global-hooks", "directory of global hooks", "ADDON_OPERATOR_GLOBAL_HOOKS_DIR", "GLOBAL_HOOKS_DIR", "SHELL_OPERATOR_HOOKS_DIR")
	d.number(&s.UnnumberedOrder, "unnumbered-modules-order", 1, "order of modules without a number", "ADDON_OPERATOR_UNNUMBERED_MODULES_ORDER", "UNNUMBERED_MODULES_ORDER", "UNNUMBERED_MODULE_ORDER")
	d.toggle(&s.StrictValues, "strict-check-values-mode-enabled", "treat a missing values.yaml of a module or of a directory of modules as an error", "ADDON_OPERATOR_STRICT_CHECK_VALUES_MODE_ENABLED", "STRICT_CHECK_VALUES_MODE_ENABLED")
	d.toggle(&s.AddonsModules, "addons-modules", "use the addons of every ClusterAddonsConfiguration as modules, not only of those with the annotation addons.kyma-project.io/modules: \"true\"", "ADDON_OPERATOR_ADDONS_MODULES")
	d.number(&s.ParallelModules, "parallel-modules", 1, "maximum number of modules with the same number that run in parallel", "ADDON_OPERATOR_PARALLEL_MODULES")
	d.text(&s.TempDir, "tmp-dir", defaultTempDir(), "directory for the temporary files of hook runs", "ADDON_OPERATOR_TMP_DIR", "SHELL_OPERATOR_TMP_DIR")
	d.text(&s.ToolsDir, "hook-tools-dir", defaultToolsDir(), "last directory in the PATH of hooks; it contains the program jq", "ADDON_OPERATOR_HOOK_TOOLS_DIR")
	d.toggle(&s.KeepTemp, "debug-keep-tmp-files", "keep the temporary files of hook runs", "DEBUG_KEEP_TMP_FILES")
	d.text(&s.Store, "store", DefaultStore, "file of the store, with pending and finished work", "ADDON_OPERATOR_STORE")
	d.text(&s.Startup, "startup", string(triggers.Always), "mode of a start with an existing store: always, if-changed, again or clean", "ADDON_OPERATOR_STARTUP")
	d.text(&s.ScheduleMissed, "schedule-missed", string(triggers.Skip), "policy for schedule ticks missed during downtime: skip or once", "ADDON_OPERATOR_SCHEDULE_MISSED")
	d.number(&s.AllowPurge, "allow-purge", 0, "maximum number of releases one converge may delete without the 50 % safety check", "ADDON_OPERATOR_ALLOW_PURGE")
	d.duration(&s.HistoryAge, "history-age", 7*24*time.Hour, "maximum age of the history", "ADDON_OPERATOR_HISTORY_AGE")
	d.number(&s.HistoryMiB, "history-size", 64, "maximum size of the history in MiB", "ADDON_OPERATOR_HISTORY_SIZE")
	d.duration(&s.SnapshotEvery, "snapshot-interval", time.Hour, "interval between snapshots of the store, which are files beside it; 0 disables them", "ADDON_OPERATOR_SNAPSHOT_INTERVAL")
	d.text(&s.Namespace, "namespace", "", "namespace of the ConfigMap and the releases; that of the pod or kubeconfig if empty", "ADDON_OPERATOR_NAMESPACE", "SHELL_OPERATOR_NAMESPACE")
	d.text(&s.Lease, "lease", LeaseRequired, "policy for the Lease of the namespace: required, or off if the operator has no permission for Leases", "ADDON_OPERATOR_LEASE")
	d.text(&s.ConfigMap, "config-map", "addon-operator", "name of the ConfigMap", "ADDON_OPERATOR_CONFIG_MAP")
	d.text(&s.Kubeconfig, "kube-config", "", "kubeconfig file, or several, separated by \":\"; if empty, the cluster of the pod, or the default kubeconfig outside of a pod", "KUBE_CONFIG", "KUBECONFIG")
	d.text(&s.KubeContext, "kube-context", "", "context of the kubeconfig", "KUBE_CONTEXT")
	d.text(&s.KubeServer, "kube-server", "", "address of the API server", "KUBE_SERVER")
	d.rate(&s.KubeQPS, "kube-client-qps", 0, "maximum requests per second to the API server; 0 is no limit", "KUBE_CLIENT_QPS")
	d.number(&s.KubeBurst, "kube-client-burst", 10, "maximum burst of requests above --kube-client-qps", "KUBE_CLIENT_BURST")
	d.rate(&s.ObjectQPS, "object-patcher-kube-client-qps", 0, "maximum requests per second for operations of hooks; 0 is no limit", "OBJECT_PATCHER_KUBE_CLIENT_QPS")
	d.number(&s.ObjectBurst, "object-patcher-kube-client-burst", 10, "maximum burst of requests above --object-patcher-kube-client-qps", "OBJECT_PATCHER_KUBE_CLIENT_BURST")
	d.duration(&s.ObjectTimeout, "object-patcher-kube-client-timeout", 10*time.Second, "timeout of each request for operations of hooks", "OBJECT_PATCHER_KUBE_CLIENT_TIMEOUT")
	d.text(&s.OnModuleFailure, "on-module-failure", BlockOnFailure, "policy for the modules after a failing one: block makes them wait; continue runs them, and only afterAll waits", "ADDON_OPERATOR_ON_MODULE_FAILURE")
	d.text(&s.WithdrawWebhooks, "withdraw-webhooks-on-shutdown", WithdrawNever,
		"policy for deleting the admission webhook configurations at shutdown, so that the API server admits requests without a check: never, scaled-to-zero or always",
		"ADDON_OPERATOR_WITHDRAW_WEBHOOKS_ON_SHUTDOWN")
	d.duration(&s.HookTimeout, "hook-timeout", 0, "timeout for a run of an enabled script, or of a hook without its own timeout; 0 is no limit", "ADDON_OPERATOR_HOOK_TIMEOUT")
	d.number(&s.HelmHistoryMax, "helm-history-max", 10, "maximum number of revisions kept per release; 0 keeps all", "HELM_HISTORY_MAX")
	d.duration(&s.HelmTimeout, "helm-timeout", 20*time.Minute, "timeout for each Helm hook of a chart", "HELM_TIMEOUT")
	d.text(&s.HelmIgnoreRelease, "helm-ignore-release", "", "name of a release that is never deleted, such as the operator's own", "HELM_IGNORE_RELEASE")
	d.text(&s.Pod, "pod", "", "name of the operator's pod, whose release is never deleted; the host name if empty", "POD_NAME", "ADDON_OPERATOR_POD")
	d.text(&s.HelmDriver, "helm-driver", "secret", "storage driver of Helm releases: secret or configmap", "HELM_DRIVER")
	d.text(&s.ExtraLabels, "crd-extra-labels", "heritage=addon-operator", "labels added to every CRD and every object of a release", "ADDON_OPERATOR_CRD_EXTRA_LABELS")
	d.text(&s.CRDFilters, "crd-filters", "doc-,_", "prefixes of file names in crds that are ignored", "ADDON_OPERATOR_CRD_FILTER_PREFIXES")
	d.text(&s.ListenAddress, "prometheus-listen-address", "0.0.0.0", "address to listen on for health and metrics", "ADDON_OPERATOR_LISTEN_ADDRESS", "SHELL_OPERATOR_LISTEN_ADDRESS")
	d.number(&s.ListenPort, "prometheus-listen-port", 9650, "port to listen on for health and metrics", "ADDON_OPERATOR_LISTEN_PORT", "SHELL_OPERATOR_LISTEN_PORT")
	d.text(&s.MetricsPrefix, "prometheus-metrics-prefix", "addon_operator_", "prefix of the operator's own metrics", "ADDON_OPERATOR_PROMETHEUS_METRICS_PREFIX", "SHELL_OPERATOR_PROMETHEUS_METRICS_PREFIX")
	s.QueueActions = true
	d.toggle(&s.QueueActions, "queue-actions-metrics", "measure the duration of actions on queues", "QUEUE_ACTIONS_METRICS")
	d.text(&s.UngroupedMetrics, "ungrouped-metrics", KeepMetrics, "policy for a hook's old metrics without a group when it writes new ones: keep or expire", "ADDON_OPERATOR_UNGROUPED_METRICS")
	s.Webhooks.declare(d)
	s.Addons.declare(d)
	d.text(&s.DebugSocket, "debug-unix-socket", DefaultSocket, "socket that the other commands connect to", SocketVariable)
	d.text(&s.DebugAddress, "debug-http-addr", "127.0.0.1:9115", "loopback address, HOST:PORT, to listen on for debug pages without secrets; off if the flag is empty", "DEBUG_HTTP_SERVER_ADDR")
	s.Web.declare(d)
	s.Tracing.declare(d)
	d.toggle(&s.DebugKubernetes, "debug-kubernetes-api", "log each request to the API server", "DEBUG_KUBERNETES_API")
	d.text(&s.LogLevel, "log-level", "info", "minimum level of log lines: debug, info, warn or error; other levels of earlier operators, such as trace, are mapped to the nearest", "LOG_LEVEL", "RLOG_LOG_LEVEL")
	d.toggle(&s.LogJoinJSON, "log-proxy-hook-json", "write one log record for a JSON object that a hook prints over several lines", "LOG_PROXY_HOOK_JSON")
	d.text(&s.LogType, "log-type", "text", "format of log lines: text, json or color", "LOG_TYPE")
	d.toggle(&s.LogNoTime, "log-no-time", "omit the time from log lines", "LOG_NO_TIME")
	ignored := declareUnserved(f)
	return func() (err error) {
		err = d.readEnvironment()
		s.TempDir = cmp.Or(s.TempDir, defaultTempDir()) // an empty path would be the working directory
		s.Warnings = ignored()
		return err
	}
}

// The values of --lease.
const (
	LeaseRequired = "required"
	LeaseOff      = "off"
)

// The values of --withdraw-webhooks-on-shutdown.
const (
	WithdrawNever  = "never"
	WithdrawAtZero = "scaled-to-zero"
	WithdrawAlways = "always"
)

var withdrawals = []string{WithdrawNever, WithdrawAtZero, WithdrawAlways}

// The values of --ungrouped-metrics.
const (
	KeepMetrics   = "keep"
	ExpireMetrics = "expire"
)

// The values of --on-module-failure.
const (
	BlockOnFailure    = "block"
	ContinueOnFailure = "continue"
)

const (
	// DefaultSocket is the default path of the debug socket, for an operator in a pod.
	DefaultSocket = "/var/run/addon-operator/debug.socket"
	// DefaultStore is the default path of the store, for an operator in a pod.
	DefaultStore = "/var/lib/addon-operator/store.db"
	// SocketVariable is the environment variable of the flag --debug-unix-socket.
	SocketVariable = "DEBUG_UNIX_SOCKET"
)

// Aliases are alternative names of flags, from shell-operator.
var Aliases = map[string]string{
	"hooks-dir": "global-hooks-dir", "listen-address": "prometheus-listen-address", "listen-port": "prometheus-listen-port",
}

// ByAlias replaces an alias in [Aliases] by the name of the flag.
func ByAlias(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if other, ok := Aliases[name]; ok {
		name = other
	}
	return pflag.NormalizedName(name)
}

func defaultTempDir() string { return filepath.Join(os.TempDir(), "addon-operator") }

// defaultToolsDir returns the directory hooktools beside the executable.
func defaultToolsDir() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Join(filepath.Dir(self), "hooktools")
}

// yesNo is a boolean flag that also accepts yes, no, on and off.
type yesNo bool

func (y *yesNo) String() string   { return strconv.FormatBool(bool(*y)) }
func (y *yesNo) Type() string     { return "bool" }
func (y *yesNo) IsBoolFlag() bool { return true }

func (y *yesNo) Set(s string) error {
	switch strings.ToLower(s) {
	case "yes", "on":
		*y = true
		return nil
	case "no", "off":
		*y = false
		return nil
	}
	v, err := strconv.ParseBool(s)
	*y = yesNo(v)
	return err
}

// OwnPod returns the name of the operator's own pod. If the setting is empty, OwnPod returns the host name. This is the
// name of the pod, unless the pod sets hostNetwork or hostname.
func (s *Settings) OwnPod() string {
	if s.Pod != "" {
		return s.Pod
	}
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
