// Package jq runs the jq filters and patches of hooks. A filter is a compiled program. It is
// applied to a JSON text, and its outputs become one JSON text, the result. A filter cannot read
// environment variables or further inputs, and cannot import modules.
//
// A filter cannot exhaust the memory of this process. A *plain* program, which only selects and
// arranges parts of its input, runs in this process. A limit of its steps limits its memory. Every
// other program runs in a *helper*, a process of the same executable with a memory limit. If a
// filter exceeds the memory or the time of a helper, the helper ends and is replaced. Helpers are
// started when they are first needed. In both cases, the size of the program, the number of its
// outputs and the size of its result are limited.
package jq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/itchyny/gojq"
)

const (
	// maxText is the maximum size of a program in bytes. The compiler is recursive, and without
	// this limit, a deeply nested program could overflow the stack, which ends the process.
	maxText = 64 << 10
	// maxTime is the maximum CPU time of a run in a helper. The limit is CPU time, so that no
	// filter fails because the machine is busy. maxHere is the maximum wall-clock time of a plain
	// program in this process, where the CPU time of a program cannot be measured. If a plain
	// program takes longer, it runs again in a helper. maxOwn is the maximum wall-clock time of a
	// program of the operator.
	maxTime = 5 * time.Second
	maxHere = time.Second
	maxOwn  = time.Minute
	// maxOutputs is the maximum number of outputs of one run.
	maxOutputs = 10_000
	// maxResult is the maximum size of a result in bytes. maxDepth is its maximum nesting, which is
	// the depth that other JSON parsers support.
	maxResult = 16 << 20
	maxDepth  = 10_000
)

// Filter is a compiled program. It is safe for concurrent use. A nil filter means no filter.
type Filter struct {
	text  string
	code  *gojq.Code
	plain plain
	own   bool
}

// Compile compiles a program. For an empty text, it returns nil. The error does not contain the
// text, because the text may contain secrets.
func Compile(text string) (*Filter, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxText {
		return nil, fmt.Errorf("jq filter has %d bytes, more than the limit of %d bytes", len(text), maxText)
	}
	query, err := gojq.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("is no jq filter: %w", err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, fmt.Errorf("jq filter does not compile: %w", err)
	}
	return &Filter{text: text, code: code, plain: classify(query)}, nil
}

// CompileOwn compiles a program of the operator, which always runs in this process.
func CompileOwn(text string) (*Filter, error) {
	f, err := Compile(text)
	if f != nil {
		f.own = true
	}
	return f, err
}

// String returns the program's text.
func (f *Filter) String() string {
	if f == nil {
		return ""
	}
	return f.text
}

// Apply runs the filter on an input. If the program has no output, the result is null. If it has
// one output, the result is this output. If it has more, the result is an array of all outputs.
// Equal results have equal texts. For a nil filter, the result is nil. If the filter fails, the
// error is a *FilterError. Any other error means that the filter was interrupted or not run.
func (f *Filter) Apply(ctx context.Context, in *Input) (json.RawMessage, error) {
	if f == nil {
		return nil, nil
	}
	if f.own || f.plain.fits(len(in.text)) {
		tree, err := in.decoded()
		if err != nil {
			return nil, err
		}
		result, err := f.here(ctx, tree)
		if !errors.Is(err, errSpent) {
			return result, failed(f.text, err)
		}
	}
	result, err := helpers.apply(ctx, f.text, in.text)
	return result, failed(f.text, err)
}

// here runs the filter in this process. If a plain program exceeds its steps or its time, the error
// is errSpent.
func (f *Filter) here(ctx context.Context, tree any) (json.RawMessage, error) {
	if f.own {
		bounded, cancel := context.WithTimeoutCause(ctx, maxOwn, errEndless)
		defer cancel()
		return evaluate(bounded, f.code, tree)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, maxHere, errSpent)
	defer cancel()
	return evaluate(newBudget(bounded), f.code, tree)
}

// failed returns err. If err is a *FilterError, failed adds the filter's text.
func failed(text string, err error) error {
	if failure := (*FilterError)(nil); errors.As(err, &failure) {
		named := *failure
		named.filter = text
		return &named
	}
	return err
}
