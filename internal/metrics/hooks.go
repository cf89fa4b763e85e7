package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Binding contains the labels of a hook's binding.
type Binding struct {
	// Module is empty for a global hook.
	Module, Hook string
	// Name is the binding's name.
	Name  string
	Queue string
}

// A HookRun is one run of a hook.
type HookRun struct {
	Binding
	// Type is the type of the binding, such as kubernetes. Hook metrics have the type in their label "binding".
	Type string
	// Activation is "OperatorStartup" until the first converge has ended, and empty after that.
	Activation         string
	Took, User, System time.Duration
	// MaxRSS is the maximum resident memory of the run, in bytes.
	MaxRSS int64
	// Failed is true if the run failed. Allowed is true if the binding has allowFailure.
	Failed, Allowed bool
	// Trace is the identifier of the trace of the run. It is empty if the run is not traced.
	Trace string
}

// HookRan observes one run of a hook.
func (s *Set) HookRan(r HookRun) {
	if r.Module == "" {
		s.globalHook.ran(r, r.Hook, r.Type, r.Queue, r.Activation)
		return
	}
	s.moduleHook.ran(r, r.Module, r.Hook, r.Type, r.Queue, r.Activation)
}

// hookMetrics are the metrics of one kind of hooks: global hooks or hooks of modules.
type hookMetrics struct {
	took, user, system         *prometheus.HistogramVec
	rss                        *prometheus.GaugeVec
	errors, allowed, successes *prometheus.CounterVec
}

func (m maker) hooks(name, whose string, labels ...string) hookMetrics {
	return hookMetrics{
		took:      m.long(name+"_run_seconds", "Time from the claim of a task (for a review request: from the start of the hook) to the end of "+whose+".", labels...),
		user:      m.histogram(name+"_run_user_cpu_seconds", "User CPU time of "+whose+".", labels...),
		system:    m.histogram(name+"_run_sys_cpu_seconds", "System CPU time of "+whose+".", labels...),
		rss:       m.gauges(name+"_run_max_rss_bytes", "Maximum resident memory of the last run of "+whose+".", labels...),
		errors:    m.counters(name+"_errors_total", "Failed runs of "+whose+" without allowFailure.", labels...),
		allowed:   m.counters(name+"_allowed_errors_total", "Failed runs of "+whose+" with allowFailure.", labels...),
		successes: m.counters(name+"_success_total", "Successful runs of "+whose+".", labels...),
	}
}

func (h hookMetrics) ran(r HookRun, labels ...string) {
	observe(h.took.WithLabelValues(labels...), r.Took, r.Trace)
	observe(h.user.WithLabelValues(labels...), r.User, r.Trace)
	observe(h.system.WithLabelValues(labels...), r.System, r.Trace)
	h.rss.WithLabelValues(labels...).Set(float64(r.MaxRSS))
	// All three counters exist from the first run on. An alert on the increase of a counter does not detect the first
	// value of a new counter.
	successes, allowed, failures := h.successes.WithLabelValues(labels...), h.allowed.WithLabelValues(labels...), h.errors.WithLabelValues(labels...)
	switch {
	case !r.Failed:
		successes.Inc()
	case r.Allowed:
		allowed.Inc()
	default:
		failures.Inc()
	}
}
