// Package span measures the parts of an attempt that take time, such as a Helm action or a write to
// the API server.
//
// The [Recorder] of the parts is in the context. So a package that measures its work depends neither on the engine
// nor on tracing. If the context has no Recorder, nothing is measured.
package span

import (
	"context"
	"maps"
	"strconv"
	"sync/atomic"
	"time"
)

// Attributes describe a part. Values are strings or ints. They contain no content of objects, charts or values of
// modules, because the content can be secret.
type Attributes map[string]any

// A Part is a completed part of an attempt, such as one Helm action.
type Part struct {
	// Number identifies the part within the attempt: "2", or "2.1" for the first part of part 2.
	Number string
	// Within is the number of the part that contains this part; empty if the attempt itself contains it.
	Within string
	// Name is the kind of work. Only a few different names are used, so that parts can be grouped by name.
	Name         string
	Began, Ended time.Time
	Attributes   Attributes
	// Err is nil if the part succeeded.
	Err error
}

// A Recorder records the parts of one attempt.
type Recorder struct {
	Clock func() time.Time
	// Ended is called at the end of each part, possibly by several goroutines at the same time. It must not block.
	Ended func(Part)
}

// contextKey is the context key for the value of type *within in a context.
type contextKey struct{}

// within describes the attempt, or the part of an attempt, to which a context belongs.
type within struct {
	recorder Recorder
	number   string // empty for the attempt
	begun    atomic.Int64
}

// With returns a context for an attempt. The recorder r records the parts that begin in this context.
func With(ctx context.Context, r Recorder) context.Context {
	return context.WithValue(ctx, contextKey{}, &within{recorder: r})
}

// A Span is a part of an attempt, from the start to the end of the part. A nil Span records nothing; it belongs to a
// context without a Recorder.
type Span struct {
	recorder Recorder
	part     Part
}

// Start begins a part of the attempt of ctx. The caller must do the work of the part with the returned context, so
// that parts that begin during the work are nested in the part.
func Start(ctx context.Context, name string, attributes Attributes) (context.Context, *Span) {
	around, ok := ctx.Value(contextKey{}).(*within)
	if !ok {
		return ctx, nil
	}
	number := strconv.FormatInt(around.begun.Add(1), 10)
	if around.number != "" {
		number = around.number + "." + number
	}
	s := &Span{recorder: around.recorder, part: Part{
		Number: number, Within: around.number, Name: name, Began: around.recorder.Clock(), Attributes: Attributes{},
	}}
	maps.Copy(s.part.Attributes, attributes)
	return context.WithValue(ctx, contextKey{}, &within{recorder: around.recorder, number: number}), s
}

// Set sets an attribute of the part. It is for attributes that are not yet known at the call of [Start].
func (s *Span) Set(name string, value any) {
	if s != nil {
		s.part.Attributes[name] = value
	}
}

// End ends the part. The argument err is the error of the work of the part, or nil. Call End once.
func (s *Span) End(err error) {
	if s != nil {
		s.part.Ended, s.part.Err = s.recorder.Clock(), err
		s.recorder.Ended(s.part)
	}
}
