package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// moduleMetrics are the metrics of converges, modules and their releases.
type moduleMetrics struct {
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
}

func (m maker) modules() moduleMetrics {
	return moduleMetrics{
		moduleRun:       m.long("module_run_seconds", "Duration of module runs from their first step to the last afterHelm hook.", "module", "activation"),
		moduleRunErrors: m.counters("module_run_errors_total", "Failed attempts of steps of module runs.", "module"),
		moduleDelErrors: m.counters("module_delete_errors_total", "Failed attempts of steps of module deletions.", "module"),
		discoverErrors:  m.counter("modules_discover_errors_total", "Failed attempts to discover modules."),
		configErrors:    m.counter("config_values_errors_total", "Changes of the ConfigMap that were refused."),
		convergeTime:    m.counters("convergence_seconds", "Duration of completed converges.", "activation"),
		converges:       m.counters("convergence_total", "Completed converges.", "activation"),
		moduleHelm:      m.long("module_helm_seconds", "Duration of the Helm steps of module runs.", "module", "activation"),
		helmOperation:   m.long("helm_operation_seconds", "Duration of Helm operations.", "module", "activation", "operation"),
		addonsFetch:     m.long("addons_fetch_seconds", "Duration of fetching one repository of an addons configuration, by kind of scope and reason of failure.", "scope", "reason"),
		redeployed:      m.counters("modules_helm_release_redeployed_total", "Module runs started because objects of the release were absent.", "module"),
		absent:          m.counters("modules_absent_resources_total", "Objects of releases that were found absent.", "module", "resource"),
		blocked:         m.gauge("releases_blocked", "Releases that the last converge kept, because a safety check blocked their deletion or their purge failed."),
	}
}

// ModuleRan observes a completed run of module. trace is the identifier of the run's trace; it is empty if the run is
// not traced.
func (m moduleMetrics) ModuleRan(module, activation string, took time.Duration, trace string) {
	observe(m.moduleRun.WithLabelValues(module, activation), took, trace)
}

// ModuleRunFailed counts a failed attempt of a step of module's run.
func (m moduleMetrics) ModuleRunFailed(module string) {
	m.moduleRunErrors.WithLabelValues(module).Inc()
}

// ModuleDeleteFailed counts a failed attempt of a step of module's deletion.
func (m moduleMetrics) ModuleDeleteFailed(module string) {
	m.moduleDelErrors.WithLabelValues(module).Inc()
}

// DiscoveryFailed counts a failed attempt to discover modules.
func (m moduleMetrics) DiscoveryFailed() { m.discoverErrors.Inc() }

// ConfigRefused counts a change of the ConfigMap that was refused because it is invalid.
func (m moduleMetrics) ConfigRefused() { m.configErrors.Inc() }

// Converged counts a completed converge, and adds its duration to the total.
func (m moduleMetrics) Converged(activation string, took time.Duration) {
	m.convergeTime.WithLabelValues(activation).Add(max(0, took.Seconds()))
	m.converges.WithLabelValues(activation).Inc()
}

// AddonsFetched observes the fetch of a repository and its addons. If the fetch failed, reason says why; otherwise
// reason is empty.
func (m moduleMetrics) AddonsFetched(scope, reason string, took time.Duration) {
	m.addonsFetch.WithLabelValues(scope, reason).Observe(took.Seconds())
}

// HelmDid observes one Helm operation. trace is the identifier of the operation's trace; it is empty if the operation
// is not traced.
func (m moduleMetrics) HelmDid(module, activation, operation string, took time.Duration, trace string) {
	observe(m.helmOperation.WithLabelValues(module, activation, operation), took, trace)
}

// ModuleHelmDid observes the total duration of the Helm steps of a run of module. trace is the identifier of the
// run's trace; it is empty if the run is not traced.
func (m moduleMetrics) ModuleHelmDid(module, activation string, took time.Duration, trace string) {
	observe(m.moduleHelm.WithLabelValues(module, activation), took, trace)
}

// ObjectsAbsent counts a run of module that was started because objects of its release were absent, and each absent
// object. The format of each entry in objects is namespace/Kind/name.
func (m moduleMetrics) ObjectsAbsent(module string, objects []string) {
	m.redeployed.WithLabelValues(module).Inc()
	for _, o := range objects {
		m.absent.WithLabelValues(module, o).Inc()
	}
}

// DeletionsBlocked sets the number of releases that the last converge kept, because their deletion was blocked or
// failed.
func (m moduleMetrics) DeletionsBlocked(releases int) { m.blocked.Set(float64(releases)) }
