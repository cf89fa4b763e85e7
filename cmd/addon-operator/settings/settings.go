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

// Settings are the settings of an operator. A flag takes precedence over a variable, a variable with
// the prefix ADDON_OPERATOR_ over the one without, and that over the default.
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

	// WithdrawWebhooks is never, scaled-to-zero or always.
	WithdrawWebhooks string
	// OnModuleFailure is block or continue.
	OnModuleFailure string
	// HookTimeout is how long a run of a hook may take that sets no timeout; 0 is no limit.
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
	// UngroupedMetrics is keep or expire.
	UngroupedMetrics string
	QueueActions     bool
	DebugSocket      string
	DebugAddress     string
	// DebugKubernetes has each request to the API server logged.
	DebugKubernetes bool
	LogLevel        string
	LogType         string
	LogNoTime       bool
	LogJoinJSON     bool

	Webhooks Webhooks
	Addons   Addons

	// Warnings names what was set and has no effect.
	Warnings []string
}

// A setting is one flag with its variables.
type setting struct {
	flag  string
	env   []string
	usage string
}

// Declare declares the flags of s on f, each with its variables. The returned function reads the
// variables of flags that were not set.
func Declare(s *Settings, f *pflag.FlagSet) func() error {
	var all []setting
	add := func(flag, usage string, env ...string) {
		all = append(all, setting{flag, env, usage})
		f.Lookup(flag).Usage = usage + " [$" + strings.Join(env, ", $") + "]"
	}
	str := func(p *string, flag, value, usage string, env ...string) {
		f.StringVar(p, flag, value, usage)
		add(flag, usage, env...)
	}
	num := func(p *int, flag string, value int, usage string, env ...string) {
		f.IntVar(p, flag, value, usage)
		add(flag, usage, env...)
	}
	dur := func(p *time.Duration, flag string, value time.Duration, usage string, env ...string) {
		f.DurationVar(p, flag, value, usage)
		add(flag, usage, env...)
	}
	flag := func(p *bool, name string, usage string, env ...string) {
		f.Var((*yesNo)(p), name, usage)
		f.Lookup(name).NoOptDefVal = "true"
		add(name, usage, env...)
	}
	str(&s.ModulesDirs, "modules-dir", "modules", "directories of modules, separated by colons", "ADDON_OPERATOR_MODULES_DIR", "MODULES_DIR")
	str(&s.GlobalHooksDir, "global-hooks-dir", "global-hooks", "directory of global hooks", "ADDON_OPERATOR_GLOBAL_HOOKS_DIR", "GLOBAL_HOOKS_DIR", "SHELL_OPERATOR_HOOKS_DIR")
	num(&s.UnnumberedOrder, "unnumbered-modules-order", 1, "order of modules without a number", "ADDON_OPERATOR_UNNUMBERED_MODULES_ORDER", "UNNUMBERED_MODULES_ORDER", "UNNUMBERED_MODULE_ORDER")
	flag(&s.StrictValues, "strict-check-values-mode-enabled", "take a values.yaml that is missing, of a module or of a directory of modules, for an error", "ADDON_OPERATOR_STRICT_CHECK_VALUES_MODE_ENABLED", "STRICT_CHECK_VALUES_MODE_ENABLED")
	flag(&s.AddonsModules, "addons-modules", "use the addons of every ClusterAddonsConfiguration as modules, not only of those with the annotation addons.kyma-project.io/modules: \"true\"", "ADDON_OPERATOR_ADDONS_MODULES")
	num(&s.ParallelModules, "parallel-modules", 1, "modules of equal number that are run at once", "ADDON_OPERATOR_PARALLEL_MODULES")
	str(&s.TempDir, "tmp-dir", defaultTempDir(), "directory for hooks' files", "ADDON_OPERATOR_TMP_DIR", "SHELL_OPERATOR_TMP_DIR")
	str(&s.ToolsDir, "hook-tools-dir", defaultToolsDir(), "directory put last on the PATH of hooks; it holds a jq", "ADDON_OPERATOR_HOOK_TOOLS_DIR")
	flag(&s.KeepTemp, "debug-keep-tmp-files", "keep hooks' files after their runs", "DEBUG_KEEP_TMP_FILES")
	str(&s.Store, "store", "/var/lib/addon-operator/store.db", "file of pending and past work", "ADDON_OPERATOR_STORE")
	str(&s.Startup, "startup", string(triggers.Always), "what a start does with an earlier one: always, if-changed, again or clean", "ADDON_OPERATOR_STARTUP")
	str(&s.ScheduleMissed, "schedule-missed", string(triggers.Skip), "what becomes of ticks missed while down: skip or once", "ADDON_OPERATOR_SCHEDULE_MISSED")
	num(&s.AllowPurge, "allow-purge", 0, "releases that may be deleted at once even where they are more than half", "ADDON_OPERATOR_ALLOW_PURGE")
	dur(&s.HistoryAge, "history-age", 7*24*time.Hour, "how long finished work is remembered", "ADDON_OPERATOR_HISTORY_AGE")
	num(&s.HistoryMiB, "history-size", 64, "MiB of finished work that are remembered, if that is less", "ADDON_OPERATOR_HISTORY_SIZE")
	dur(&s.SnapshotEvery, "snapshot-interval", time.Hour, "time between snapshots of the store, made beside it; 0 makes none", "ADDON_OPERATOR_SNAPSHOT_INTERVAL")
	str(&s.Namespace, "namespace", "", "namespace of the ConfigMap and the releases; that of the pod or kubeconfig if empty", "ADDON_OPERATOR_NAMESPACE", "SHELL_OPERATOR_NAMESPACE")
	str(&s.Lease, "lease", LeaseRequired, "whether to work only while holding the Lease of the namespace: required, or off where the operator has no right to Leases", "ADDON_OPERATOR_LEASE")
	str(&s.ConfigMap, "config-map", "addon-operator", "name of the ConfigMap", "ADDON_OPERATOR_CONFIG_MAP")
	str(&s.Kubeconfig, "kube-config", "", "kubeconfig file; in-cluster if empty", "KUBE_CONFIG", "KUBECONFIG")
	str(&s.KubeContext, "kube-context", "", "context of the kubeconfig", "KUBE_CONTEXT")
	str(&s.KubeServer, "kube-server", "", "address of the API server", "KUBE_SERVER")
	f.Float64Var(&s.KubeQPS, "kube-client-qps", 0, "")
	add("kube-client-qps", "requests a second; 0 leaves it to the API server", "KUBE_CLIENT_QPS")
	num(&s.KubeBurst, "kube-client-burst", 10, "requests beyond that at once", "KUBE_CLIENT_BURST")
	f.Float64Var(&s.ObjectQPS, "object-patcher-kube-client-qps", 0, "")
	add("object-patcher-kube-client-qps", "requests a second for hooks' object operations; 0 leaves it to the API server", "OBJECT_PATCHER_KUBE_CLIENT_QPS")
	num(&s.ObjectBurst, "object-patcher-kube-client-burst", 10, "requests beyond that at once", "OBJECT_PATCHER_KUBE_CLIENT_BURST")
	dur(&s.ObjectTimeout, "object-patcher-kube-client-timeout", 10*time.Second, "how long the answer to such a request is waited for", "OBJECT_PATCHER_KUBE_CLIENT_TIMEOUT")
	str(&s.OnModuleFailure, "on-module-failure", BlockOnFailure, "block: the modules after one that fails wait for it; continue: they run, and only afterAll waits", "ADDON_OPERATOR_ON_MODULE_FAILURE")
	str(&s.WithdrawWebhooks, "withdraw-webhooks-on-shutdown", WithdrawNever,
		"when a shutdown deletes the webhook configurations, so that the API server rejects no requests: never, scaled-to-zero or always",
		"ADDON_OPERATOR_WITHDRAW_WEBHOOKS_ON_SHUTDOWN")
	dur(&s.HookTimeout, "hook-timeout", 0, "timeout for a run of a hook or an enabled script that sets none; 0 is no limit", "ADDON_OPERATOR_HOOK_TIMEOUT")
	num(&s.HelmHistoryMax, "helm-history-max", 10, "revisions kept of a release; 0 keeps all", "HELM_HISTORY_MAX")
	dur(&s.HelmTimeout, "helm-timeout", 20*time.Minute, "bound of each wait for a chart's Helm hook", "HELM_TIMEOUT")
	str(&s.HelmIgnoreRelease, "helm-ignore-release", "", "release that is never deleted: the operator's own", "HELM_IGNORE_RELEASE")
	str(&s.Pod, "pod", "", "the operator's own pod, whose release is never deleted; the host's name if empty", "POD_NAME", "ADDON_OPERATOR_POD")
	str(&s.HelmDriver, "helm-driver", "secret", "where Helm keeps releases: secret or configmap", "HELM_DRIVER")
	str(&s.ExtraLabels, "crd-extra-labels", "heritage=addon-operator", "labels put on every CRD and every object of a release", "ADDON_OPERATOR_CRD_EXTRA_LABELS")
	str(&s.CRDFilters, "crd-filters", "doc-,_", "beginnings of names of files in crds that are passed over", "ADDON_OPERATOR_CRD_FILTER_PREFIXES")
	str(&s.ListenAddress, "prometheus-listen-address", "0.0.0.0", "address to serve HTTP at", "ADDON_OPERATOR_LISTEN_ADDRESS", "SHELL_OPERATOR_LISTEN_ADDRESS")
	num(&s.ListenPort, "prometheus-listen-port", 9650, "port to serve HTTP at", "ADDON_OPERATOR_LISTEN_PORT", "SHELL_OPERATOR_LISTEN_PORT")
	str(&s.MetricsPrefix, "prometheus-metrics-prefix", "addon_operator_", "prefix of the operator's own metrics", "ADDON_OPERATOR_PROMETHEUS_METRICS_PREFIX", "SHELL_OPERATOR_PROMETHEUS_METRICS_PREFIX")
	s.QueueActions = true
	flag(&s.QueueActions, "queue-actions-metrics", "time the actions on queues", "QUEUE_ACTIONS_METRICS")
	str(&s.UngroupedMetrics, "ungrouped-metrics", KeepMetrics, "what becomes of a hook's metrics without a group when it writes some again: keep or expire", "ADDON_OPERATOR_UNGROUPED_METRICS")
	s.Webhooks.declare(f, str, num, add)
	s.Addons.declare(str, dur, flag)
	str(&s.DebugSocket, "debug-unix-socket", DefaultSocket, "socket that the other commands talk to", SocketVariable)
	str(&s.DebugAddress, "debug-http-addr", "127.0.0.1:9115", "loopback address, HOST:PORT, to serve the debug pages on, without secrets; none if empty", "DEBUG_HTTP_SERVER_ADDR")
	flag(&s.DebugKubernetes, "debug-kubernetes-api", "log each request to the API server", "DEBUG_KUBERNETES_API")
	str(&s.LogLevel, "log-level", "info", "debug, info, warn or error; other words of earlier operators, such as trace, are the nearest of these", "LOG_LEVEL", "RLOG_LOG_LEVEL")
	flag(&s.LogJoinJSON, "log-proxy-hook-json", "take a JSON object that a hook prints over several lines for one record", "LOG_PROXY_HOOK_JSON")
	str(&s.LogType, "log-type", "text", "text, json or color", "LOG_TYPE")
	flag(&s.LogNoTime, "log-no-time", "leave the time out of log lines", "LOG_NO_TIME")
	ignored := declareUnserved(f)
	return func() (err error) {
		err = readEnv(f, all)
		s.TempDir = cmp.Or(s.TempDir, defaultTempDir()) // an empty one would be that of the process
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
	// DefaultSocket is where an operator in a pod listens.
	DefaultSocket = "/var/run/addon-operator/debug.socket"
	// SocketVariable is the variable of --debug-unix-socket.
	SocketVariable = "DEBUG_UNIX_SOCKET"
)

// Aliases are other names of flags: those of shell-operator.
var Aliases = map[string]string{
	"hooks-dir": "global-hooks-dir", "listen-address": "prometheus-listen-address", "listen-port": "prometheus-listen-port",
}

// ByAlias is how names of flags are read.
func ByAlias(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if other, ok := Aliases[name]; ok {
		name = other
	}
	return pflag.NormalizedName(name)
}

func defaultTempDir() string { return filepath.Join(os.TempDir(), "addon-operator") }

// defaultToolsDir is beside the operator's own file.
func defaultToolsDir() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Join(filepath.Dir(self), "hooktools")
}

func readEnv(f *pflag.FlagSet, all []setting) error {
	for _, s := range all {
		if f.Changed(s.flag) {
			continue
		}
		for _, name := range s.env {
			value, ok := os.LookupEnv(name)
			if !ok || value == "" {
				continue
			}
			if err := f.Lookup(s.flag).Value.Set(value); err != nil {
				return Invalid("variable %s: %w", name, err)
			}
			break
		}
	}
	return nil
}

// yesNo is a flag that takes yes and no as well as true and false.
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

// OwnPod returns the name of the operator's own pod: in a pod, that of the host
// is it.
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
