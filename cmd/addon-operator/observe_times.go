package main

import (
	"strings"
	"time"

	"addon-operator/cmd/addon-operator/debugapi/addons"
	"addon-operator/internal/api"
	"addon-operator/steps/addons/registry"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// timeActions returns observer. If the settings enable the measurement of actions on queues, the
// returned observer also measures these actions.
func (o *lifecycleObserver) timeActions(observer workflow.Observer) workflow.Observer {
	if o.queueActions {
		observer.Clock = time.Now
		observer.Acted = func(queue string, action workflow.Action, took time.Duration) {
			o.metrics.QueueActed(queueLabel(queue), string(action), took)
		}
	}
	return observer
}

// queueLabel returns the metric label of a queue. The queues of addons configurations share one label, because the
// series of a deleted configuration would stay until the process ends.
func queueLabel(queue string) string {
	configurations := graph.Subject{Configuration: "*"}.Queue()
	if strings.HasPrefix(queue, strings.TrimSuffix(configurations, "*")) {
		return configurations
	}
	return queue
}

// HelmBegins measures the duration of a Helm operation. The caller must call the returned function
// when the operation ends.
func (o *lifecycleObserver) HelmBegins(module, operation string) (ends func()) {
	began := time.Now()
	return func() { o.metrics.HelmDid(module, o.activation(), operation, time.Since(began), "") }
}

// addonsFetches measures the duration of the fetch of an addon repository. The caller must call the
// returned function when the fetch ends.
func (o *lifecycleObserver) addonsFetches(scope registry.Scope) (ends func(api.Reason)) {
	began := time.Now()
	label := "ns" // all namespaces share one label, because the series of a deleted namespace would stay
	if scope == registry.Cluster {
		label = addons.ScopeLabel(scope)
	}
	return func(reason api.Reason) {
		o.metrics.AddonsFetched(label, string(reason), time.Since(began))
	}
}
