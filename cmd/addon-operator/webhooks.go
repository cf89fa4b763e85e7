package main

import (
	"context"
	stdlog "log"
	"reflect"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/internal/metrics"
	"addon-operator/internal/webhook"
	"addon-operator/steps/review"
	"addon-operator/store"
)

// webhooks manages the webhooks of hooks: the endpoint that the API server calls, and its
// registration.
type webhooks struct {
	settings *settings.Settings
	log      zerolog.Logger
	db       *store.DB
	client   *kube.Client
	metrics  *metrics.Set
	notices  *notices
	endpoint *webhook.Endpoint

	storing sync.Mutex // held while problems are stored; locked before mu

	mu sync.Mutex // guards all below; never held during a commit, because each review takes it
	// table contains the registered webhooks, and problems the requests that the API server rejects
	// while no operator runs.
	table    webhook.Table
	problems []store.Problem
	known    bool // problems is stored
	failing  failingReviews
	// withdrawn is true once admissions are no longer registered: later reports of them are
	// outdated.
	withdrawn bool
}

// newWebhooks returns the webhooks of o, which has its clients, metrics and steps.
func newWebhooks(o *operator) *webhooks {
	w := &webhooks{settings: &o.settings, log: o.log, db: o.db, client: o.client, metrics: o.metrics, notices: o.notices}
	s := o.settings.Webhooks
	reviews := &review.Webhooks{
		DB: o.db, Log: o.steps.State.Log, Runner: o.runner, Bindings: o.steps.Hooks.Bindings, Exchange: o.steps.Hooks.Exchange,
		Observer: o.lifecycleObserver,
	}
	log := o.log.With().Str("source", "webhooks").Logger()
	failed := func(err error) {
		o.metrics.WebhookFailed()
		log.Error().Err(err).Msg("webhooks are not as they should be; it is tried again")
	}
	w.endpoint = webhook.NewEndpoint(webhook.EndpointOptions{
		Server: webhook.Options{
			Ask: reviews.Answer, AtOnce: s.HooksAtOnce, Clock: time.Now, Observe: w.reviewed, Log: stdlog.New(lines{log}, "", 0),
		},
		Registrar: webhook.RegistrarOptions{
			Client: o.client, Name: s.ConfigurationName, Namespace: o.settings.Namespace, Clock: time.Now,
			Observer: o.clusterObserver.own(), Failed: failed, Refused: w.refused,
		},
		Admission: s.Admission.Side(), Conversion: s.Conversion.Side(), URL: s.URL, Lifetime: s.CertLifetime,
		InForce: w.inForce,
		Made: func(expires time.Time) {
			log.Info().Time("expires", expires).Msg("made a CA for the certificates of webhooks")
		},
		Failed: failed,
	})
	return w
}

// refused reports that the API server rejects a webhook, so that it does not call the hook.
func (w *webhooks) refused(a webhook.Admission, why error) {
	w.metrics.WebhookFailed()
	w.log.Error().Err(why).Str("module", a.Module).Str("hook", a.Hook).Str("binding", a.Config.Name).
		Msg("the API server refuses the webhook, so its hook is not asked")
	w.notices.add(notice{reason: "WebhookRefused", message: "webhook " + a.Config.Name + " is refused, so its hook is not asked: " + why.Error()})
}

// reviewed counts and logs a review.
func (w *webhooks) reviewed(r webhook.Report) {
	w.mu.Lock()
	w.failing.reviewed(r, time.Now())
	w.mu.Unlock()
	if r.Hook != "" {
		w.metrics.Reviewed(metrics.Review{
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
	w.log.WithLevel(level).Err(r.Err).Str("module", r.Module).Str("hook", r.Hook).Str("binding", r.Binding).Str("event.type", string(r.Type)).Str("review", r.UID).
		Str("result", string(r.Result)).Str("told", r.Message).Str("took", debugapi.Short(r.Took)).Str("ran", debugapi.Short(r.Ran)).Msg(reviewText(r.Type))
}

func reviewText(t hook.Type) string {
	if t == hook.TypeConversion {
		return "conversion review answered"
	}
	return "admission review answered"
}

// withdraw deletes the webhook configurations and ends their registration until the process ends.
func (w *webhooks) withdraw(ctx context.Context) (deleted []string, namespace string, err error) {
	ctx, cancel := context.WithTimeout(ctx, withdrawTimeout)
	defer cancel()
	deleted, err = webhook.Withdraw(ctx, w.client, w.settings.Namespace, w.endpoint.Withdraw)
	w.log.Info().Err(err).Strs("deleted", deleted).Msg("webhook configurations withdrawn until the next start")
	return deleted, w.settings.Namespace, err
}

// withdrawAtShutdown deletes the webhook configurations if the settings require it.
func (w *webhooks) withdrawAtShutdown(ctx context.Context) {
	switch w.settings.WithdrawWebhooks {
	case settings.WithdrawNever:
		return
	case settings.WithdrawAtZero:
		asking, cancel := context.WithTimeout(ctx, withdrawTimeout)
		defer cancel()
		zero, err := w.client.ScaledToZero(asking, w.settings.Namespace, w.settings.OwnPod())
		if err != nil {
			w.log.Warn().Err(err).Msg("webhook configurations stay: it is not known whether the operator is scaled to zero")
		}
		if !zero {
			return
		}
	}
	if _, _, err := w.withdraw(ctx); err != nil {
		return // withdraw has logged the error
	}
	w.mu.Lock()
	w.withdrawn = true
	left := w.table
	w.mu.Unlock()
	w.inForce(left)
}

// inForce stores which requests the API server rejects while no operator runs.
func (w *webhooks) inForce(t webhook.Table) {
	w.storing.Lock()
	defer w.storing.Unlock()
	problems, stored := w.setTable(t)
	if stored {
		return
	}
	err := w.db.Update(func(tx *store.Tx) error {
		_, err := store.ReplaceProblems(tx, store.StaleWebhook, problems)
		return err
	})
	if err != nil {
		w.log.Warn().Err(err).Msg("the requests that webhooks reject without an operator were not stored")
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems, w.known = problems, true
}

// setTable sets the registered webhooks. It returns the requests that the API server rejects while
// no operator runs, and whether they are stored already.
func (w *webhooks) setTable(t webhook.Table) (problems []store.Problem, stored bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.withdrawn {
		t.Admissions = nil
	}
	w.table = t
	problems = rejections(t)
	return problems, w.known && reflect.DeepEqual(problems, w.problems)
}
