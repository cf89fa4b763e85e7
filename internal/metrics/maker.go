package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// buckets are the upper bounds of histogram buckets, in seconds, as in the document METRICS of flant/addon-operator.
// The variable beyond has three additional buckets, for long durations.
var (
	buckets = []float64{0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10}
	beyond  = append(slices.Clip(buckets), 30, 60, 300)
)

// A metric describes one metric of a set, without values.
type metric struct {
	// Name includes the prefix.
	Name string
	// Type is counter, gauge or histogram.
	Type   string
	Labels []string
	Help   string
	// Buckets are the upper bounds of a histogram; nil for other types.
	Buckets []float64
}

// The types of metrics.
const (
	typeCounter   = "counter"
	typeGauge     = "gauge"
	typeHistogram = "histogram"
)

// metrics returns the metrics of the set, sorted by name. The result omits the metrics of the Go runtime and of the
// process, which [Set.Page] also serves.
func (s *Set) metrics() []metric {
	all := slices.Clone(s.list)
	slices.SortFunc(all, func(a, b metric) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return all
}

// maker creates metrics in a registry, and lists them.
type maker struct {
	prefix string
	into   prometheus.Registerer
	list   *[]metric
}

// note adds a metric to the list of all metrics of the set.
func (m maker) note(kind, name, help string, labels []string, buckets ...float64) {
	*m.list = append(*m.list, metric{Name: m.prefix + name, Type: kind, Labels: labels, Help: help, Buckets: buckets})
}

// desc adds a metric, whose values the collector [scrape] reports, to the list of all metrics. It returns the
// description of the metric for Prometheus.
func (m maker) desc(kind, name, help string, labels ...string) *prometheus.Desc {
	m.note(kind, name, help, labels)
	return prometheus.NewDesc(m.prefix+name, help, labels, nil)
}

func (m maker) counters(name, help string, labels ...string) *prometheus.CounterVec {
	m.note(typeCounter, name, help, labels)
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.prefix + name, Help: help}, labels)
	m.into.MustRegister(c)
	return c
}

func (m maker) counter(name, help string) prometheus.Counter {
	return m.counters(name, help).WithLabelValues()
}

func (m maker) gauge(name, help string) prometheus.Gauge {
	return m.gauges(name, help).WithLabelValues()
}

func (m maker) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	m.note(typeGauge, name, help, labels)
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.prefix + name, Help: help}, labels)
	m.into.MustRegister(g)
	return g
}

func (m maker) histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	return m.histogramOf(buckets, name, help, labels)
}

// long creates a histogram for durations of up to several minutes.
func (m maker) long(name, help string, labels ...string) *prometheus.HistogramVec {
	return m.histogramOf(beyond, name, help, labels)
}

func (m maker) histogramOf(buckets []float64, name, help string, labels []string) *prometheus.HistogramVec {
	m.note(typeHistogram, name, help, labels, buckets...)
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.prefix + name, Help: help, Buckets: buckets}, labels)
	m.into.MustRegister(h)
	return h
}
