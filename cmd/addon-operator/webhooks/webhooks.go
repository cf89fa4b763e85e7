// Package webhooks serves the webhooks of hooks while the operator runs. Package webhooks reports the hooks that do not
// answer requests. Package webhooks also reports the requests that the API server rejects while no operator runs.
package webhooks

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
	"addon-operator/store"
)

// WithdrawTimeout is the maximum time in which a running operator deletes its admission webhook configurations.
const WithdrawTimeout = 5 * time.Second

// Options are the clients and settings of webhooks.
type Options struct {
	Settings *settings.Settings
	Log      zerolog.Logger
	DB       *store.DB
	Client   *kube.Client
	Metrics  *metrics.Set
	// Notice creates a Kubernetes Event on the operator's ConfigMap.
	Notice func(reason, message string)
	// Observer observes the watches that webhooks need.
	Observer kube.Observer
	// ErrorLog logs errors of the HTTP server.
	ErrorLog *stdlog.Logger
	// Ask runs the hook that answers a review request of the API server.
	Ask func(context.Context, webhook.ReviewRequest) (webhook.Answer, error)
}

// Webhooks has the endpoint that the API server calls for the webhooks of hooks, and registers this
// endpoint.
type Webhooks struct {
	Endpoint *webhook.Endpoint

	options Options

	storing sync.Mutex // locked while problems are stored; locked before mu

	mu sync.Mutex // guards all fields below; not held during a commit, because each review needs it
	// table contains the registered webhooks, and problems contains the requests that the API
	// server rejects while no operator runs.
	table    webhook.Table
	problems []store.Problem
	known    bool // the store has the same problems as the field problems
	failing  failingReviews
	// withdrawn is set when the admission webhooks have been withdrawn. Later calls of inForce that
	// still name them are outdated.
	withdrawn bool
}

// New returns the webhooks. Nothing is served yet.
func New(o Options) *Webhooks {
	w := &Webhooks{options: o}
	s := o.Settings.Webhooks
	log := o.Log.With().Str("source", "webhooks").Logger()
	failed := func(err error) {
		o.Metrics.WebhookFailed()
		log.Error().Err(err).Msg("cannot update the webhooks; retrying")
	}
	w.Endpoint = webhook.NewEndpoint(webhook.EndpointOptions{
		Server: webhook.Options{
			Ask: o.Ask, AtOnce: s.HooksAtOnce, Clock: time.Now, Observe: w.reviewed, Log: o.ErrorLog,
		},
		Registrar: webhook.RegistrarOptions{
			Client: o.Client, Name: s.ConfigurationName, Namespace: o.Settings.Namespace, Clock: time.Now,
			Observer: o.Observer, InForce: w.inForce, Failed: failed, Refused: w.refused,
		},
		Admission: s.Admission.Side(), Conversion: s.Conversion.Side(), URL: s.URL, Lifetime: s.CertLifetime,
		Made: func(expires time.Time) {
			log.Info().Time("expires", expires).Msg("made a CA for the certificates of webhooks")
		},
		Failed: failed,
	})
	return w
}

// refused reports that the API server rejects the registration of a webhook, and therefore does not
// call the hook.
func (w *Webhooks) refused(a webhook.Admission, why error) {
	w.options.Metrics.WebhookFailed()
	w.options.Log.Error().Err(why).Str("module", a.Module).Str("hook", a.Hook).Str("binding", a.Config.Name).
		Msg("the API server rejects the webhook, so its hook is not called")
	w.options.Notice("WebhookRefused", "webhook "+a.Config.Name+" is rejected, so its hook is not called: "+why.Error())
}

// reviewed counts and logs a review.
func (w *Webhooks) reviewed(r webhook.Report) {
	w.mu.Lock()
	w.failing.reviewed(r, time.Now())
	w.mu.Unlock()
	if r.Hook != "" {
		w.options.Metrics.Reviewed(metrics.Review{
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
	w.options.Log.WithLevel(level).Err(r.Err).Str("module", r.Module).Str("hook", r.Hook).Str("binding", r.Binding).Str("event.type", string(r.Type)).Str("review", r.UID).
		Str("result", string(r.Result)).Str("told", r.Message).Str("took", debugapi.Short(r.Took)).Str("ran", debugapi.Short(r.Ran)).Msg(reviewText(r.Type))
}

func reviewText(t hook.Type) string {
	if t == hook.TypeConversion {
		return "conversion review answered"
	}
	return "admission review answered"
}

// Withdraw deletes the admission webhook configurations, and keeps the conversion webhooks. If it succeeds, this
// process does not create the configurations again.
func (w *Webhooks) Withdraw(ctx context.Context) (deleted []string, namespace string, err error) {
	ctx, cancel := context.WithTimeout(ctx, WithdrawTimeout)
	defer cancel()
	deleted, err = w.Endpoint.Withdraw(ctx)
	if err != nil {
		w.options.Log.Error().Err(err).Strs("deleted", deleted).Msg("webhook configurations not withdrawn; deleted ones are created again")
		return deleted, w.options.Settings.Namespace, err
	}
	w.options.Log.Info().Strs("deleted", deleted).Msg("webhook configurations withdrawn until the next start")
	w.mu.Lock()
	w.withdrawn = true
	left := w.table
	w.mu.Unlock()
	w.inForce(left) // the registrar calls inForce later, and not at all if the operator stops before
	return deleted, w.options.Settings.Namespace, nil
}

// WithdrawStopped deletes the admission webhook configurations of a stopped operator in namespace. WithdrawStopped
// returns the kinds and names of the deleted configurations.
func WithdrawStopped(ctx context.Context, client *kube.Client, namespace string) (deleted []string, err error) {
	return webhook.Withdraw(ctx, client, namespace)
}

// WithdrawAtShutdown deletes the admission webhook configurations if the settings require it.
func (w *Webhooks) WithdrawAtShutdown(ctx context.Context) {
	switch w.options.Settings.WithdrawWebhooks {
	case settings.WithdrawNever:
		return
	case settings.WithdrawAtZero:
		asking, cancel := context.WithTimeout(ctx, WithdrawTimeout)
		defer cancel()
		zero, err := w.options.Client.ScaledToZero(asking, w.options.Settings.Namespace, w.options.Settings.OwnPod())
		if err != nil {
			w.options.Log.Warn().Err(err).Msg("webhook configurations stay: it is not known whether the operator is scaled to zero")
		}
		if !zero {
			return
		}
	}
	_, _, _ = w.Withdraw(ctx) // Withdraw logs the error
}

// inForce stores the problems of the registered webhooks t: the requests that the API server
// rejects while no operator runs.
func (w *Webhooks) inForce(t webhook.Table) {
	w.storing.Lock()
	defer w.storing.Unlock()
	problems, stored := w.setTable(t)
	if stored {
		return
	}
	err := w.options.DB.Update(func(tx *store.Tx) error {
		_, err := store.ReplaceProblems(tx, store.StaleWebhook, problems)
		return err
	})
	if err != nil {
		w.options.Log.Warn().Err(err).Msg("the requests that webhooks reject without an operator were not stored")
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems, w.known = problems, true
}

// setTable sets the registered webhooks. setTable returns the problems of these webhooks while no
// operator runs, and whether the same problems are already stored.
func (w *Webhooks) setTable(t webhook.Table) (problems []store.Problem, stored bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.withdrawn {
		t.Admissions = nil
	}
	w.table = t
	problems = rejections(t, w.options.Settings.Namespace)
	return problems, w.known && reflect.DeepEqual(problems, w.problems)
}
