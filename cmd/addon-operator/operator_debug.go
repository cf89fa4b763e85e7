package main

import (
	"context"
	"time"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/internal/kube"
	"addon-operator/internal/metrics"
	"addon-operator/steps/desired"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

// errNotBegun is the error of a request that the operator can carry out only after it has begun its work.
var errNotBegun = debugapi.BadRequest("the operator has not started yet: it waits for the Lease, the API server, or free space on the disk of its store")

// debugAPI returns the debug API of the running operator.
func (o *operator) debugAPI() *debugapi.API {
	l := &debugapi.API{
		DB: o.db, Now: time.Now, Path: o.settings.Store, Namespace: o.settings.Namespace, Began: o.began, Engine: o.engine, Changes: &o.changes, Scans: &o.scans, Slow: &o.slow,
		Values: func() (*desired.Values, error) { return o.steps.State.Values, nil }, Render: o.rendered, Params: o.params,
		Standby: o.leadership.waiting, Lease: o.leadership.describe, Version: version,
		Requests: func() metrics.Requests { return o.metrics.Requests() }, Skew: o.clock.wrong,
	}
	l.Webhooks = func() []inspect.Problem {
		if o.webhooks == nil {
			return nil
		}
		return o.webhooks.Observed(time.Now())
	}
	l.Withdraw = func(ctx context.Context) (deleted []string, namespace string, err error) {
		if !o.status.begun.Load() {
			return nil, "", errNotBegun
		}
		return o.webhooks.Withdraw(ctx)
	}
	l.Plan = func(ctx context.Context, r debugapi.PlanRequest) (*inspect.Plan, error) {
		if o.steps == nil || !o.status.begun.Load() {
			return nil, errNotBegun
		}
		return running{o.db, o.steps.State.Values, o.runner, o.settings}.plan(ctx, r)
	}
	l.Snapshot = func(s graph.Subject) []*kube.Object {
		if o.kube == nil {
			return nil
		}
		return o.kube.Snapshot(s)
	}
	return l
}

// rendered returns the manifest that the chart of a module renders with the current values. The arguments loose and
// withReleased have the same meaning as in the field Render of [debugapi.API].
func (o *operator) rendered(ctx context.Context, module string, loose, withReleased bool) (now, released string, err error) {
	if now, err = o.steps.Releases.Charts.Rendered(ctx, module, loose); err != nil || !withReleased {
		return now, "", err
	}
	released, err = o.helm.Released(ctx, module)
	return now, released, err
}
