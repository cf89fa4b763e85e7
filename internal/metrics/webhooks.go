package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Review is one review request of the API server.
type Review struct {
	Binding
	// Type is "Validating", "Mutating" or "Conversion". Result describes the result of the review
	// in one word.
	Type, Result string
	// Took is the time from the arrival of the request to its response; Ran is the part of this
	// time in which hooks ran.
	Took, Ran time.Duration
}

// webhookMetrics are the metrics of reviews and webhook configurations.
type webhookMetrics struct {
	reviews        *prometheus.CounterVec
	took, overhead *prometheus.HistogramVec
	failed         prometheus.Counter
}

func (m maker) webhooks() webhookMetrics {
	labels := []string{"type", "module", "hook", "binding"}
	return webhookMetrics{
		reviews:  m.counters("webhook_reviews_total", "Review requests of the API server, by result.", append(labels, "result")...),
		took:     m.histogram("webhook_review_seconds", "Time from the arrival of a review request to its response.", labels...),
		overhead: m.histogram("webhook_overhead_seconds", "Time of a review request in which no hook ran.", labels...),
		failed:   m.counter("webhook_errors_total", "Errors of webhook configurations and certificates."),
	}
}

// Reviewed observes one review.
func (s *Set) Reviewed(r Review) {
	labels := []string{r.Type, r.Module, r.Hook, r.Name}
	s.webhook.reviews.WithLabelValues(append(labels, r.Result)...).Inc()
	s.webhook.took.WithLabelValues(labels...).Observe(r.Took.Seconds())
	s.webhook.overhead.WithLabelValues(labels...).Observe(max(0, (r.Took - r.Ran).Seconds()))
}

// WebhookFailed counts an error of webhook configurations or certificates.
func (s *Set) WebhookFailed() { s.webhook.failed.Inc() }
