// Package jq runs the jq filters and patches of hooks. A filter is a compiled program. It is applied to a
// JSON text, and its outputs become one JSON text, the result. It has no access to the environment, reads
// no further input and imports no modules.
//
// A filter cannot exhaust the memory of this process. A program that only selects and arranges parts of
// its input runs in this process, within a budget of steps that limits its memory. Every other program
// runs in a *helper*, a process of the same executable with a memory limit. A helper is killed and
// replaced when a filter exceeds its memory or its time. Helpers are started when they are first needed.
// The size of a program, its outputs and the text of its result are limited in both cases.
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
	// maxText limits the size of a program in bytes. Compilation recurses with the nesting of the
	// program, and a stack overflow ends the process.
	maxText = 64 << 10
	// maxTime limits the CPU time of one run, so that no filter fails on a loaded machine. maxHere
	// limits the wall-clock time of a plain program in this process, whose CPU time cannot be
	// measured separately; a helper runs programs that take longer. maxOwn limits the time of a
	// program of the operator.
	maxTime = 5 * time.Second
	maxHere = time.Second
	maxOwn  = time.Minute
	// maxOutputs limits the outputs of one run.
	maxOutputs = 10_000
	// maxResult limits the size of a result in bytes, maxDepth its nesting, to the depth that other
	// JSON parsers support.
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

// Compile compiles a program. It returns nil for an empty text. The error does not repeat the text,
// because it may contain secrets.
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

// Apply runs the filter on an input. The result is null if the program has no output, the output if
// it has one, and an array of all outputs if it has more. Equal results have equal texts. A nil
// filter returns nil. The error of a failing filter is a *FilterError; any other error means that
// the filter was interrupted or not run.
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

// here runs the filter in this process. A plain program that exceeds its budget returns errSpent.
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

// failed adds the filter's text to a FilterError in err.
func failed(text string, err error) error {
	if failure := (*FilterError)(nil); errors.As(err, &failure) {
		named := *failure
		named.filter = text
		return &named
	}
	return err
}
