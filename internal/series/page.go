package series

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A Snapshot contains all metrics of hooks.
type Snapshot struct {
	Families map[string]Family
	Shards   []*Shard
}

// Page returns a handler that calls read() at each scrape, and serves the returned snapshot in the format of Prometheus.
func Page(read func() (Snapshot, error)) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{read})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
}

// collector is a Prometheus collector for a snapshot.
type collector struct{ read func() (Snapshot, error) }

// Describe sends no descriptions, because the metrics are not known in advance.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the series of the snapshot. Each series gets all labels that any series of the same name has.
func (c collector) Collect(to chan<- prometheus.Metric) {
	snapshot, err := c.read()
	if err != nil {
		to <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(snapshot.Families)) {
		f := snapshot.Families[name]
		labels := snapshot.labels(name)
		desc := prometheus.NewDesc(name, name, labels, nil)
		sent := map[string]bool{}
		for _, s := range snapshot.Shards {
			if len(s.names[name]) == 0 {
				continue
			}
			own := s.owner.labels()
			for _, key := range slices.Sorted(maps.Keys(s.names[name])) {
				v := s.names[name][key]
				values := make([]string, len(labels))
				for i, label := range labels {
					if values[i] = own[label]; values[i] == "" {
						values[i] = v.Labels[label]
					}
				}
				// Two series can have the same labels, because a hook can report a series in several groups, and a
				// global hook can set the labels of a module's hook. Only the first of these series is sent.
				if all := strings.Join(values, "\xff"); !sent[all] {
					sent[all] = true
					to <- f.metric(desc, v, values)
				}
			}
		}
	}
}

// labels returns the sorted labels of all series of name.
func (b Snapshot) labels(name string) []string {
	labels := map[string]bool{}
	for _, s := range b.Shards {
		if len(s.names[name]) == 0 {
			continue
		}
		for label := range s.owner.labels() {
			labels[label] = true
		}
		for _, v := range s.names[name] {
			for label := range v.Labels {
				labels[label] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(labels))
}

// metric returns v as a metric of the family.
func (f Family) metric(desc *prometheus.Desc, v *value, labels []string) prometheus.Metric {
	var m prometheus.Metric
	var err error
	switch f.Type {
	case Gauge:
		m, err = prometheus.NewConstMetric(desc, prometheus.GaugeValue, v.Value, labels...)
	case Histogram:
		count, buckets := uint64(0), make(map[float64]uint64, len(f.Buckets))
		for i, n := range v.Counts {
			if count += n; i < len(f.Buckets) {
				buckets[f.Buckets[i]] = count
			}
		}
		m, err = prometheus.NewConstHistogram(desc, count, v.Value, buckets, labels...)
	default:
		m, err = prometheus.NewConstMetric(desc, prometheus.CounterValue, v.Value, labels...)
	}
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return m
}
