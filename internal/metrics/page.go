package metrics

import (
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// Page returns a handler that serves the operator's own metrics.
func (s *Set) Page() http.Handler {
	options := promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}
	text := promhttp.HandlerFor(s.registry, options)
	if !s.Exemplars {
		return text
	}
	options.EnableOpenMetrics = true
	open := promhttp.HandlerFor(openMetrics{s.registry}, options)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...).FormatType() == expfmt.TypeOpenMetrics {
			open.ServeHTTP(w, r)
			return
		}
		text.ServeHTTP(w, r)
	})
}

// openMetrics gathers metrics for OpenMetrics. In that format, the name of a counter must end in _total. A counter
// without this suffix is served with the type unknown. With the type counter, its name would be changed.
type openMetrics struct{ from prometheus.Gatherer }

// Gather returns the metrics.
func (o openMetrics) Gather() ([]*dto.MetricFamily, error) {
	families, err := o.from.Gather()
	for _, f := range families {
		if f.GetType() != dto.MetricType_COUNTER || strings.HasSuffix(f.GetName(), "_total") {
			continue
		}
		f.Type = dto.MetricType_UNTYPED.Enum()
		for _, m := range f.GetMetric() {
			m.Untyped, m.Counter = &dto.Untyped{Value: m.GetCounter().Value}, nil
		}
	}
	return families, err
}

// observe adds a duration to a histogram. If trace is not empty, it is the identifier of a trace, which is stored as
// the exemplar of the observation.
func observe(histogram prometheus.Observer, took time.Duration, trace string) {
	if exemplars, ok := histogram.(prometheus.ExemplarObserver); ok && trace != "" {
		exemplars.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": trace})
		return
	}
	histogram.Observe(took.Seconds())
}
