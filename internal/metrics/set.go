package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A Set is all metrics of one operator. Its methods may be called from many
// goroutines at once. Make one with New.
type Set struct {
	registry *prometheus.Registry
	list     []metric

	moduleHook, globalHook hookMetrics
	client                 clientMetrics
	webhook                webhookMetrics

	taskWait        *prometheus.CounterVec
	tasks           *prometheus.CounterVec
	moduleRun       *prometheus.HistogramVec
	moduleRunErrors *prometheus.CounterVec
	moduleDelErrors *prometheus.CounterVec
	discoverErrors  prometheus.Counter
	configErrors    prometheus.Counter
	convergeTime    *prometheus.CounterVec
	converges       *prometheus.CounterVec
	moduleHelm      *prometheus.HistogramVec
	helmOperation   *prometheus.HistogramVec
	addonsFetch     *prometheus.HistogramVec
	redeployed      *prometheus.CounterVec
	absent          *prometheus.CounterVec
	blocked         prometheus.Gauge
	loops           *prometheus.CounterVec
	damaged         *prometheus.CounterVec
	filterErrors    *prometheus.CounterVec
	watchErrors     *prometheus.CounterVec
	hookDropped     *prometheus.CounterVec
	hookSlow        *prometheus.GaugeVec
	queueAction     *prometheus.HistogramVec
	filterTime      *prometheus.HistogramVec
	eventTime       *prometheus.HistogramVec
	commit          prometheus.Observer
	commitWrites    prometheus.Counter
}

// New returns a set whose names begin with prefix. State is called at each
// scrape, and must not call the set.
func New(prefix string, state func() (State, error)) *Set {
	s := &Set{registry: prometheus.NewRegistry()}
	m := maker{prefix: prefix, into: s.registry, list: &s.list}
	s.moduleHook = m.hooks("module_hook", "a module hook", "module", "hook", "binding", "queue", "activation")
	s.globalHook = m.hooks("global_hook", "a global hook", "hook", "binding", "queue", "activation")
	s.client = m.client()
	s.webhook = m.webhooks()
	s.taskWait = m.counters("task_wait_in_queue_seconds_total", "Time that tasks waited in queues before they started.", "module", "hook", "binding", "queue")
	s.tasks = m.counters("tasks_ended_total", "Ended tasks in the history, by node and final state.", "node", "state")
	s.moduleRun = m.long("module_run_seconds", "Duration of module runs from their first step to the last afterHelm hook.", "module", "activation")
	s.moduleRunErrors = m.counters("module_run_errors_total", "Failed attempts of steps of module runs.", "module")
	s.moduleDelErrors = m.counters("module_delete_errors_total", "Failed attempts of steps of module deletions.", "module")
	s.discoverErrors = m.counter("modules_discover_errors_total", "Failed attempts to discover modules.")
	s.configErrors = m.counter("config_values_errors_total", "Changes of the ConfigMap that were refused.")
	s.convergeTime = m.counters("convergence_seconds", "Duration of completed converges.", "activation")
	s.converges = m.counters("convergence_total", "Completed converges.", "activation")
	s.moduleHelm = m.long("module_helm_seconds", "Duration of the Helm steps of module runs.", "module", "activation")
	s.helmOperation = m.long("helm_operation_seconds", "Duration of Helm operations.", "module", "activation", "operation")
	s.addonsFetch = m.long("addons_fetch_seconds", "Duration of fetching one repository of an addons configuration, by scope and reason of failure.", "scope", "reason")
	s.redeployed = m.counters("modules_helm_release_redeployed_total", "Module runs started because objects of the release were absent.", "module")
	s.absent = m.counters("modules_absent_resources_total", "Objects of releases that were found absent.", "module", "resource")
	s.blocked = m.gauge("releases_blocked", "Releases whose deletion a safety check blocked in the last discovery.")
	s.damaged = m.counters("damaged_records_total", "Records of the store that could not be read and were moved to another table.", "table")
	s.damaged.WithLabelValues("queues") // it is 0 before the first damaged task
	s.loops = m.counters("loops_total", "Runs that were delayed because a step had caused itself at least three times in a row.", "node", "module")
	s.filterErrors = m.counters("kube_jq_filter_errors_total", "Failed runs of jqFilters, for each object and binding.", "module", "hook", "binding", "queue", "kind")
	s.watchErrors = m.counters("kubernetes_client_watch_errors_total", "Lists and watches that failed.", "error_type")
	s.hookDropped = m.counters("hook_metrics_dropped_total", "Operations in $METRICS_PATH that were dropped because of a type conflict or a limit.", "module", "hook", "reason")
	s.hookSlow = m.gauges("hook_runs_slow", "Current runs of a hook that take much longer than all previous ones.", "module", "hook")
	s.queueAction = m.histogram("tasks_queue_action_duration_seconds", "Duration of adding tasks to the queue, and of transitions.", "queue_name", "queue_action")
	s.filterTime = m.histogram("kube_jq_filter_duration_seconds", "Duration of jqFilters, for each object and binding.", "module", "hook", "binding", "queue", "kind")
	s.eventTime = m.histogram("kube_event_duration_seconds", "Time from the arrival of an event until it is in the queue of the binding.", "module", "hook", "binding", "queue", "kind")
	s.commit = m.histogram("store_commit_seconds", "Duration of commits to the store, including the sync to disk.").WithLabelValues()
	s.commitWrites = m.counter("store_writes_total", "Keys written by commits to the store.")
	s.registry.MustRegister(
		newScrape(m, state), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return s
}

// Page serves the operator's own metrics.
func (s *Set) Page() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// TaskWaited counts the time a task stood in its queue before it was begun.
func (s *Set) TaskWaited(b Binding, wait time.Duration) {
	s.taskWait.WithLabelValues(b.Module, b.Hook, b.Name, b.Queue).Add(max(0, wait.Seconds()))
}

// TaskEnded counts a line of history.
func (s *Set) TaskEnded(node, state string) { s.tasks.WithLabelValues(node, state).Inc() }

// ModuleRan observes a run of module that came to its end.
func (s *Set) ModuleRan(module, activation string, took time.Duration) {
	s.moduleRun.WithLabelValues(module, activation).Observe(took.Seconds())
}

// ModuleRunFailed counts a failed attempt of a step of module's run.
func (s *Set) ModuleRunFailed(module string) { s.moduleRunErrors.WithLabelValues(module).Inc() }

// ModuleDeleteFailed counts a failed attempt of a step of module's delete.
func (s *Set) ModuleDeleteFailed(module string) { s.moduleDelErrors.WithLabelValues(module).Inc() }

// DiscoveryFailed counts a failed attempt to discover modules.
func (s *Set) DiscoveryFailed() { s.discoverErrors.Inc() }

// ConfigRefused counts a content of the ConfigMap that was refused.
func (s *Set) ConfigRefused() { s.configErrors.Inc() }

// Converged counts a converge that came to its end.
func (s *Set) Converged(activation string, took time.Duration) {
	s.convergeTime.WithLabelValues(activation).Add(max(0, took.Seconds()))
	s.converges.WithLabelValues(activation).Inc()
}

// AddonsFetched observes that a repository was fetched with its addons; with a reason, that it was not.
func (s *Set) AddonsFetched(scope, reason string, took time.Duration) {
	s.addonsFetch.WithLabelValues(scope, reason).Observe(took.Seconds())
}

// HelmDid observes one operation of Helm.
func (s *Set) HelmDid(module, activation, operation string, took time.Duration) {
	s.helmOperation.WithLabelValues(module, activation, operation).Observe(took.Seconds())
}

// ModuleHelmDid observes the whole Helm part of a run of module.
func (s *Set) ModuleHelmDid(module, activation string, took time.Duration) {
	s.moduleHelm.WithLabelValues(module, activation).Observe(took.Seconds())
}

// ObjectsAbsent counts objects of module's release that were found absent, each
// given as namespace/Kind/name.
func (s *Set) ObjectsAbsent(module string, objects []string) {
	s.redeployed.WithLabelValues(module).Inc()
	for _, o := range objects {
		s.absent.WithLabelValues(module, o).Inc()
	}
}

// DeletionsBlocked sets the number of releases that a safety check kept in the last discovery.
func (s *Set) DeletionsBlocked(releases int) { s.blocked.Set(float64(releases)) }

// RecordDamaged counts a record that could not be read.
func (s *Set) RecordDamaged(table string) { s.damaged.WithLabelValues(table).Inc() }

// Looped counts a circle of steps that is delayed.
func (s *Set) Looped(node, module string) { s.loops.WithLabelValues(node, module).Inc() }

// FilterFailed counts an object of kind on which the jqFilter of a binding failed.
func (s *Set) FilterFailed(b Binding, kind string) {
	s.filterErrors.WithLabelValues(b.Module, b.Hook, b.Name, b.Queue, kind).Inc()
}

// WatchFailed counts a list or watch that failed. The reason is one word.
func (s *Set) WatchFailed(reason string) { s.watchErrors.WithLabelValues(reason).Inc() }

// HookSlow says that a run of a hook under way takes far longer than any before; ended is called at its
// end. Module is empty for a global hook.
func (s *Set) HookSlow(module, hook string) (ended func()) {
	gauge := s.hookSlow.WithLabelValues(module, hook)
	gauge.Inc()
	return gauge.Dec
}

// HookMetricsDropped counts operations on metrics that a hook wrote and that did
// not count. The reason is one word.
func (s *Set) HookMetricsDropped(module, hook, reason string, operations int) {
	s.hookDropped.WithLabelValues(module, hook, reason).Add(float64(operations))
}
