package main

import (
	"sync"
	"time"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/internal/api"
	"addon-operator/internal/kube"
	"addon-operator/internal/metrics"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/triggers"
	"addon-operator/workflow"
)

// committed observes a commit of the store. Those before there are metrics, at
// the start, are not observed.
func (o *operator) committed(took time.Duration, writes int) {
	if o.metrics != nil {
		o.metrics.Committed(took, writes)
	}
}

// timeActions returns observer, with actions on queues timed unless settings say
// no.
func (o *operator) timeActions(observer workflow.Observer) workflow.Observer {
	if o.settings.QueueActions {
		observer.Clock = time.Now
		observer.Acted = func(queue string, action workflow.Action, took time.Duration) {
			o.metrics.QueueActed(queue, string(action), took)
		}
	}
	return observer
}

// helmBegins times an operation on a chart.
func (o *operator) helmBegins(module, operation string) (ends func()) {
	began := time.Now()
	return func() { o.metrics.HelmDid(module, o.activation(), operation, time.Since(began)) }
}

// addonsFetches times the fetch of a repository of addons.
func (o *operator) addonsFetches(scope registry.Scope) (ends func(api.Reason)) {
	began := time.Now()
	return func(reason api.Reason) {
		o.metrics.AddonsFetched(debugapi.ScopeLabel(scope), string(reason), time.Since(began))
	}
}

// filtered observes what a jqFilter took for each binding that has asked for it.
func (o *operator) filtered(v kube.View, owners []string, took time.Duration) {
	for _, owner := range owners {
		o.metrics.FilterTook(o.labels.of(o.db, owner), v.Kind, took)
	}
}

// told observes how long it took until a change stood in the queues of the
// bindings it concerns.
func (o *operator) told(s kube.Source, owners []string, took time.Duration) {
	for _, owner := range owners {
		o.metrics.EventTook(o.labels.of(o.db, owner), s.Kind, took)
	}
}

// bindingLabels are the labels of bindings, by the names that observers of the
// cluster know them by. Its zero value is ready.
type bindingLabels struct {
	mu    sync.RWMutex
	known map[string]metrics.Binding // guarded by mu
	times int                        // how often they were forgotten; guarded by mu
}

// forget drops the labels after a change of bindings, so that they are read again.
func (l *bindingLabels) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.known)
	l.times++
}

// of returns the labels of owner. Those of a binding that is not attached any
// more have no queue.
func (l *bindingLabels) of(db *store.DB, owner string) metrics.Binding {
	l.mu.RLock()
	b, ok := l.known[owner]
	times := l.times
	l.mu.RUnlock()
	if ok {
		return b
	}
	subject, queue := triggers.SubjectOf(owner), ""
	// What cannot be read has no queue, either; the store says why elsewhere.
	_ = db.View(func(tx *store.Tx) error {
		record, _, err := store.Load[store.Binding](tx, store.BindingKey(subject.Module, subject.Hook, subject.Binding))
		queue = record.Queue
		return err
	})
	b = debugapi.BindingOf(subject, "", queue)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]metrics.Binding{}
	}
	if l.times == times { // else it may have been read before the change
		l.known[owner] = b
	}
	return b
}
