package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/rs/zerolog"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/traces"
	"addon-operator/internal/metrics"
	"addon-operator/steps/hookmetrics"
	"addon-operator/steps/report"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// observed has the data that a lifecycleObserver keeps between two calls, such as the start times from which metrics
// are computed. observed covers only this process: if a converge, a module run or a Helm operation began in an earlier
// process, only its part in this process is measured, or nothing.
type observed struct {
	mu         sync.Mutex
	moduleRuns map[string]moduleRun     // the current run of each module
	helm       map[string]time.Duration // duration of the step release-check, by module
	runs       map[uint64]time.Time     // start of the converge of a run, or of the start run itself, by run number
	blocked    int                      // number of releases whose deletion was blocked or failed since the start of the last discovery
	refused    string                   // resource version and error of the ConfigMap that was refused last
}

// A moduleRun has the start time of a module's step 5 and the number of its run.
type moduleRun struct {
	began time.Time
	run   uint64
}

// A lifecycleObserver logs and counts the work of the engine and of the steps, and reports problems
// as Kubernetes Events. If the observer fails, no task fails. A lifecycleObserver is a
// steps.Observer.
type lifecycleObserver struct {
	log     zerolog.Logger
	metrics *metrics.Set
	notices *notices
	db      *store.DB // read only
	slow    *debugapi.SlowRuns
	traces  *traces.Observer // nil if nothing is traced
	// converged is true after the first converge of this process.
	converged *atomic.Bool
	// queueActions is true if actions on queues are measured.
	queueActions bool
	seen         observed
}

func newLifecycleObserver(o *operator) *lifecycleObserver {
	return &lifecycleObserver{
		log: o.log, metrics: o.metrics, notices: o.notices, db: o.db, slow: &o.slow, traces: o.traces, converged: &o.status.converged,
		queueActions: o.settings.QueueActions,
		seen:         observed{moduleRuns: map[string]moduleRun{}, helm: map[string]time.Duration{}, runs: map[uint64]time.Time{}},
	}
}

// engine returns the observer of the engine.
func (o *lifecycleObserver) engine() workflow.Observer {
	return o.timeActions(workflow.Observer{
		Began: o.taskBegan,
		Recorded: func(r store.Record) {
			logRecord(o.log, r)
			o.recorded(r)
		},
		Ended: func(run store.Run) {
			o.seen.mu.Lock()
			defer o.seen.mu.Unlock()
			delete(o.seen.runs, run.ID)
		},
		Looped: o.looped, Quarantined: o.quarantined, Paused: o.paused, Damaged: o.recordDamaged,
		Broken: func(queue string, err error) {
			o.log.Error().Err(err).Str("queue", queue).Msg("queue stands still")
		},
	})
}

// activation returns the value of the metric label "activation": OperatorStartup before the end of the first converge
// of this process, and empty after it.
func (o *lifecycleObserver) activation() string {
	if o.converged.Load() {
		return ""
	}
	return "OperatorStartup"
}

// taskBegan measures how long a task waited in its queue, at the first attempt of the task. For the
// first task of a converge or of the start run, taskBegan records the time from which the converge is
// measured.
func (o *lifecycleObserver) taskBegan(t workflow.Task) {
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

// stepOf returns the number of the step that n is a part of: 5 for 5c.
func stepOf(n *graph.Node) string { return strings.TrimRightFunc(n.Number, unicode.IsLetter) }

// recorded updates the metrics for a history record.
func (o *lifecycleObserver) recorded(r store.Record) {
	o.metrics.TaskEnded(r.Node, string(r.State))
	module, node := r.Subject.Module, graph.NodeID(r.Node)
	if r.State == store.Failed {
		number := ""
		if n, ok := lifecycle.Graph.Node(node); ok {
			number = stepOf(n)
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
	took, trace := r.Ended.Sub(r.Began), o.traces.TraceID(r.Run)
	o.seen.mu.Lock()
	defer o.seen.mu.Unlock()
	switch node {
	case lifecycle.DiscoverModules, lifecycle.ModulePurge:
		o.metrics.DeletionsBlocked(o.seen.blocked)
	case lifecycle.ModuleRun:
		o.seen.moduleRuns[module] = moduleRun{r.Began, r.Run}
	case lifecycle.ReleaseCheck:
		o.metrics.HelmDid(module, o.activation(), "check-upgrade", took, trace)
		if slices.Contains(r.Facts, string(lifecycle.Outdated)) {
			o.seen.helm[module] = took
		} else {
			o.metrics.ModuleHelmDid(module, o.activation(), took, trace)
		}
	case lifecycle.ReleaseUpgrade:
		o.metrics.HelmDid(module, o.activation(), "upgrade", took, trace)
		o.metrics.ModuleHelmDid(module, o.activation(), o.seen.helm[module]+took, trace)
		delete(o.seen.helm, module)
	}
}

// ModuleRan counts and measures an ended run of the module. ModuleRan does nothing if the run began in
// an earlier process.
func (o *lifecycleObserver) ModuleRan(module string) {
	o.seen.mu.Lock()
	defer o.seen.mu.Unlock()
	if r, ok := o.seen.moduleRuns[module]; ok {
		o.metrics.ModuleRan(module, o.activation(), time.Since(r.began), o.traces.TraceID(r.run))
		delete(o.seen.moduleRuns, module)
	}
}

// convergeEnded logs, counts and measures an ended converge.
func (o *lifecycleObserver) convergeEnded() {
	var startup store.Startup
	if err := o.db.View(func(tx *store.Tx) (err error) {
		startup, _, err = store.Load[store.Startup](tx, store.StartupKey())
		return err
	}); err != nil {
		return // the store is closed, which other code reports
	}
	o.seen.mu.Lock()
	began, known := o.seen.runs[startup.Converged]
	blocked := o.seen.blocked
	delete(o.seen.runs, startup.Converged) // another converge of the same run has its own start time
	o.seen.mu.Unlock()
	took := time.Since(began)
	if !known {
		took = 0
	}
	o.metrics.Converged(o.activation(), took)
	level, text := zerolog.InfoLevel, "converged"
	if blocked > 0 {
		level, text = zerolog.WarnLevel, "converged, but the deletion of releases was blocked or failed: see addon-operator workflow inspect"
	}
	o.log.WithLevel(level).Uint64("run", startup.Converged).Str("took", debugapi.Short(took)).Int("modules", len(startup.Enabled)).Int("blocked", blocked).Msg(text)
}

// HookRan updates the metrics for one ended run of a hook.
func (o *lifecycleObserver) HookRan(r report.Run) {
	run := metrics.HookRun{
		Binding: debugapi.BindingOf(r.Task.Subject, string(r.Node), r.Task.Queue), Type: r.Binding, Activation: o.activation(),
		User: r.Usage.User, System: r.Usage.System, MaxRSS: r.Usage.MaxRSS,
		Failed: r.Err != nil, Allowed: r.Task.AllowFailure,
		Trace: o.traces.TraceID(r.Task.Run),
	}
	if r.Task.Claim != nil {
		run.Took = time.Since(r.Task.Claim.Since)
	} else { // a hook that answers a review request has no task
		run.Took = r.Usage.Took
	}
	o.metrics.HookRan(run)
}

// waitedAs returns the metric labels for the waiting time of a task. If the task has no hook, the
// label "binding" has the type of the task.
func waitedAs(s graph.Subject, node, queue string) metrics.Binding {
	b := debugapi.BindingOf(s, node, queueLabel(queue))
	if b.Hook == "" {
		b.Name = debugapi.TaskType(node)
	}
	return b
}

// quarantined reports a task that was quarantined because it crashes the operator.
func (o *lifecycleObserver) quarantined(q store.QuarantinedItem) {
	subject := strings.TrimSpace(q.Node + " " + q.Subject.String())
	o.log.Error().Str("node", q.Node).Str("subject", q.Subject.String()).Str("task.id", q.ID.String()).Int("crashes", q.Crashes).
		Msg("task quarantined because the operator crashed each time the task ran; use addon-operator task release or addon-operator task skip")
	o.notices.add(notice{reason: "Quarantined", message: fmt.Sprintf(
		"%s is in quarantine because the operator crashed %d times while this step ran: check what the step does and how much memory the step needs, then run addon-operator task release %s, or addon-operator task skip %s --reason TEXT to give up its work",
		subject, q.Crashes, q.ID, q.ID)})
}

// paused reports that a user paused or resumed work.
func (o *lifecycleObserver) paused(q store.QuarantinedItem, by string, paused bool) {
	text := "work resumed"
	if paused {
		text = "work paused until a person resumes it"
	}
	o.log.Warn().Str("what", strings.Join(q.What(), " ")).Str("by", by).Str("reason", q.Paused.Reason).Msg(text)
}

// recordDamaged reports a record that could not be read.
func (o *lifecycleObserver) recordDamaged(d store.Damaged) {
	o.metrics.RecordDamaged(store.Key(d.Key).Table().String())
	o.log.Error().Str("record", d.String()).Str("error", d.Error).Str("id", d.ID.String()).Msg("moved unreadable record to the table of damaged records")
	o.notices.add(notice{reason: "RecordDamaged", message: fmt.Sprintf(
		"%s cannot be read and was moved to the table of damaged records: see addon-operator workflow inspect; addon-operator task skip %s --reason TEXT deletes it", d, d.ID)})
}

// looped reports that values change at each run of a module, or at each converge.
func (o *lifecycleObserver) looped(t store.Task) {
	o.metrics.Looped(t.Node, t.Subject.Module)
	o.log.Warn().Str("node", t.Node).Str("module", t.Subject.Module).Int("times", t.Loop.N).
		Msg("values change at each run; the next run is delayed")
	what := "global values change with each reload of the modules"
	if t.Subject.Module != "" {
		what = fmt.Sprintf("values of module %s change with each of its runs", t.Subject.Module)
	}
	o.notices.add(notice{reason: "ValuesLoop", message: what + ", so the next run is delayed: check the values that the hooks write"})
}

// DeletionBlocked reports releases that were not deleted: a safety check blocked the deletion, or the deletion failed.
// The argument why is the message of the Event: the reason, and what to do.
func (o *lifecycleObserver) DeletionBlocked(releases []string, why string) {
	o.seen.mu.Lock()
	o.seen.blocked += len(releases)
	o.seen.mu.Unlock()
	o.notices.add(notice{reason: "DeletionBlocked", message: why})
}

// ConfigRefused reports that the ConfigMap is invalid. ConfigRefused does nothing if its arguments are the same as in
// the previous call.
func (o *lifecycleObserver) ConfigRefused(resourceVersion, why string) {
	o.seen.mu.Lock()
	before := o.seen.refused
	o.seen.refused = resourceVersion + " " + why
	known := before == o.seen.refused
	o.seen.mu.Unlock()
	if known {
		return
	}
	o.metrics.ConfigRefused()
	o.log.Error().Str("resourceVersion", resourceVersion).Str("error", why).Msg("ConfigMap rejected; the last valid content stays in force")
	o.notices.add(notice{reason: "ConfigRefused", message: why})
}

// MetricsDropped counts dropped metric operations of a hook.
func (o *lifecycleObserver) MetricsDropped(d hookmetrics.Dropped) {
	o.metrics.HookMetricsDropped(d.Module, d.Hook, d.Reason, d.Operations)
}
