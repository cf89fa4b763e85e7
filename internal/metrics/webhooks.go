package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Review is one question of the API server that a hook was to answer.
type Review struct {
	Binding
	// Type is Validating, Mutating or Conversion, Result what came of it, in one word.
	Type, Result string
	// Took is the whole time until the answer; Ran what of it hooks ran.
	Took, Ran time.Duration
}

// webhookMetrics are those of reviews.
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

// WebhookFailed counts what went wrong with telling the API server of webhooks,
// or with their certificates.
func (s *Set) WebhookFailed() { s.webhook.failed.Inc() }
