package tracing

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

func TestEmptyAttributesAreOmitted(t *testing.T) {
	t.Parallel()
	got := map[string]any{}
	for _, a := range (Attributes{
		"text": "x", "empty": "", "invalid": "a\xffb", "n": 7, "zero": 0, "yes": true, "no": false,
		"list": []string{"a", "b"}, "no list": []string(nil), "unknown": 1.5, "nil": nil,
	}).list() {
		got[string(a.Key)] = a.Value.AsInterface()
	}
	want := map[string]any{"text": "x", "invalid": "a?b", "n": int64(7), "yes": true, "list": []string{"a", "b"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if all := Attributes(nil).list(); len(all) != 0 {
		t.Errorf("of no attributes: %v", all)
	}
	if all := (Attributes{"n": -1}).list(); len(all) != 1 || all[0] != attribute.Int("n", -1) {
		t.Errorf("of a negative number: %v", all)
	}
}

func TestHeadersOfTheStandardVariablesAreDecoded(t *testing.T) {
	for name, test := range map[string]struct {
		traces, all string
		want        map[string]string
	}{
		"none":                         {"", "", map[string]string{}},
		"names in lower case":          {"", "Authorization=Bearer%20a , X-Team = b%2Cc", map[string]string{"authorization": "Bearer a", "x-team": "b,c"}},
		"those of traces replace all":  {"a=1", "b=2", map[string]string{"a": "1"}},
		"a value with an equals sign":  {"", "a=b=c", map[string]string{"a": "b=c"}},
		"an empty value":               {"", "a=", map[string]string{"a": ""}},
		"the last one of a name":       {"", "a=1,A=2", map[string]string{"a": "2"}},
		"invalid entries are left out": {"", "a,=b, ,c=%zz,d=1", map[string]string{"d": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", test.traces)
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", test.all)
			if diff := cmp.Diff(test.want, standardHeaders()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheFirstStandardEndpointThatIsSetIsUsed(t *testing.T) {
	for name, test := range map[string]struct{ traces, all, variable, endpoint string }{
		"none":         {"", " ", "", ""},
		"for all":      {"", " http://a:1 ", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1"},
		"for traces":   {"http://b:2", "http://a:1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b:2"},
		"blank traces": {"\t", "http://a:1", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", test.traces)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", test.all)
			if variable, endpoint := standardEndpoint(); variable != test.variable || endpoint != test.endpoint {
				t.Errorf("%q in %q", endpoint, variable)
			}
		})
	}
}

func TestTheProtocolDependsOnTheSourceOfTheEndpoint(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		collector Collector
		want      string
	}{
		{Collector{Endpoint: "a:1"}, GRPC}, {Collector{Endpoint: "a:1", Protocol: HTTP}, HTTP}, {Collector{}, HTTP}, {Collector{Protocol: GRPC}, GRPC},
	} {
		if got := test.collector.protocol(); got != test.want {
			t.Errorf("%+v: %s, want %s", test.collector, got, test.want)
		}
	}
}

func TestAnEndpointIsShownWithoutCredentials(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]string{
		"http://collector:4317/a":              "http://collector:4317/a",
		"https://ann:hunter2@collector:4317":   "(redacted)@collector:4317",
		"ann:hunter2@collector":                "(redacted)@collector",
		"http://collector/?token=hunter2&a=b":  "http://collector/?token=(redacted)",
		"https://ann:hunter2":                  "https://ann:(redacted)",
		"https://a@b:hunter2@collector:4317/x": "(redacted)@collector:4317/x",
	} {
		if got := shown(endpoint); got != want {
			t.Errorf("%s is shown as %s, want %s", endpoint, got, want)
		}
	}
}

func TestASpanGetsTheIdentifiersOfItsContext(t *testing.T) {
	t.Parallel()
	s := ids("store")
	c := chosen{s.trace(7), s.span(Ref{Run: 7, Key: "a"})}
	ctx := withIDs(t.Context(), c)
	if traceID, spanID := (chooser{}).NewIDs(ctx); traceID != c.trace || spanID != c.span {
		t.Errorf("a new trace is %s with the span %s, want %+v", traceID, spanID, c)
	}
	if spanID := (chooser{}).NewSpanID(ctx, trace.TraceID{1}); spanID != c.span {
		t.Errorf("a span of an existing trace is %s, want %s", spanID, c.span)
	}
	nested := withIDs(context.WithoutCancel(ctx), chosen{s.trace(8), s.span(Ref{Run: 8})})
	if traceID, _ := (chooser{}).NewIDs(nested); traceID != s.trace(8) {
		t.Errorf("the nested context has the trace %s", traceID)
	}
}
