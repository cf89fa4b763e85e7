package main

import (
	stdlog "log"
	"time"

	"github.com/rs/zerolog"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/internal/hook"
	"addon-operator/internal/metrics"
	"addon-operator/internal/webhook"
)

// webhooks returns where the API server asks hooks.
func (o *operator) webhooks() *webhook.Endpoint {
	s := o.settings.Webhooks
	log := o.log.With().Str("source", "webhooks").Logger()
	failed := func(err error) {
		o.metrics.WebhookFailed()
		log.Error().Err(err).Msg("webhooks are not as they should be; it is tried again")
	}
	return webhook.NewEndpoint(webhook.EndpointOptions{
		Server: webhook.Options{
			Ask: o.steps.Webhooks.Answer, AtOnce: s.HooksAtOnce, Clock: time.Now, Observe: o.reviewed, Log: stdlog.New(lines{log}, "", 0),
		},
		Registrar: webhook.RegistrarOptions{
			Client: o.client, Name: s.ConfigurationName, Namespace: o.settings.Namespace, Clock: time.Now,
			Observer: o.clusterObserver.own(), Failed: failed, Refused: o.webhookRefused,
		},
		Admission: s.Admission.Side(), Conversion: s.Conversion.Side(), URL: s.URL, Lifetime: s.CertLifetime,
		InForce: o.webhooksInForce,
		Made: func(expires time.Time) {
			log.Info().Time("expires", expires).Msg("made a CA for the certificates of webhooks")
		},
		Failed: failed,
	})
}

// webhookRefused says that a hook is not asked because the API server does not
// take its binding.
func (o *operator) webhookRefused(a webhook.Admission, why error) {
	o.metrics.WebhookFailed()
	o.log.Error().Err(why).Str("module", a.Module).Str("hook", a.Hook).Str("binding", a.Config.Name).
		Msg("the API server refuses the webhook, so its hook is not asked")
	o.notices.add(notice{reason: "WebhookRefused", message: "webhook " + a.Config.Name + " is refused, so its hook is not asked: " + why.Error()})
}

// reviewed counts and logs what the API server was told.
func (o *operator) reviewed(r webhook.Report) {
	if r.Hook != "" {
		o.metrics.Reviewed(metrics.Review{
			Binding: metrics.Binding{Module: r.Module, Hook: r.Hook, Name: r.Binding},
			Type:    string(r.Type), Result: string(r.Result), Took: r.Took, Ran: r.Ran,
		})
	}
	level := zerolog.DebugLevel
	switch {
	case r.Err != nil:
		level = zerolog.ErrorLevel
	case r.Result == webhook.Denied, r.Result == webhook.Refused:
		level = zerolog.InfoLevel
	}
	o.log.WithLevel(level).Err(r.Err).Str("module", r.Module).Str("hook", r.Hook).Str("binding", r.Binding).Str("event.type", string(r.Type)).Str("review", r.UID).
		Str("result", string(r.Result)).Str("told", r.Message).Str("took", debugapi.Short(r.Took)).Str("ran", debugapi.Short(r.Ran)).Msg(reviewText(r.Type))
}

func reviewText(t hook.Type) string {
	if t == hook.TypeConversion {
		return "conversion review answered"
	}
	return "admission review answered"
}
