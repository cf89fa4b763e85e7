package tracing

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"go.opentelemetry.io/otel/trace"
)

// A Ref names a span. It consists of durable data only.
type Ref struct {
	// Run is the number of the run, which is the trace.
	Run uint64
	// Key identifies the span within the run. It is empty for the span of the run itself.
	Key string
}

// ids derives the identifiers of traces and spans of the store with this id.
type ids string

// trace returns the identifier of the trace of run.
func (s ids) trace(run uint64) (id trace.TraceID) {
	s.hash(id[:], "trace", Ref{Run: run})
	return id
}

// span returns the identifier of the span r.
func (s ids) span(r Ref) (id trace.SpanID) {
	s.hash(id[:], "span", r)
	return id
}

// hash fills id with the beginning of a hash. An identifier of zeros is invalid, so the last byte of
// such a hash is changed.
func (s ids) hash(id []byte, kind string, r Ref) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %d %q", kind, string(s), r.Run, r.Key))
	copy(id, sum[:])
	if bytes.Count(id, []byte{0}) == len(id) {
		id[len(id)-1] = 1
	}
}

// chosenKey is the key of the identifiers that a context chooses for the next span.
type chosenKey struct{}

// chosen are the identifiers of the next span.
type chosen struct {
	trace trace.TraceID
	span  trace.SpanID
}

// withIDs returns a context in which a span gets these identifiers.
func withIDs(ctx context.Context, c chosen) context.Context {
	return context.WithValue(ctx, chosenKey{}, c)
}

// chooser is a generator that returns the identifiers that the context chooses.
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
