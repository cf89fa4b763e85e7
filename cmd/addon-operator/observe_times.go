package main

import (
	"time"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/internal/api"
	"addon-operator/steps/addons/registry"
	"addon-operator/workflow"
)

// timeActions returns observer, with actions on queues timed unless settings say
// no.
func (o *lifecycleObserver) timeActions(observer workflow.Observer) workflow.Observer {
	if o.queueActions {
		observer.Clock = time.Now
		observer.Acted = func(queue string, action workflow.Action, took time.Duration) {
			o.metrics.QueueActed(queue, string(action), took)
		}
	}
	return observer
}

// HelmBegins times an operation on a chart.
func (o *lifecycleObserver) HelmBegins(module, operation string) (ends func()) {
	began := time.Now()
	return func() { o.metrics.HelmDid(module, o.activation(), operation, time.Since(began)) }
}

// addonsFetches times the fetch of a repository of addons.
func (o *lifecycleObserver) addonsFetches(scope registry.Scope) (ends func(api.Reason)) {
	began := time.Now()
	return func(reason api.Reason) {
		o.metrics.AddonsFetched(debugapi.ScopeLabel(scope), string(reason), time.Since(began))
	}
}
