package metrics

import (
	"context"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/metrics"
)

// clientMetrics are the metrics of requests to the API server.
type clientMetrics struct {
	latency, limited *prometheus.HistogramVec
	results          *prometheus.CounterVec
	window           *requestWindow
}

func (m maker) client() clientMetrics {
	return clientMetrics{
		latency: m.histogram("kubernetes_client_request_latency_seconds", "Time of requests to the API server.", "verb", "host"),
		limited: m.histogram("kubernetes_client_rate_limiter_latency_seconds", "Time that requests waited for the rate limit of the client.", "verb", "host"),
		results: m.counters("kubernetes_client_request_result_total", "Requests to the API server.", "code", "method", "host"),
		window:  new(requestWindow),
	}
}

// Requests returns the counts of requests to the API server in the last [RequestSpan]. WatchClients must be called
// before.
func (s *Set) Requests() Requests { return s.client.window.requests() }

// WatchClients makes the set observe the requests of all Kubernetes clients of the process. The client library
// accepts one observer per process, so only the first set that calls WatchClients observes the requests. The path of a
// request is not a label of the metrics, because each kind would add label values. clock returns the current time.
// [Set.Requests] needs the clock to leave out requests that are older than [RequestSpan].
func (s *Set) WatchClients(clock func() time.Time) {
	s.client.window.clock = clock
	metrics.Register(metrics.RegisterOpts{
		RequestLatency:     latency{s.client.latency, s.client.window},
		RateLimiterLatency: latency{to: s.client.limited},
		RequestResult:      results{s.client.results, s.client.window},
	})
}

type latency struct {
	to     *prometheus.HistogramVec
	window *requestWindow // nil for the metric limited, because a wait is not counted as a request
}

// Observe records the latency of one request.
func (l latency) Observe(_ context.Context, verb string, u url.URL, took time.Duration) {
	l.to.WithLabelValues(verb, u.Host).Observe(took.Seconds())
	if l.window != nil {
		l.window.observe(took)
	}
}

type results struct {
	to     *prometheus.CounterVec
	window *requestWindow
}

// Increment records the result of one request.
func (r results) Increment(_ context.Context, code, method, host string) {
	r.to.WithLabelValues(code, method, host).Inc()
	r.window.result(code)
}
