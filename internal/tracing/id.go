package tracing

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"go.opentelemetry.io/otel/trace"
)

// A Ref identifies a span of a store by data that is stored, so that another process can compute the same identifier.
type Ref struct {
	// Run is the number of the run. All spans of a run form one trace.
	Run uint64
	// Key identifies the span within the run. It is empty for the span of the run itself.
	Key string
}

// ids is the id of a store. Its methods compute the identifiers of the traces and spans of the store.
type ids string

// trace returns the identifier of the trace of run.
func (s ids) trace(run uint64) (id trace.TraceID) {
	s.hash(id[:], "trace", Ref{Run: run})
	return id
}

// span returns the identifier of the span to which r refers.
func (s ids) span(r Ref) (id trace.SpanID) {
	s.hash(id[:], "span", r)
	return id
}

// hash fills id with the beginning of a hash. If these bytes are all zero, hash sets the last byte to 1, because an
// identifier of only zeros is invalid.
func (s ids) hash(id []byte, kind string, r Ref) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %d %q", kind, string(s), r.Run, r.Key))
	copy(id, sum[:])
	if bytes.Count(id, []byte{0}) == len(id) {
		id[len(id)-1] = 1
	}
}

// chosenKey is the context key under which a context holds the identifiers for the next span.
type chosenKey struct{}

// chosen has the identifiers for the next span and its trace.
type chosen struct {
	trace trace.TraceID
	span  trace.SpanID
}

// withIDs returns a context in which the next span has the identifiers c.
func withIDs(ctx context.Context, c chosen) context.Context {
	return context.WithValue(ctx, chosenKey{}, c)
}

// chooser is an ID generator for the OpenTelemetry library. It returns the identifiers that the context holds.
type chooser struct{}

// NewIDs returns the identifiers of a new trace and its first span.
func (chooser) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	c, _ := ctx.Value(chosenKey{}).(chosen)
	return c.trace, c.span
}

// NewSpanID returns the identifier of a span in an existing trace.
func (chooser) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	c, _ := ctx.Value(chosenKey{}).(chosen)
	return c.span
}
