package traces

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"addon-operator/e2e/collector"
	"addon-operator/internal/kube"
	"addon-operator/internal/tracing"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// testTraces returns an observer, and the collector to which the observer sends spans.
func testTraces(t *testing.T) (*Observer, *collector.Collector) {
	t.Helper()
	c := collector.Start(t)
	tracer, err := tracing.New(t.Context(), tracing.Options{Collector: tracing.Collector{Endpoint: c.GRPC}, Store: "s"})
	if err != nil {
		t.Fatal(err)
	}
	return &Observer{tracer: tracer, clock: time.Now, written: newWrittenVersions(), within: time.Minute, running: map[string]workflow.Task{}}, c
}

// testAttempt returns an attempt at a batch that has one task for each of the given runs. The
// attempt began at second n. The argument allowed says whether failures of the first task are
// allowed. Failures of the other tasks are never allowed.
func testAttempt(n int, allowed bool, runs ...uint64) workflow.Task {
	began := time.Date(2026, 11, 25, 2, 0, n, 0, time.UTC)
	var batch []*store.Task
	for i, run := range runs {
		batch = append(batch, &store.Task{
			ID: store.ID{Epoch: 1, N: run}, Graph: "lifecycle", Node: "module-kubernetes-event", Run: run, Pos: store.Pos{Queue: "q"},
			Subject: graph.Subject{Module: "web", Hook: "hooks/a.sh"}, AllowFailure: allowed && i == 0,
			Claim: &store.Claim{Epoch: 1, Since: began},
		})
	}
	return workflow.Task{Task: *batch[0], Batch: batch, Try: 1, Previous: workflow.None}
}

// result returns the history record of an attempt that ended with a state.
func result(task workflow.Task, state store.State) store.Record {
	return store.Record{Run: task.Run, Task: task.ID, Node: task.Node, Queue: task.Queue, State: state, Began: task.Claim.Since, Ended: task.Claim.Since.Add(time.Second)}
}

func TestASpanHasTheResultOfItsAttempt(t *testing.T) {
	t.Parallel()
	single, batch := testAttempt(1, true, 1), testAttempt(2, true, 1, 2, 2, 3)
	earlier, strict := testAttempt(0, false, 1), testAttempt(2, false, 2)
	for name, test := range map[string]struct {
		task    workflow.Task
		records []store.Record
		want    string // the result that the span must have
	}{
		"done":                       {single, []store.Record{result(single, store.Done)}, "done"},
		"allowed":                    {single, []store.Record{result(single, store.Allowed)}, "allowed"},
		"an earlier claim":           {single, []store.Record{result(earlier, store.Skipped), result(single, store.Failed)}, "failed"},
		"superseded while it runs":   {single, []store.Record{result(single, store.Superseded), result(single, store.Dropped)}, "dropped"},
		"batch with a strict task":   {batch, []store.Record{result(batch, store.Allowed), result(strict, store.Failed)}, "failed"},
		"stopped before it was done": {single, nil, "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, c := testTraces(t)
			observer := o.Observe(workflow.Observer{Began: func(workflow.Task) {}, Recorded: func(store.Record) {}, Ended: func(store.Run) {}})
			observer.Began(test.task)
			for _, r := range test.records {
				observer.Recorded(r)
			}
			<-o.Flush(t.Context(), zerolog.Nop())
			var got []string
			for _, s := range c.Spans() {
				got = append(got, s.Attributes["addon_operator.outcome"]+" "+strconv.FormatBool(s.Failed))
			}
			want := test.want + " " + strconv.FormatBool(slices.Contains([]string{"failed", "allowed"}, test.want))
			if d := cmp.Diff([]string{want}, got); d != "" {
				t.Errorf("outcomes of spans (-want +got):\n%s", d)
			}
		})
	}
}

func TestSpansAreLinkedToOtherRuns(t *testing.T) {
	t.Parallel()
	o, c := testTraces(t)
	batch, writer := testAttempt(2, true, 4, 5, 5, 6), testAttempt(1, false, 1)
	object := kube.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "a"}
	o.Write()(writer, object)("70")
	o.began(batch)
	o.recorded(result(batch, store.Done))
	for run, cause := range map[uint64]store.Cause{
		4: {Object: "configmaps ns/a", ResourceVersion: "70", Event: "Modified", Manager: "addon-operator or kubectl"},
		5: {Object: "configmaps ns/a", ResourceVersion: "71", Event: "Modified", Manager: "addon-operator"},
		6: {Object: "configmaps ns/a", ResourceVersion: "70", Event: "Modified", Manager: "kubectl"}, // kubectl wrote version 70; a later write of the hook changed nothing and returned 70 too
	} {
		w := store.Run{ID: run, Trigger: "event", Cause: cause}
		if run == 5 {
			w.Joined = 4
		}
		o.ended(w)
	}
	<-o.Flush(t.Context(), zerolog.Nop())
	id := func(run uint64) string { return o.tracer.TraceID(run) }
	want := map[string][]string{"batch of 4": {"batch " + id(5), "batch " + id(6)}, "4": {"cause " + id(1)}, "5": {"joined " + id(4)}, "6": nil}
	got := map[string][]string{}
	for _, s := range c.Spans() {
		name := s.Attributes["addon_operator.run"]
		if s.Parent != "" {
			name = "batch of " + name
		}
		got[name] = nil
		for _, l := range s.Links {
			got[name] = append(got[name], l.Why+" "+l.Trace)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("links (-want +got):\n%s", d)
	}
}

// The API server sends the event of an object before the response to the request that wrote the object.
func TestARunIsLinkedToTheRequestWhoseResponseArrivesLater(t *testing.T) {
	t.Parallel()
	w := newWrittenVersions()
	object, got := kube.Ref{Namespace: "ns", Name: "a"}, []string{}
	find := func(name, version string) {
		w.find(store.Cause{Object: "ConfigMap ns/" + name, ResourceVersion: version, Manager: "addon-operator"}, func(by tracing.Ref, found bool) {
			got = append(got, fmt.Sprintf("%s %s: %d %t", name, version, by.Run, found))
		})
	}
	first, second := w.begin(object, tracing.Ref{Run: 1}), w.begin(object, tracing.Ref{Run: 2})
	steps := []struct {
		do   func()
		want []string
	}{
		{func() { find("b", "70") }, []string{"b 70: 0 false"}},
		{func() { find("a", "70"); find("a", "71"); find("a", "72") }, nil},
		{func() { second("71") }, []string{"a 71: 2 true"}},
		{func() { find("a", "71") }, []string{"a 71: 2 true"}},
		{func() { first("70") }, []string{"a 70: 1 true", "a 72: 0 false"}},
		{func() { find("a", "73") }, []string{"a 73: 0 false"}},
		{func() { w.begin(object, tracing.Ref{Run: 3})("") }, nil},
	}
	for i, step := range steps {
		got = nil
		if step.do(); !slices.Equal(got, step.want) {
			t.Errorf("step %d: got %q, want %q", i+1, got, step.want)
		}
	}
	if len(w.writing) > 0 {
		t.Errorf("requests that have not ended: %v", w.writing)
	}
}

func TestTheOldestWrittenVersionsAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWrittenVersions()
	object := kube.Ref{Name: "a"}
	for n := range mostWritten + 10 {
		w.begin(object, tracing.Ref{Run: uint64(n)})(strconv.Itoa(n)) //nolint:gosec // a small number
	}
	known := func(n int) (is bool) {
		w.find(store.Cause{Object: "Node a", ResourceVersion: strconv.Itoa(n), Manager: "addon-operator"}, func(by tracing.Ref, found bool) {
			is = found && by.Run == uint64(n) //nolint:gosec // a small number
		})
		return is
	}
	if known(9) || !known(10) || !known(mostWritten+9) || len(w.spans) != mostWritten {
		t.Errorf("9: %t, 10: %t, the last: %t, %d in all", known(9), known(10), known(mostWritten+9), len(w.spans))
	}
}

func TestAFailingCollectorIsLoggedOnceAMinuteWithoutSecrets(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	now := time.Date(2026, 11, 25, 2, 0, 0, 0, time.UTC)
	failed := complain(zerolog.New(&log), func() time.Time { return now })
	for range 3 {
		failed(errors.New("collector refused: authorization: Bearer tok-123456"))
		now = now.Add(30 * time.Second)
	}
	if got := strings.Count(log.String(), "collector refused"); got != 2 || strings.Contains(log.String(), "tok-123456") {
		t.Errorf("%d lines in 60 s, want 2 without the token:\n%s", got, &log)
	}
}
