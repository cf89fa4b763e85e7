package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/internal/api"
	"addon-operator/internal/jq"
	"addon-operator/internal/kube"
	"addon-operator/internal/metrics"
	"addon-operator/steps"
	"addon-operator/store"
	"addon-operator/triggers"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// observed has the start times that metrics need. It covers this process only; steps
// that started in an earlier one have no duration.
type observed struct {
	mu         sync.Mutex
	moduleRuns map[string]time.Time     // when the run of a module began
	helm       map[string]time.Duration // what the look at a module's release took
	runs       map[uint64]time.Time     // when a converge began
	blocked    int                      // releases whose deletion the current discovery blocked
	refused    string                   // the content of the ConfigMap refused last
}

// observer logs and counts what the engine does.
func (o *operator) observer() workflow.Observer {
	o.seen.moduleRuns, o.seen.helm, o.seen.runs = map[string]time.Time{}, map[string]time.Duration{}, map[uint64]time.Time{}
	return o.timeActions(workflow.Observer{
		Began: o.taskBegan,
		Recorded: func(r store.Record) {
			logRecord(o.log, r)
			o.recorded(r)
			if r.State != store.Done && r.State != store.Joined {
				o.configMap.Left()
			}
			if c := r.Subject.Configuration; c != "" && api.ParseIdentity(c).Namespace == "" { // only those of the cluster provide modules
				o.addonsChanged.raise()
			}
		},
		Ended: func(w store.Run) {
			o.seen.mu.Lock()
			defer o.seen.mu.Unlock()
			delete(o.seen.runs, w.ID)
		},
		Looped: o.looped, Quarantined: o.quarantined, Damaged: o.recordDamaged,
		Broken: func(queue string, err error) {
			o.log.Error().Err(err).Str("queue", queue).Msg("queue stands still")
		},
	})
}

// configSeen logs content of the ConfigMap where that was asked for. Its values
// can be secrets; the names of its keys are not.
func (o *operator) configSeen(c kube.Content) {
	if o.logConfigEvents.Load() {
		o.log.Info().Bool("exists", c.Exists).Str("resourceVersion", c.ResourceVersion).
			Strs("keys", slices.Sorted(maps.Keys(c.Data))).Msg(o.configObject().String() + " seen")
	}
}

// activation returns the label of the first converge of a process, and an empty one
// afterwards.
func (o *operator) activation() string {
	if o.status.converged.Load() {
		return ""
	}
	return "OperatorStartup"
}

// taskBegan counts how long a task waited and notes where a converge begins.
func (o *operator) taskBegan(t workflow.Task) {
	first := t.Try == 1 && t.Previous == workflow.None && (t.FanOut == nil || t.FanOut.Next == 0 && !t.Prepared)
	if first && t.Claim != nil {
		waited := []*store.Task{&t.Task}
		if len(t.Batch) > 0 {
			waited = t.Batch
		}
		for _, task := range waited {
			o.metrics.TaskWaited(waitedAs(task.Subject, t.Node, t.Queue), t.Claim.Since.Sub(task.Queued))
		}
	}
	switch graph.NodeID(t.Node) {
	case lifecycle.GlobalOnStartup, lifecycle.GlobalSynchronization, lifecycle.GlobalBeforeAll, lifecycle.DiscoverModules:
		o.seen.mu.Lock()
		defer o.seen.mu.Unlock()
		if _, known := o.seen.runs[t.Run]; !known && t.Claim != nil {
			o.seen.runs[t.Run] = t.Claim.Since
		}
		if t.Node == string(lifecycle.DiscoverModules) {
			o.seen.blocked = 0
		}
	}
}

// recorded counts a line of history.
func (o *operator) recorded(r store.Record) {
	o.metrics.TaskEnded(r.Node, string(r.State))
	module, node := r.Subject.Module, graph.NodeID(r.Node)
	if r.State == store.Failed {
		number := ""
		if n, ok := lifecycle.Graph.Node(node); ok {
			number = strings.TrimRight(n.Number, "abcdef")
		}
		switch {
		case node == lifecycle.DiscoverModules:
			o.metrics.DiscoveryFailed()
		case number == "5":
			o.metrics.ModuleRunFailed(module)
		case number == "6":
			o.metrics.ModuleDeleteFailed(module)
		}
		return
	}
	if r.State != store.Done {
		return
	}
	took := r.Ended.Sub(r.Began)
	o.seen.mu.Lock()
	defer o.seen.mu.Unlock()
	switch node {
	case lifecycle.DiscoverModules:
		o.metrics.DeletionsBlocked(o.seen.blocked)
	case lifecycle.ModuleRun:
		o.seen.moduleRuns[module] = r.Began
	case lifecycle.ReleaseCheck:
		o.metrics.HelmDid(module, o.activation(), "check-upgrade", took)
		if slices.Contains(r.Facts, string(lifecycle.Outdated)) {
			o.seen.helm[module] = took
		} else {
			o.metrics.ModuleHelmDid(module, o.activation(), took)
		}
	case lifecycle.ReleaseUpgrade:
		o.metrics.HelmDid(module, o.activation(), "upgrade", took)
		o.metrics.ModuleHelmDid(module, o.activation(), o.seen.helm[module]+took)
		delete(o.seen.helm, module)
	}
}

func (o *operator) moduleRan(module string) {
	o.seen.mu.Lock()
	defer o.seen.mu.Unlock()
	if began, ok := o.seen.moduleRuns[module]; ok {
		o.metrics.ModuleRan(module, o.activation(), time.Since(began))
		delete(o.seen.moduleRuns, module)
	}
}

// convergeEnded logs and counts a converge that ended.
func (o *operator) convergeEnded() {
	var startup store.Startup
	if err := o.db.View(func(tx *store.Tx) (err error) {
		startup, _, err = store.Load[store.Startup](tx, store.StartupKey())
		return err
	}); err != nil {
		return // a store that ended says so elsewhere
	}
	o.seen.mu.Lock()
	began, known := o.seen.runs[startup.Converged]
	blocked := o.seen.blocked
	delete(o.seen.runs, startup.Converged) // the same run may go on to another converge
	o.seen.mu.Unlock()
	took := time.Since(began)
	if !known {
		took = 0
	}
	o.metrics.Converged(o.activation(), took)
	level, text := zerolog.InfoLevel, "converged"
	if blocked > 0 {
		level, text = zerolog.WarnLevel, "converged, but a safety check blocked deletions: see workflow inspect"
	}
	o.log.WithLevel(level).Uint64("run", startup.Converged).Str("took", debugapi.Short(took)).Int("modules", len(startup.Enabled)).Int("blocked", blocked).Msg(text)
}

// hookRan observes one run of a hook.
func (o *operator) hookRan(r steps.Report) {
	run := metrics.HookRun{
		Binding: debugapi.BindingOf(r.Task.Subject, string(r.Node), r.Task.Queue), Type: r.Binding, Activation: o.activation(),
		User: r.Usage.User, System: r.Usage.System, MaxRSS: r.Usage.MaxRSS,
		Failed: r.Err != nil, Allowed: r.Task.AllowFailure,
	}
	if r.Task.Claim != nil {
		run.Took = time.Since(r.Task.Claim.Since)
	} else { // the API server has asked, without a task
		run.Took = r.Usage.Took
	}
	o.metrics.HookRan(run)
}

// waitedAs returns the labels of the time that a task stood in its queue: where no hook is named, the type of the task is the
// binding.
func waitedAs(s store.Subject, node, queue string) metrics.Binding {
	b := debugapi.BindingOf(s, node, queue)
	if b.Hook == "" {
		b.Name = debugapi.TaskType(node)
	}
	return b
}

func (o *operator) objectsAbsent(release string, absent []kube.Ref) {
	objects := make([]string, len(absent))
	for i, ref := range absent {
		objects[i] = ref.Namespace + "/" + ref.Kind + "/" + ref.Name
	}
	o.metrics.ObjectsAbsent(release, objects)
}

// quarantined reports a task that crashes the operator and is now in quarantine.
func (o *operator) quarantined(q store.QuarantinedItem) {
	subject := strings.TrimSpace(q.Node + " " + graph.Subject(q.Subject).String())
	o.log.Error().Str("node", q.Node).Str("subject", graph.Subject(q.Subject).String()).Str("task.id", q.ID.String()).Int("crashes", q.Crashes).
		Msg("task quarantined because the operator crashed each time it ran; use task release or task skip")
	o.notices.add(notice{reason: "Quarantined", message: fmt.Sprintf(
		"%s is in quarantine because the operator crashed %d times while it ran: check what it does and how much memory it needs, then run addon-operator task release %s, or task skip to forget it",
		subject, q.Crashes, q.ID)})
}

// recordDamaged reports a record that could not be read.
func (o *operator) recordDamaged(d store.Damaged) {
	o.metrics.RecordDamaged(store.Key(d.Key).Table().String())
	o.log.Error().Str("record", d.String()).Str("error", d.Error).Str("id", d.ID.String()).Msg("moved unreadable record to the table of damaged records")
	o.notices.add(notice{reason: "RecordDamaged", message: fmt.Sprintf(
		"%s cannot be read and was moved to the table of damaged records: see addon-operator workflow inspect; addon-operator task skip %s forgets it", d, d.ID)})
}

// looped says that values change at each run.
func (o *operator) looped(t store.Task) {
	o.metrics.Looped(t.Node, t.Subject.Module)
	o.log.Warn().Str("node", t.Node).Str("module", t.Subject.Module).Int("times", t.Loop.N).
		Msg("values change at each run; the next one is delayed")
	what := "global values change with each reload of the modules"
	if t.Subject.Module != "" {
		what = fmt.Sprintf("values of module %s change with each of its runs", t.Subject.Module)
	}
	o.notices.add(notice{reason: "ValuesLoop", message: what + ", so the next one is delayed: look at what its hooks write"})
}

// blockedDeletions reports releases whose deletion a safety check blocked.
func (o *operator) blockedDeletions(releases []string, why string) {
	o.seen.mu.Lock()
	o.seen.blocked += len(releases)
	o.seen.mu.Unlock()
	o.notices.add(notice{reason: "DeletionBlocked", message: why})
}

// refused says, once for each content, that the ConfigMap is invalid.
func (o *operator) refused(resourceVersion, why string) {
	o.seen.mu.Lock()
	before := o.seen.refused
	o.seen.refused = resourceVersion + " " + why
	known := before == o.seen.refused
	o.seen.mu.Unlock()
	if known {
		return
	}
	o.metrics.ConfigRefused()
	o.log.Error().Str("resourceVersion", resourceVersion).Str("error", why).Msg("the ConfigMap is refused and what was in force stays")
	o.notices.add(notice{reason: "ConfigRefused", message: why})
}

// kubeObserver logs and counts what goes wrong with the API server.
func (o *operator) kubeObserver() kube.Observer {
	return kube.Observer{
		SourceFailed: func(s kube.Source, err error) {
			o.metrics.WatchFailed(reasonOf(err))
			o.log.Warn().Err(err).Str("source", s.String()).Msg("watch failed and is tried again")
		},
		VersionRefused: func(s kube.Source, v string, err error) {
			o.log.Info().Err(err).Str("source", s.String()).Str("version", v).Msg("restarting watch and comparing it with the delivered objects")
		},
		FilterFailed: o.filterFailed, FailuresChanged: func(kube.View) { o.refilter.raise() },
		ReceiverFailed: func(s kube.Source, err error) {
			o.log.Error().Err(err).Str("source", s.String()).Msg("changes could not be put into the store and are tried again")
		},
		Clock: time.Now, Filtered: o.filtered, Delivered: o.told,
		KindAwaited: func(owner string, missing *kube.NotServedError) {
			s := triggers.SubjectOf(owner)
			o.log.Warn().Str("module", s.Module).Str("hook", s.Hook).Str("binding", s.Binding).Err(missing).
				Msg("a hook watches a kind that is not served, and sees no objects until it is")
		},
		KindFailed: func(apiVersion, kind string, err error) {
			o.log.Warn().Err(err).Str("apiVersion", apiVersion).Str("kind", kind).Msg("kind could not be looked up and is tried again")
		},
	}
}

// filterFailed logs and counts a jqFilter that failed on an object. A filter that exceeds a bound is a mistake in the hook;
// others fail on objects that are not complete yet.
func (o *operator) filterFailed(v kube.View, owners []string, object *kube.Object, failure *jq.FilterError) {
	level := zerolog.DebugLevel
	if failure.Bound {
		level = zerolog.WarnLevel
	}
	for _, owner := range owners {
		o.metrics.FilterFailed(o.labels.of(o.db, owner), v.Kind)
		s := triggers.SubjectOf(owner)
		o.log.WithLevel(level).Str("module", s.Module).Str("hook", s.Hook).Str("binding", s.Binding).
			Str("object", strings.TrimPrefix(object.Namespace+"/"+object.Name, "/")).Err(failure).Msg("jqFilter failed; the object stays as it was")
	}
}

// ownObserver is kubeObserver for what the operator itself watches: that is in no metric of hooks.
func (o *operator) ownObserver() kube.Observer {
	observer := o.kubeObserver()
	observer.Clock, observer.Filtered, observer.Delivered = nil, nil, nil
	observer.FilterFailed, observer.FailuresChanged = nil, nil
	return observer
}

// reasonOf returns one word for err.
func reasonOf(err error) string {
	if reason := string(apierrors.ReasonForError(err)); reason != "" {
		return reason
	}
	return "connection"
}
