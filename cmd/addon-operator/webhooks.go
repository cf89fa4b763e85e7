package main

import (
	stdlog "log"

	"addon-operator/cmd/addon-operator/webhooks"
	"addon-operator/steps/review"
)

// newWebhooks returns the webhooks of o. The clients, the metrics and the steps of o must have been
// created.
func newWebhooks(o *operator) *webhooks.Webhooks {
	reviews := &review.Webhooks{
		DB: o.db, Log: o.steps.State.Log, Runner: o.runner, Bindings: o.steps.Hooks.Bindings, Exchange: o.steps.Hooks.Exchange,
		Observer: o.lifecycleObserver,
	}
	return webhooks.New(webhooks.Options{
		Settings: &o.settings, Log: o.log, DB: o.db, Client: o.client, Metrics: o.metrics, Observer: o.clusterObserver.own(),
		Notice:   func(reason, message string) { o.notices.add(notice{reason: reason, message: message}) },
		ErrorLog: stdlog.New(lines{o.log.With().Str("source", "webhooks").Logger()}, "", 0),
		Ask:      reviews.Answer,
	})
}
