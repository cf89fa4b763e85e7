package main

import (
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/internal/jq"
	"addon-operator/internal/kube"
	"addon-operator/internal/metrics"
	"addon-operator/store"
	"addon-operator/triggers"
)

// A clusterObserver logs and counts events and failures of the watches. If the observer fails, no
// watch fails.
type clusterObserver struct {
	log     zerolog.Logger
	metrics *metrics.Set
	labels  *bindingLabels
}

// hooks returns the observer of the watches for hooks.
func (o *clusterObserver) hooks() kube.Observer {
	return kube.Observer{
		SourceFailed: func(s kube.Source, err error) {
			o.metrics.WatchFailed(reasonOf(err))
			o.log.Warn().Err(err).Str("source", s.String()).Msg("watch failed; retrying")
		},
		VersionRefused: func(s kube.Source, v string, err error) {
			o.log.Info().Err(err).Str("source", s.String()).Str("version", v).Msg("watch cannot continue at this version; listing the objects and comparing them with the delivered objects")
		},
		FilterFailed: o.filterFailed,
		ReceiverFailed: func(s kube.Source, err error) {
			o.log.Error().Err(err).Str("source", s.String()).Msg("cannot store changes of objects; retrying")
		},
		Clock: time.Now, Filtered: o.filtered, Delivered: o.delivered,
		KindAwaited: func(owner string, missing *kube.NotServedError) {
			s := triggers.SubjectOf(owner)
			o.log.Warn().Str("module", s.Module).Str("hook", s.Hook).Str("binding", s.Binding).Err(missing).
				Msg("a hook watches a kind that is not served, and sees no objects until the kind is served")
		},
		KindSettled: func(owner string, kind kube.Kind, err error) {
			s := triggers.SubjectOf(owner)
			o.log.Warn().Str("module", s.Module).Str("hook", s.Hook).Str("binding", s.Binding).
				Str("kind", kind.Kind).Str("apiVersion", kind.GroupVersion().String()).Err(err).
				Msg("the preferred version of a kind is unavailable; a hook watches the kind in another version")
		},
		KindFailed: func(apiVersion, kind string, err error) {
			o.log.Warn().Err(err).Str("apiVersion", apiVersion).Str("kind", kind).Msg("cannot look up kind; retrying")
		},
	}
}

// filterFailed logs and counts a jqFilter that failed for an object. If the filter exceeded a
// limit, filterFailed logs a warning, because that is a mistake in the hook. Otherwise it logs with
// level debug, because the cause is usually an incomplete object.
func (o *clusterObserver) filterFailed(v kube.View, owners []string, object *kube.Object, failure *jq.FilterError) {
	level := zerolog.DebugLevel
	if failure.Bound {
		level = zerolog.WarnLevel
	}
	for _, owner := range owners {
		o.metrics.FilterFailed(o.labels.of(owner), v.Kind)
		s := triggers.SubjectOf(owner)
		o.log.WithLevel(level).Str("module", s.Module).Str("hook", s.Hook).Str("binding", s.Binding).
			Str("object", strings.TrimPrefix(object.Namespace+"/"+object.Name, "/")).Err(failure).Msg("jqFilter failed; the snapshot keeps the previous state of the object")
	}
}

// own returns the observer of the operator's own watches. The metrics with labels of hooks do not include these
// watches. The metric of failed watches includes them, because a failed watch hides changes from the operator.
func (o *clusterObserver) own() kube.Observer {
	observer := o.hooks()
	observer.Clock, observer.Filtered, observer.Delivered = nil, nil, nil
	observer.FilterFailed = nil
	return observer
}

// reasonOf returns a one-word reason for err.
func reasonOf(err error) string {
	if reason := string(apierrors.ReasonForError(err)); reason != "" {
		return reason
	}
	return "connection"
}

// objectsAbsent sets the metric of the absent objects of a release.
func (o *clusterObserver) objectsAbsent(release string, absent []kube.Ref) {
	objects := make([]string, len(absent))
	for i, ref := range absent {
		objects[i] = ref.Namespace + "/" + ref.Kind + "/" + ref.Name
	}
	o.metrics.ObjectsAbsent(release, objects)
}

// filtered measures the duration of a jqFilter, for each binding that uses the filter.
func (o *clusterObserver) filtered(v kube.View, owners []string, took time.Duration) {
	for _, owner := range owners {
		o.metrics.FilterTook(o.labels.of(owner), v.Kind, took)
	}
}

// delivered records the duration of the delivery of a change for each affected binding; see [kube.Observer].
func (o *clusterObserver) delivered(s kube.Source, owners []string, took time.Duration) {
	for _, owner := range owners {
		o.metrics.EventTook(o.labels.of(owner), s.Kind, took)
	}
}

// bindingLabels caches the metric labels of bindings. The keys are the names that package kube has
// for the owners of watches.
type bindingLabels struct {
	db      *store.DB       // read only
	changed <-chan struct{} // bindings may have changed

	mu    sync.RWMutex
	known map[string]metrics.Binding // guarded by mu
	times int                        // number of times that the map known was cleared; guarded by mu
}

func newBindingLabels(db *store.DB) *bindingLabels {
	return &bindingLabels{db: db, changed: store.Changes(db, store.At(store.Bindings)), known: map[string]metrics.Binding{}}
}

// forgetChanged clears the labels if bindings may have changed, so that the labels are read again.
func (l *bindingLabels) forgetChanged() {
	select {
	case <-l.changed:
	default:
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.known)
	l.times++
}

// of returns the labels of the binding whose name is the argument owner. If the binding is not
// attached any more, the label "queue" is empty.
func (l *bindingLabels) of(owner string) metrics.Binding {
	l.forgetChanged()
	l.mu.RLock()
	b, ok := l.known[owner]
	times := l.times
	l.mu.RUnlock()
	if ok {
		return b
	}
	subject, queue := triggers.SubjectOf(owner), ""
	// If the store cannot be read, the label "queue" is empty too; the store itself reports the
	// error.
	_ = l.db.View(func(tx *store.Tx) error {
		record, _, err := store.Load[store.Binding](tx, store.BindingKey(subject.Module, subject.Hook, subject.Binding))
		queue = record.Queue
		return err
	})
	b = debugapi.BindingOf(subject, "", queue)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.times == times { // otherwise the record may have been read before a change of bindings
		l.known[owner] = b
	}
	return b
}
