package tracing

import (
	"testing"

	"go.opentelemetry.io/otel/trace"
)

// TestIdentifiersStayTheSame compares identifiers with constants. The identifiers must not change, because a new
// version of the operator continues the traces of runs that began in an earlier version.
func TestIdentifiersStayTheSame(t *testing.T) {
	t.Parallel()
	s := ids("0f8fad5b-d9cb-469f-a165-70867728950e")
	attempt := Ref{Run: 7, Key: "3-12 module-beforehelm web 2026-11-25T02:00:00.000000001Z"}
	for what, test := range map[string]struct{ got, want string }{
		"trace of the run":    {s.trace(7).String(), "77406475add018d8fbe30d7923fd8f97"},
		"span of the run":     {s.span(Ref{Run: 7}).String(), "bdb115c66c17becd"},
		"span of the attempt": {s.span(attempt).String(), "994254a78a7fdcf9"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %s, want %s", what, test.got, test.want)
		}
	}
}

func TestIdentifiersDifferBetweenStoresRunsAndSpans(t *testing.T) {
	t.Parallel()
	traces, spans := map[trace.TraceID]string{}, map[trace.SpanID]string{}
	for _, store := range []ids{"a", "b", ""} {
		for _, run := range []uint64{0, 1, 1 << 40} {
			id := store.trace(run)
			if other := traces[id]; other != "" || !id.IsValid() {
				t.Errorf("run %d of store %q has the trace %s, as %s has", run, store, id, other)
			}
			traces[id] = "another run"
			for _, key := range []string{"", "1-2 a b", "1-2 a", `1-2 "a b`} {
				id := store.span(Ref{Run: run, Key: key})
				if other := spans[id]; other != "" || !id.IsValid() {
					t.Errorf("span %q of run %d of store %q is %s, as another one", key, run, store, id)
				}
				spans[id] = "another span"
			}
		}
	}
}
