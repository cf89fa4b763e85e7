package traces

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/internal/kube"
	"addon-operator/internal/span"
	"addon-operator/internal/tracing"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

func TestWithoutACollectorAnObserverDoesNothing(t *testing.T) {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Setenv(variable, "")
	}
	o, err := New(t.Context(), new(settings.Settings), "s", "v1", zerolog.Nop())
	if o != nil || err != nil {
		t.Fatalf("observer %v, error %v", o, err)
	}
	if observer := o.Observe(workflow.Observer{}); observer.Began != nil || observer.Recorded != nil || observer.Ended != nil || observer.Context != nil {
		t.Errorf("the observer is changed: %+v", observer)
	}
	if o.Write() != nil || o.TraceParent() != nil || o.TraceID(7) != "" {
		t.Error("versions or traces are named")
	}
	<-o.Flush(t.Context(), zerolog.Nop())
}

func TestARunThatIsNotKnownHasNoTrace(t *testing.T) {
	t.Parallel()
	o, _ := testTraces(t)
	if id := o.TraceID(0); id != "" {
		t.Errorf("run 0 has the trace %q", id)
	}
	if one, two := o.TraceID(1), o.TraceID(2); len(one) != 32 || one == two {
		t.Errorf("the traces are %q and %q", one, two)
	}
}

// TestPartsOfAnAttemptAreSpansBelowIt sends the spans of an attempt with two parts, one within the other. The parent of
// the inner part must be the outer part, and the parent of the outer part must be the attempt.
func TestPartsOfAnAttemptAreSpansBelowIt(t *testing.T) {
	t.Parallel()
	o, c := testTraces(t)
	task := testAttempt(3, false, 7)
	o.began(task)
	ctx := o.context(t.Context(), task)
	outer, upgrade := span.Start(ctx, "helm upgrade", span.Attributes{"release": "web"})
	_, apply := span.Start(outer, "apply", nil)
	apply.Set("objects", 3)
	apply.End(errors.New("denied: password=hunter2"))
	upgrade.End(nil)
	o.recorded(result(task, store.Done))
	<-o.Flush(t.Context(), zerolog.Nop())
	names := map[string]string{} // names of spans, by the ID of the span
	for _, s := range c.Spans() {
		names[s.ID] = s.Name
	}
	got := map[string][]string{}
	for _, s := range c.Spans() {
		if s.Trace != o.TraceID(7) {
			t.Errorf("%s is in the trace %s", s.Name, s.Trace)
		}
		got[s.Name] = []string{"below " + names[s.Parent], s.Error, s.Attributes["addon_operator.release"] + s.Attributes["addon_operator.objects"]}
	}
	want := map[string][]string{
		"module-kubernetes-event": {"below ", "", ""}, "helm upgrade": {"below module-kubernetes-event", "", "web"}, "apply": {"below helm upgrade", "denied: password=(redacted)", "3"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestASpanOfAnAttemptHasItsTaskAndItsSubject(t *testing.T) {
	t.Parallel()
	task := testAttempt(3, false, 7)
	task.Try, task.Previous = 2, workflow.WasFailed
	task.Subject.Binding = "pods"
	got := attemptSpan(task)
	want := tracing.Span{
		Ref: tracing.Ref{Run: 7, Key: "1-7 module-kubernetes-event web/hooks/a.sh pods 2026-11-25T02:00:03Z"}, Name: "module-kubernetes-event", Began: task.Claim.Since,
		Attributes: tracing.Attributes{
			"addon_operator.graph": "lifecycle", "addon_operator.node": "module-kubernetes-event", "addon_operator.run": 7, "addon_operator.task": "1-7",
			"addon_operator.queue": "q", "addon_operator.attempt": 2, "addon_operator.previous": "failed", "addon_operator.epoch": 1, "addon_operator.module": "web",
			"addon_operator.hook": "hooks/a.sh", "addon_operator.binding": "pods", "addon_operator.configuration": "",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	task.Claim = nil
	if ref := attemptRef(task); ref.Key != "1-7 module-kubernetes-event web/hooks/a.sh pods" {
		t.Errorf("an attempt without a claim is %q", ref.Key)
	}
}

func TestEachAttemptAtATaskIsASpanOfItsOwn(t *testing.T) {
	t.Parallel()
	first, second := testAttempt(1, false, 7), testAttempt(2, false, 7)
	if attemptRef(first) == attemptRef(second) {
		t.Errorf("both attempts are %+v", attemptRef(first))
	}
	if attemptRef(first) != attemptRef(testAttempt(1, false, 7)) {
		t.Error("the same attempt has two names, so its hook and its span differ after a restart")
	}
}

func TestATaskWithoutAClaimIsNoAttempt(t *testing.T) {
	t.Parallel()
	o, c := testTraces(t)
	task := testAttempt(1, false, 7)
	record := result(task, store.Done)
	task.Claim = nil
	o.began(task)
	o.recorded(record)
	<-o.Flush(t.Context(), zerolog.Nop())
	if spans := c.Spans(); len(spans) > 0 {
		t.Errorf("spans: %+v", spans)
	}
}

func TestAttemptsInSeveralQueuesDoNotEndEachOther(t *testing.T) {
	t.Parallel()
	o, c := testTraces(t)
	one, two := testAttempt(1, false, 1), testAttempt(1, false, 2)
	two.Queue = "other"
	o.began(one)
	o.began(two)
	o.recorded(result(one, store.Done))
	o.recorded(result(two, store.Failed))
	<-o.Flush(t.Context(), zerolog.Nop())
	got := map[string]string{}
	for _, s := range c.Spans() {
		got[s.Attributes["addon_operator.queue"]] = s.Attributes["addon_operator.outcome"]
	}
	if diff := cmp.Diff(map[string]string{"q": "done", "other": "failed"}, got); diff != "" {
		t.Errorf("outcomes by queue (-want +got):\n%s", diff)
	}
}

func TestTheFirstWriterOfAVersionIsItsCause(t *testing.T) {
	t.Parallel()
	w := newWrittenVersions()
	w.begin(kube.Ref{Kind: "ConfigMap", Namespace: "ns", Name: "a"}, tracing.Ref{Run: 1})("70")
	w.begin(kube.Ref{Kind: "ConfigMap", Namespace: "ns", Name: "a"}, tracing.Ref{Run: 2})("70") // the write of run 2 changed nothing
	w.begin(kube.Ref{Kind: "Node", Name: "a"}, tracing.Ref{Run: 3})("71")
	for name, c := range map[string]struct {
		cause store.Cause
		want  uint64 // 0 for none
	}{
		"the first one":            {store.Cause{Object: "ConfigMap ns/a", ResourceVersion: "70", Manager: "addon-operator"}, 1},
		"an object of the cluster": {store.Cause{Object: "Node a", ResourceVersion: "71", Manager: "addon-operator"}, 3},
		"another version":          {store.Cause{Object: "ConfigMap ns/a", ResourceVersion: "71", Manager: "addon-operator"}, 0},
		"another namespace":        {store.Cause{Object: "ConfigMap a", ResourceVersion: "70", Manager: "addon-operator"}, 0},
		"another manager":          {store.Cause{Object: "ConfigMap ns/a", ResourceVersion: "70", Manager: "kubectl-edit"}, 0},
		"no object":                {store.Cause{}, 0},
	} {
		called := false
		w.find(c.cause, func(by tracing.Ref, found bool) {
			if called = true; found != (c.want != 0) || found && by.Run != c.want {
				t.Errorf("%s: written by %+v, found %t, want run %d", name, by, found, c.want)
			}
		})
		if !called {
			t.Errorf("%s: no result", name)
		}
	}
}

func TestASpanOfARunHasItsCause(t *testing.T) {
	t.Parallel()
	o, c := testTraces(t)
	began := time.Date(2026, 11, 25, 2, 0, 0, 0, time.UTC)
	o.ended(store.Run{
		ID: 9, Graph: "lifecycle", Trigger: "event", Subject: graph.Subject{Module: "web", Hook: "h", Binding: "b"}, Began: began, Ended: began.Add(3 * time.Second),
		Cause: store.Cause{Object: "Pod ns/a", Event: "Modified", Manager: "kubectl", By: "alice"},
	})
	<-o.Flush(t.Context(), zerolog.Nop())
	spans := c.Spans()
	if len(spans) != 1 || spans[0].Name != "event" || spans[0].Parent != "" || spans[0].Nanoseconds != 3e9 || spans[0].Failed {
		t.Fatalf("spans: %+v", spans)
	}
	want := map[string]string{
		"graph": "lifecycle", "trigger": "event", "run": "9", "module": "web", "hook": "h", "binding": "b", "cause.object": "Pod ns/a", "cause.event": "Modified", "cause.manager": "kubectl", "cause.by": "alice",
	}
	for name, value := range want {
		if got := spans[0].Attributes["addon_operator."+name]; got != value {
			t.Errorf("attribute %s is %q, want %q", name, got, value)
		}
	}
}
