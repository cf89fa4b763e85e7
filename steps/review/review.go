package review

import (
	"context"
	"errors"
	"fmt"

	"addon-operator/internal/hook"
	"addon-operator/internal/webhook"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hookio"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/report"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// A Runner runs the programs of hooks.
type Runner interface {
	// Run runs a hook and returns what it has written.
	Run(ctx context.Context, run hook.Run) (hook.Result, error)
}

// Webhooks answers the review requests of the API server. It runs a hook only for an attached binding.
type Webhooks struct {
	DB       *store.DB
	Log      *oncelog.Logger
	Runner   Runner
	Bindings *bindings.Attached
	Exchange *hookio.Exchange
	Observer report.Observer
}

// Answer runs the hook of a review request. The run is not a task: the hook runs at once, in parallel with the queues
// and with other runs of the hook. The output of the hook is parsed and validated as in a task. Before it returns,
// Answer carries out the operations on objects that the hook has written, and saves its values and metrics in one
// transaction. In a dry run, it ignores operations and values, but saves the metrics. If the hook writes to the
// ConfigMap, Answer returns an error.
func (w *Webhooks) Answer(ctx context.Context, q webhook.ReviewRequest) (a webhook.Answer, err error) {
	subject := graph.Subject{Module: q.Module, Hook: q.Hook, Binding: q.Binding}
	r := review{Webhooks: w, ReviewRequest: q, subject: subject}
	in, err := r.read()
	if err != nil {
		return a, r.withdrawn(err)
	}
	run, err := r.run(ctx, in)
	if err != nil {
		return a, r.withdrawn(err)
	}
	result, err := w.Runner.Run(ctx, run)
	a.Ran = result.Usage.Took
	if err == nil {
		err = r.processOutput(ctx, in, result, &a)
	}
	ran := report.Run{Task: workflow.Task{Task: store.Task{Subject: subject}}, Binding: bindingType(q.Type), Usage: result.Usage, Err: err}
	_, notStarted := errors.AsType[*hook.StartError](err)
	switch {
	case err == nil, errors.Is(err, hook.ErrNoResponse):
	case errors.Is(err, webhook.ErrNotApplied), errors.Is(err, errInterrupted):
		ran.Err = nil
		err = fmt.Errorf("%s: %w", subject, err)
	case notStarted:
		err = fmt.Errorf("%s: %w", subject, err)
	default:
		err = fmt.Errorf("%w: %s: %w", webhook.ErrHookFailed, subject, err)
	}
	w.Observer.HookRan(ran)
	return a, err
}

// bindingType returns the binding type, such as kubernetesValidating, for a type of binding context.
func bindingType(t hook.Type) string {
	if t == hook.TypeConversion {
		return "kubernetesCustomResourceConversion"
	}
	return "kubernetes" + string(t)
}

// A review is one review request that is being answered.
type review struct {
	*Webhooks
	webhook.ReviewRequest
	subject graph.Subject
}

func (r *review) read() (in hookio.Input, err error) {
	err = r.DB.View(func(tx *store.Tx) error {
		if err := r.attached(tx); err != nil {
			return err
		}
		found, err := r.Exchange.Find(tx, r.subject)
		if err != nil {
			return err
		}
		in, err = r.Exchange.Read(tx, found, r.subject, r.Module != "")
		return err
	})
	return in, err
}

// withdrawn returns err. If err says that the hook or the binding of an admission request no longer exists, the result
// also wraps [webhook.ErrWithdrawn]. For a conversion it does not: another hook of the module may convert the objects,
// and its binding may be attached later.
func (r *review) withdrawn(err error) error {
	if r.Type != hook.TypeConversion && errors.Is(err, hook.ErrGone) {
		return fmt.Errorf("%w: %w", webhook.ErrWithdrawn, err)
	}
	return err
}

// attached returns an error if the binding of the request is not attached.
func (r *review) attached(tx *store.Tx) error {
	b, ok, err := store.Load[store.Binding](tx, store.BindingKey(r.Module, r.Hook, r.Binding))
	if err == nil && (!ok || b.Detached) {
		err = fmt.Errorf("%s: %w", r.subject, webhook.ErrWithdrawn)
	}
	return err
}

// run returns the complete input for the run of the hook. If the binding includes snapshots, run waits until they are
// complete.
func (r *review) run(ctx context.Context, in hookio.Input) (run hook.Run, err error) {
	look := r.Bindings.Reader(r.Module, r.Hook, in.Hook.Config, nil)
	e := hook.Element{Type: r.Type, Review: r.Review, FromVersion: r.FromVersion, ToVersion: r.ToVersion}
	name, include, err := look.Reviewed(r.Type, r.Binding)
	if err != nil {
		return run, err
	}
	e.Binding = name
	if len(include) > 0 {
		if err := r.included(in.Hook.Config, include); err != nil {
			return run, err
		}
		if err := r.Bindings.Ready(ctx, r.Module, r.Hook); err != nil {
			return run, err
		}
		e.Snapshots = look.Snapshots(include)
	}
	log := r.Log.With().
		Str("module", r.Module).Str("hook", r.Hook).Str("binding", r.Binding).Str("event", string(r.Type)).Str("review", r.UID).Logger()
	run = hook.Run{File: in.Hook.File, Module: r.Module, Task: r.UID, Attempt: 1, Awaited: true, Output: report.Lines(log)}
	if run.Context, err = hook.Encode([]hook.Element{e}); err != nil {
		return run, err
	}
	return run, r.Exchange.Fill(&run, in, false)
}

// included returns an error if the review includes the snapshot of a kubernetes binding that is not attached. This is
// possible because new code can add such a binding, which is attached only after the onStartup hooks. Also, conversion
// bindings can be attached before the other bindings of their hook. With an empty snapshot, the hook could allow a
// request that it must deny, or return wrong objects, which the API server would store.
func (r *review) included(config hook.Config, names []string) error {
	ids := config.BindingIDs().Kubernetes
	return r.DB.View(func(tx *store.Tx) error {
		for _, name := range names {
			i, found := config.KubernetesNamed(name)
			if !found {
				continue
			}
			b, ok, err := store.Load[store.Binding](tx, store.BindingKey(r.Module, r.Hook, ids[i]))
			if err != nil {
				return err
			}
			if !ok || b.Detached || b.Kind != store.Kubernetes {
				return fmt.Errorf("%s: the snapshots of %s are not known, because the binding is not attached yet", r.subject, name)
			}
		}
		return nil
	})
}

// processOutput parses the whole output of the hook. It applies the output only if the whole output is valid.
func (r *review) processOutput(ctx context.Context, in hookio.Input, result hook.Result, a *webhook.Answer) error {
	o, err := hookio.NewOutput(r.Module).Outcome(in, result)
	if err != nil {
		return err
	}
	if err := r.parse(result, a); err != nil {
		return err
	}
	return r.apply(ctx, o)
}

// parse reads the response from the response file of the hook, and stores it in the answer a.
func (r *review) parse(result hook.Result, a *webhook.Answer) (err error) {
	file := "$ADMISSION_RESPONSE_PATH"
	if r.Type == hook.TypeConversion {
		file = "$CONVERSION_RESPONSE_PATH"
		a.Converted, err = hook.ParseConverted(result.Conversion, r.Objects, r.Version)
	} else {
		a.Verdict, err = hook.ParseVerdict(result.Admission, r.Type == hook.TypeMutating)
	}
	switch {
	case errors.Is(err, hook.ErrNoResponse):
		return fmt.Errorf("%s: %w to %s", r.subject, err, file)
	case err != nil:
		return fmt.Errorf("%s: %w", file, err)
	default:
		return nil
	}
}

// apply carries out the operations on objects in the outcome of the hook, and saves its values and metrics. The error
// wraps [webhook.ErrNotApplied] or errInterrupted, unless the hook writes to the ConfigMap, or the API server or the
// schemas of the values reject the output.
func (r *review) apply(ctx context.Context, o workflow.Outcome) error {
	out, err := hookio.Decode(r.Module, o.Data)
	if err != nil {
		return err
	}
	if out.Config != nil {
		return errors.New("$CONFIG_VALUES_JSON_PATCH_PATH: a hook that answers the API server cannot write the ConfigMap; patch the values")
	}
	if r.DryRun {
		out.Values, out.Global, out.Flags, o.Effects = nil, nil, nil, nil
	}
	switch err := r.Exchange.DoNow(ctx, r.Module, o.Effects); {
	case workflow.IsRefused(err):
		return err
	case err != nil:
		return notApplied(ctx, err)
	}
	if out.Global == nil && len(out.Values)+len(out.Flags)+len(out.Metrics) == 0 {
		return nil
	}
	err = r.DB.UpdateWithRoom(ctx, func(tx *store.Tx) error {
		if err := r.attached(tx); err != nil {
			return err
		}
		if err := r.Exchange.Record(tx, out, r.subject); err != nil {
			return err
		}
		_, err := r.Exchange.Save(tx, out, r.subject)
		return err
	})
	if err == nil || hookio.IsInvalid(err) {
		return err
	}
	return notApplied(ctx, err)
}

// errInterrupted is the error for a valid output that could not be applied before ctx ended. The webhook server reports
// it as a timeout.
var errInterrupted = errors.New("output not applied in time")

// notApplied returns the error for a valid output that could not be applied because of err. A full disk is an error of
// the operator even if it was full until ctx ended.
func notApplied(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, store.ErrFull) {
		return fmt.Errorf("%w: %w", errInterrupted, err)
	}
	return fmt.Errorf("%w: %w", webhook.ErrNotApplied, err)
}
