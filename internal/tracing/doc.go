// Package tracing sends OpenTelemetry spans to a collector.
//
// The identifiers of traces and spans are hashes of durable data: the id of the store, the number of a run, and a key
// of the span within the run. So a process that continues a run of an earlier process also continues the trace of the
// run. The store contains no data about traces.
//
// [Tracer.Send] never waits for the collector. Spans wait in memory in a queue of limited length, and
// are dropped while the queue is full.
package tracing
