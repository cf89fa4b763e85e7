// Package traces sends spans to an OpenTelemetry collector: one for each run, for each attempt at a task, and for each
// part of an attempt. If an attempt wrote the object that caused a run, package traces links the span of the run to the
// span of the attempt.
package traces

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/internal/kube"
	"addon-operator/internal/redact"
	"addon-operator/internal/span"
	"addon-operator/internal/tracing"
	"addon-operator/store"
	"addon-operator/workflow"
)

const (
	// sendWithin is the maximum time that a stopping operator waits for the collector. sendWithin must be shorter than
	// the time in which the operator must stop.
	sendWithin = 2 * time.Second
	// complainEvery is the minimum time between two log lines about a failing collector.
	complainEvery = time.Minute
)

// An Observer makes one span for each run, for each attempt, and for each part of an attempt that package span
// measures. A run is a trace. The span of a run is sent when the run ends, and is the parent of the spans of its
// attempts. If spans cannot be sent, no task fails. A nil observer makes no spans.
type Observer struct {
	tracer  *tracing.Tracer
	clock   func() time.Time
	written *writtenVersions
	within  time.Duration // the maximum time that Flush waits for the collector

	mu      sync.Mutex
	running map[string]workflow.Task // the current attempt of each queue; guarded by mu
}

// New returns an observer that sends spans to the collector in s. New returns nil if the settings name no collector.
// storeID is part of the identifiers of traces.
func New(ctx context.Context, s *settings.Settings, storeID, version string, log zerolog.Logger) (*Observer, error) {
	collector := s.Tracing.Collector()
	if !collector.Enabled() {
		return nil, nil // a nil observer makes no spans
	}
	tracer, err := tracing.New(ctx, tracing.Options{
		Collector: collector, Store: storeID, Failed: complain(log, time.Now),
		Process: tracing.Attributes{
			"service.name": "addon-operator", "service.version": version, "service.instance.id": s.OwnPod(),
			"k8s.pod.name": s.OwnPod(), "k8s.namespace.name": s.Namespace,
		},
	})
	if err != nil {
		return nil, err
	}
	return &Observer{tracer: tracer, clock: time.Now, written: newWrittenVersions(), within: sendWithin, running: map[string]workflow.Task{}}, nil
}

// complain returns a function that logs errors of the collector. The returned function drops an
// error if complainEvery has not passed since the last log line.
func complain(log zerolog.Logger, clock func() time.Time) func(error) {
	var mu sync.Mutex
	var last time.Time
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if now := clock(); last.IsZero() || now.Sub(last) >= complainEvery {
			last = now
			log.Warn().Str("error", redact.Text(err.Error())).Msg("spans are not sent; check the collector, and its address in --" + settings.TracingEndpointFlag + " or OTEL_EXPORTER_OTLP_ENDPOINT")
		}
	}
}

// Observe returns an observer whose functions Began, Recorded and Ended first call t, and then the same function of the
// given observer. These three functions of the given observer must not be nil. The function Context of the returned
// observer calls only t. If t is nil, Observe returns the given observer.
func (t *Observer) Observe(observer workflow.Observer) workflow.Observer {
	if t == nil {
		return observer
	}
	then := observer
	observer.Began = func(task workflow.Task) {
		t.began(task)
		then.Began(task)
	}
	observer.Context = t.context
	observer.Recorded = func(r store.Record) {
		t.recorded(r)
		then.Recorded(r)
	}
	observer.Ended = func(run store.Run) {
		t.ended(run)
		then.Ended(run)
	}
	return observer
}

// began records an attempt. began replaces the previous attempt in the same queue, because the
// attempts in one queue run one after another.
func (t *Observer) began(task workflow.Task) {
	if task.Claim == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running[task.Queue] = task
}

// recorded sends the span of the attempt that ended with the record r. recorded ignores records of tasks that had no
// attempt.
func (t *Observer) recorded(r store.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	task, found := t.running[r.Queue]
	if !found || !endsAttempt(task, r) {
		return
	}
	delete(t.running, r.Queue)
	s := attemptSpan(task)
	s.Ended = r.Ended
	s.Failed = r.State == store.Failed || r.State == store.Allowed
	s.Error = redact.Text(r.Error)
	s.Attributes["addon_operator.outcome"] = string(r.State)
	s.Attributes["addon_operator.facts"] = r.Facts
	t.tracer.Send(s)
}

// endsAttempt reports whether r is the result of the attempt at task.
func endsAttempt(task workflow.Task, r store.Record) bool {
	if !r.Began.Equal(task.Claim.Since) {
		return false
	}
	switch r.State {
	case store.Done, store.Failed, store.Dropped, store.Skipped:
		return true
	case store.Allowed: // if the batch has a task whose failures are not allowed, the record of that task ends the attempt
		return len(task.Batch) <= 1 || !slices.ContainsFunc(task.Batch, func(other *store.Task) bool { return !other.AllowFailure })
	default: // a record with another state does not end the attempt
		return false
	}
}

// attemptRef returns the reference of the span of the attempt at task. The reference contains the
// start time of the claim, which is durable and differs between the attempts at one task.
func attemptRef(task workflow.Task) tracing.Ref {
	parts := []string{task.ID.String(), task.Node, task.Subject.String()}
	if task.Claim != nil {
		parts = append(parts, task.Claim.Since.UTC().Format(time.RFC3339Nano))
	}
	return tracing.Ref{Run: task.Run, Key: strings.Join(parts, " ")}
}

// attemptSpan returns the span of the attempt at task. The span does not have the result of the
// attempt yet.
func attemptSpan(task workflow.Task) tracing.Span {
	s := tracing.Span{Ref: attemptRef(task), Name: task.Node, Began: task.Claim.Since, Attributes: tracing.Attributes{
		"addon_operator.graph": task.Graph, "addon_operator.node": task.Node, "addon_operator.run": int(task.Run), //nolint:gosec // the numbers of runs are small
		"addon_operator.task": task.ID.String(), "addon_operator.queue": task.Queue, "addon_operator.attempt": task.Try,
		"addon_operator.previous": string(task.Previous), "addon_operator.epoch": int(task.Claim.Epoch), //nolint:gosec // the numbers of epochs are small
		"addon_operator.module": task.Subject.Module, "addon_operator.hook": task.Subject.Hook,
		"addon_operator.binding": task.Subject.Binding, "addon_operator.configuration": task.Subject.Configuration,
	}}
	if len(task.Batch) > 1 {
		s.Attributes["addon_operator.batch"] = len(task.Batch)
	}
	linked := map[uint64]bool{task.Run: true}
	for _, other := range task.Batch {
		if !linked[other.Run] {
			linked[other.Run] = true
			s.Links = append(s.Links, tracing.Link{To: tracing.Ref{Run: other.Run}, Why: "batch"})
		}
	}
	return s
}

// context returns a context for the attempt at task. Each part of the attempt that is measured with
// this context is sent as a span.
func (t *Observer) context(ctx context.Context, task workflow.Task) context.Context {
	attempt := attemptRef(task)
	key := func(part string) string { // the key of a part begins with the key of its attempt
		if part == "" {
			return attempt.Key
		}
		return attempt.Key + " " + part
	}
	return span.With(ctx, span.Recorder{Clock: t.clock, Ended: func(p span.Part) {
		s := tracing.Span{
			Ref: tracing.Ref{Run: attempt.Run, Key: key(p.Number)}, Parent: key(p.Within),
			Name: p.Name, Began: p.Began, Ended: p.Ended, Attributes: tracing.Attributes{},
		}
		for name, value := range p.Attributes {
			s.Attributes["addon_operator."+name] = value
		}
		if p.Err != nil {
			s.Failed, s.Error = true, redact.Text(p.Err.Error())
		}
		t.tracer.Send(s)
	}})
}

// ended sends the span of a run that has ended. If a request is writing the object that caused the run, the span is
// sent after the request: the event of an object can arrive before the response to the request that wrote the object.
func (t *Observer) ended(run store.Run) {
	s := tracing.Span{Ref: tracing.Ref{Run: run.ID}, Name: run.Trigger, Began: run.Began, Ended: run.Ended, Attributes: tracing.Attributes{
		"addon_operator.graph": run.Graph, "addon_operator.trigger": run.Trigger, "addon_operator.run": int(run.ID), //nolint:gosec // the numbers of runs are small
		"addon_operator.module": run.Subject.Module, "addon_operator.hook": run.Subject.Hook, "addon_operator.binding": run.Subject.Binding,
		"addon_operator.configuration": run.Subject.Configuration, "addon_operator.cause.object": run.Cause.Object,
		"addon_operator.cause.event": run.Cause.Event, "addon_operator.cause.manager": run.Cause.Manager, "addon_operator.cause.by": run.Cause.By,
	}}
	if run.Joined != 0 {
		s.Links = append(s.Links, tracing.Link{To: tracing.Ref{Run: run.Joined}, Why: "joined"})
	}
	t.written.find(run.Cause, func(writer tracing.Ref, found bool) {
		if found {
			s.Links = append(s.Links, tracing.Link{To: writer, Why: "cause"})
		}
		t.tracer.Send(s)
	})
}

// Write returns a function, or nil if t is nil. The function must be called before an attempt writes an object. It
// returns another function, wrote. After the request, wrote must be called with the version that was written, or with
// an empty text if no version was written.
func (t *Observer) Write() func(task workflow.Task, object kube.Ref) (wrote func(resourceVersion string)) {
	if t == nil {
		return nil
	}
	return func(task workflow.Task, object kube.Ref) func(string) {
		return t.written.begin(object, attemptRef(task))
	}
}

// TraceParent returns a function that computes the variable TRACEPARENT for the hook of a task. TraceParent returns nil
// if t is nil.
func (t *Observer) TraceParent() func(workflow.Task) string {
	if t == nil {
		return nil
	}
	return func(task workflow.Task) string { return t.tracer.TraceParent(attemptRef(task)) }
}

// TraceID returns the identifier of the trace of run; empty if t is nil or run is 0.
func (t *Observer) TraceID(run uint64) string {
	if t == nil || run == 0 {
		return ""
	}
	return t.tracer.TraceID(run)
}

// Flush sends the pending spans, and the spans of attempts that were interrupted when the engine
// stopped. Flush closes the returned channel when the spans are sent, or after sendWithin.
func (t *Observer) Flush(ctx context.Context, log zerolog.Logger) <-chan struct{} {
	done := make(chan struct{})
	if t == nil {
		close(done)
		return done
	}
	t.mu.Lock()
	for queue, task := range t.running {
		delete(t.running, queue)
		s := attemptSpan(task)
		s.Ended = t.clock()
		s.Attributes["addon_operator.outcome"] = "interrupted"
		t.tracer.Send(s)
	}
	t.mu.Unlock()
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.within)
		defer cancel()
		if err := t.tracer.Stop(ctx); err != nil {
			log.Warn().Str("error", redact.Text(err.Error())).Msg("the last spans are not sent")
		}
	}()
	return done
}
