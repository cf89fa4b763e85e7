// Package jq runs the jq filters and patches that hooks contain. A filter is a compiled program. It is applied to a JSON text,
// and its outputs become one JSON text, the result. It does not see the environment, reads no further input and imports no
// modules.
//
// A filter cannot take this process along. A program that only selects and arranges parts of its input runs in this process,
// within a budget of steps that bounds its memory. Every other program runs in a *helper*, a process of the same executable
// with a memory limit, which is killed and replaced when a filter exceeds its memory or its time. Helpers are started when they
// are first needed. The length of a program, its outputs and the text of its result are bounded in both.
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
	// maxText bounds a program in bytes. Compiling recurses with its nesting, and a stack that overflows ends the process.
	maxText = 64 << 10
	// maxTime bounds the CPU time of one run, so that a loaded machine fails no filter. maxHere bounds the time of a plain
	// program in this process, which cannot count its CPU time: a helper runs what takes longer. maxOwn bounds the time of a
	// program of the operator.
	maxTime = 5 * time.Second
	maxHere = time.Second
	maxOwn  = time.Minute
	// maxOutputs bounds the outputs of one run.
	maxOutputs = 10_000
	// maxResult bounds the text of a result in bytes, maxDepth its nesting, as deep as other readers of JSON follow.
	maxResult = 16 << 20
	maxDepth  = 10_000
)

// Filter is a compiled program. It may be used from many goroutines at once. A nil filter is none.
type Filter struct {
	text  string
	code  *gojq.Code
	plain plain
	own   bool
}

// Compile makes a program ready to run. An empty text gives nil. The error does not repeat the text, as there may be secrets
// in it.
func Compile(text string) (*Filter, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxText {
		return nil, fmt.Errorf("jq filter has %d bytes, at most %d are taken", len(text), maxText)
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

// CompileOwn is Compile for a program of the operator itself, which always runs in this process.
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

// Apply runs the filter on an input. The result is null if the program has no output, the output if it has one, and an array of
// all outputs if it has more. The same result is always the same text. A nil filter gives nil. The error of a filter that fails
// is a *FilterError; any other error means that the filter was not run to its end.
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

// here runs the filter in this process. The error of a plain program that exceeds its budget is errSpent.
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

// failed adds the filter's text to the failure in err.
func failed(text string, err error) error {
	if failure := (*FilterError)(nil); errors.As(err, &failure) {
		named := *failure
		named.filter = text
		return &named
	}
	return err
}
