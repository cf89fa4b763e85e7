package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// watchMetrics are the metrics of watches and of the jqFilters of their events.
type watchMetrics struct {
	filterErrors *prometheus.CounterVec
	watchErrors  *prometheus.CounterVec
	filterTime   *prometheus.HistogramVec
	eventTime    *prometheus.HistogramVec
}

func (m maker) watches() watchMetrics {
	return watchMetrics{
		filterErrors: m.counters("kube_jq_filter_errors_total", "Failed runs of jqFilters, for each object and binding.", "module", "hook", "binding", "queue", "kind"),
		watchErrors:  m.counters("kubernetes_client_watch_errors_total", "Lists and watches that failed.", "error_type"),
		filterTime:   m.histogram("kube_jq_filter_duration_seconds", "Duration of jqFilters, for each object and binding.", "module", "hook", "binding", "queue", "kind"),
		eventTime:    m.histogram("kube_event_duration_seconds", "Time from taking an event out of the buffer of its watch until it is in the queue of the binding.", "module", "hook", "binding", "queue", "kind"),
	}
}

// FilterFailed counts a failed run of the jqFilter of a binding for an object of this kind.
func (m watchMetrics) FilterFailed(b Binding, kind string) {
	m.filterErrors.WithLabelValues(b.Module, b.Hook, b.Name, b.Queue, kind).Inc()
}

// FilterTook observes the duration of one run of the jqFilter of a binding for an object of this
// kind.
func (m watchMetrics) FilterTook(b Binding, kind string, took time.Duration) {
	m.filterTime.WithLabelValues(b.Module, b.Hook, b.Name, b.Queue, kind).Observe(took.Seconds())
}

// EventTook observes the time from when a change left the buffer of its watch until its event was in
// the queue of a binding. kind is the kind of the changed object.
func (m watchMetrics) EventTook(b Binding, kind string, took time.Duration) {
	m.eventTime.WithLabelValues(b.Module, b.Hook, b.Name, b.Queue, kind).Observe(took.Seconds())
}

// WatchFailed counts a failed list or watch. reason is one word.
func (m watchMetrics) WatchFailed(reason string) { m.watchErrors.WithLabelValues(reason).Inc() }
