package tracing_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/e2e/collector"
	"addon-operator/internal/tracing"
)

var began = time.Date(2026, 11, 25, 2, 0, 0, 0, time.UTC)

// newTracer returns a tracer for a store with the id "s".
func newTracer(t *testing.T, to tracing.Collector) *tracing.Tracer {
	t.Helper()
	tracer, err := tracing.New(t.Context(), tracing.Options{Collector: to, Store: "s", Process: tracing.Attributes{"service.name": "addon-operator"}})
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

// span returns a span that lasted one second.
func span(run uint64, key, name string) tracing.Span {
	return tracing.Span{Ref: tracing.Ref{Run: run, Key: key}, Name: name, Began: began, Ended: began.Add(time.Second)}
}

func TestSpansReachACollector(t *testing.T) {
	for _, test := range []struct {
		name string
		to   func(c *collector.Collector) tracing.Collector
		env  func(c *collector.Collector) map[string]string
	}{
		{name: "address", to: func(c *collector.Collector) tracing.Collector {
			return tracing.Collector{Endpoint: c.GRPC, Token: "tok-1\n"}
		}},
		{name: "URL", to: func(c *collector.Collector) tracing.Collector {
			return tracing.Collector{Endpoint: "http://" + c.GRPC, Token: "tok-1"}
		}},
		{name: "address of HTTP", to: func(c *collector.Collector) tracing.Collector {
			return tracing.Collector{Endpoint: c.HTTP, Protocol: tracing.HTTP, Token: "tok-1"}
		}},
		{name: "URL of HTTP", to: func(c *collector.Collector) tracing.Collector {
			return tracing.Collector{Endpoint: "http://" + c.HTTP, Protocol: tracing.HTTP, Token: "tok-1"}
		}},
		{name: "URL of HTTP with a path", to: func(c *collector.Collector) tracing.Collector {
			return tracing.Collector{Endpoint: "http://" + c.HTTP + "/v1/traces", Protocol: tracing.HTTP, Token: "tok-1"}
		}},
		{name: "standard variables", env: func(c *collector.Collector) map[string]string {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + c.HTTP, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20tok-1"}
		}},
		{name: "standard variables, gRPC", to: func(*collector.Collector) tracing.Collector {
			return tracing.Collector{Protocol: tracing.GRPC}
		}, env: func(c *collector.Collector) map[string]string {
			return map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://" + c.GRPC, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20tok-1"}
		}},
		{name: "endpoint before standard variables", to: func(c *collector.Collector) tracing.Collector {
			return tracing.Collector{Endpoint: c.GRPC, Token: "tok-1"}
		}, env: func(*collector.Collector) map[string]string {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20other"}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := collector.Start(t)
			if test.env != nil {
				for name, value := range test.env(c) {
					t.Setenv(name, value)
				}
			}
			var to tracing.Collector
			if test.to != nil {
				to = test.to(c)
			}
			if err := to.Check(field); err != nil || !to.Enabled() {
				t.Fatalf("%+v: %v", to, err)
			}
			tracer := newTracer(t, to)
			tracer.Send(span(1, "", "start"))
			if err := tracer.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			spans := c.Spans()
			if len(spans) != 1 || spans[0].Name != "start" || spans[0].Trace != tracer.TraceID(1) || spans[0].Process["service.name"] != "addon-operator" {
				t.Errorf("the collector has %+v", spans)
			}
			if d := cmp.Diff([]string{"Bearer tok-1"}, c.Tokens()); d != "" {
				t.Errorf("tokens (-want +got):\n%s", d)
			}
		})
	}
}

func TestASpanHasItsParentItsResultAndItsLinks(t *testing.T) {
	t.Parallel()
	c := collector.Start(t)
	tracer := newTracer(t, tracing.Collector{Endpoint: c.GRPC})
	run, attempt := span(1, "", "start"), span(1, "1-1 a", "a")
	attempt.Failed, attempt.Error = true, "exit 3\xff"
	attempt.Attributes = tracing.Attributes{"module": "web", "attempt": 2, "facts": []string{"a", "b"}, "hook": "", "bad": "\xff", "again": true}
	attempt.Links = []tracing.Link{{To: tracing.Ref{Run: 2}, Why: "batch"}}
	other := span(2, "", "event")
	for _, s := range []tracing.Span{attempt, run, other} {
		tracer.Send(s)
	}
	traceparent := tracer.TraceParent(attempt.Ref)
	if err := tracer.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string]collector.Span{}
	for _, s := range c.Spans() {
		s.Process = nil
		got[s.Name] = s
	}
	want := map[string]collector.Span{
		"start": {Trace: tracer.TraceID(1), ID: got["a"].Parent, Attributes: map[string]string{}},
		"a": {
			Trace: tracer.TraceID(1), ID: got["a"].ID, Parent: got["start"].ID, Failed: true, Error: "exit 3?",
			Attributes: map[string]string{"module": "web", "attempt": "2", "facts": "a,b", "bad": "?", "again": "true"},
			Links:      []collector.Link{{Trace: tracer.TraceID(2), ID: got["event"].ID, Why: "batch"}},
		},
		"event": {Trace: tracer.TraceID(2), ID: got["event"].ID, Attributes: map[string]string{}},
	}
	for name, s := range want {
		s.Name, s.Nanoseconds = name, time.Second.Nanoseconds()
		want[name] = s
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if want := fmt.Sprintf("00-%s-%s-01", got["a"].Trace, got["a"].ID); traceparent != want {
		t.Errorf("traceparent %s, want %s", traceparent, want)
	}
}

// TestRunsThatAreNotSampledAreNotSent uses the standard sampler that decides by the identifier of the trace. With
// this sampler, all processes must sample the same runs.
func TestRunsThatAreNotSampledAreNotSent(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
	c := collector.Start(t)
	var sampled []string
	for range 2 { // two processes
		tracer := newTracer(t, tracing.Collector{Endpoint: c.GRPC})
		var now []string
		for run := uint64(1); run <= 20; run++ {
			attempt := span(run, "1-1 a", "a")
			tracer.Send(attempt)
			id, flags := tracer.TraceID(run), "-01"
			if id == "" {
				flags = "-00"
			} else {
				now = append(now, id)
			}
			if traceparent := tracer.TraceParent(attempt.Ref); !strings.HasSuffix(traceparent, flags) {
				t.Errorf("run %d with trace %q: traceparent %s", run, id, traceparent)
			}
		}
		if err := tracer.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(now) == 0 || len(now) == 20 || sampled != nil && !slices.Equal(now, sampled) {
			t.Fatalf("sampled %v, and before %v", now, sampled)
		}
		sampled = now
	}
	var sent []string
	for _, s := range c.Spans() {
		sent = append(sent, s.Trace)
	}
	if d := cmp.Diff(append(slices.Clone(sampled), sampled...), sent); d != "" {
		t.Errorf("sent traces (-want +got):\n%s", d)
	}
}

// TestNothingWaitsForACollectorThatHangs sends many more spans than fit in the queue. The test ends only if no call
// waits for the collector.
func TestNothingWaitsForACollectorThatHangs(t *testing.T) {
	t.Parallel()
	c := collector.StartHanging(t)
	tracer := newTracer(t, tracing.Collector{Endpoint: c.GRPC})
	for run := range uint64(10_000) {
		tracer.Send(span(run, "", "start"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracer.Stop(ctx); err == nil {
		t.Error("all spans are sent, want an error")
	}
}

func TestStandardVariablesNameTheProcess(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "addons-of-prod")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=prod")
	c := collector.Start(t)
	tracer := newTracer(t, tracing.Collector{Endpoint: c.GRPC})
	tracer.Send(span(1, "", "start"))
	if err := tracer.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := c.Spans()
	if len(spans) != 1 || spans[0].Process["service.name"] != "addons-of-prod" || spans[0].Process["deployment.environment"] != "prod" {
		t.Errorf("the collector has %+v", spans)
	}
}

// TestTraceparentIsValid checks the format that W3C Trace Context requires.
func TestTraceparentIsValid(t *testing.T) {
	t.Parallel()
	tracer := newTracer(t, tracing.Collector{Endpoint: "127.0.0.1:1"})
	valid := regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`)
	for _, r := range []tracing.Ref{{Run: 1}, {Run: 1 << 60, Key: "1-1 a"}} {
		if got := tracer.TraceParent(r); !valid.MatchString(got) {
			t.Errorf("%+v: %s", r, got)
		}
	}
}
