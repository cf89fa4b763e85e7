// Package jq runs the jq filters and patches of hooks. A filter is a compiled jq program. It is applied to a JSON
// text, the input. Its outputs become one JSON text, the result. A filter cannot read environment variables or further
// inputs, and cannot import modules.
//
// A filter of a hook cannot use up the memory of this process. It runs in a *helper*, which is a process of the same
// executable with a memory limit. A helper interrupts a filter that does not end in time. If the filter cannot be
// interrupted, or needs more memory than a helper may have, the helper ends and is replaced. Helpers are started when
// they are first needed. Only a *plain* program, which only selects and arranges parts of its input, runs in this
// process if its input is small. The number of its steps is limited, and this also limits its memory. If it exceeds a
// limit, it runs again in a helper. For all programs, the size of the program, the number of its outputs and the size
// of its result are limited.
package jq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/itchyny/gojq"
)

const (
	// maxText is the maximum size of a program in bytes. Because the compiler is recursive, a program that is nested
	// too deeply could overflow the stack and so end this process. The limit prevents that.
	maxText = 64 << 10
	// maxTime is the maximum CPU time of a run in a helper. It is not wall-clock time, so no filter fails because the
	// machine is busy. maxHere is the maximum wall-clock time of a plain program in this process, where the CPU time
	// of one program cannot be measured. If a plain program takes longer than maxHere, it runs again in a helper.
	// maxOwn is the maximum wall-clock time of a program of the operator.
	maxTime = 5 * time.Second
	maxHere = time.Second
	maxOwn  = time.Minute
	// maxOutputs is the maximum number of outputs of one run.
	maxOutputs = 10_000
	// maxResult is the maximum size of a result in bytes. maxDepth is the maximum depth of nesting of a result; other
	// JSON parsers support the same depth.
	maxResult = 16 << 20
	maxDepth  = 10_000
)

// Filter is a compiled jq program. It is safe for concurrent use. A nil *Filter means that there is no filter.
type Filter struct {
	text  string
	code  *gojq.Code
	plain plain
	own   bool
}

// SyntaxError means that a text is no jq program. The error quotes at most one token of the text.
type SyntaxError struct {
	err error
	// Public is the error without the token, which can be a string literal.
	Public string
}

func (s *SyntaxError) Error() string { return s.err.Error() }

// newSyntaxError returns the error of a text that gojq cannot parse because of err.
func newSyntaxError(err error) *SyntaxError {
	const what = "is no jq filter: "
	public := what + "syntax error"
	if at := (*gojq.ParseError)(nil); errors.As(err, &at) {
		reason, _, quotes := strings.Cut(err.Error(), ` "`)
		if public = what + reason; quotes {
			public += fmt.Sprintf(" that ends at byte %d", at.Offset)
		}
	}
	return &SyntaxError{fmt.Errorf(what+"%w", err), public}
}

// Compile compiles the jq program in text. If text is empty, it returns nil. If text has a syntax error, the error is a
// *SyntaxError. Any other error means that text is too long or does not compile, for example because it calls a
// function that does not exist.
func Compile(text string) (*Filter, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxText {
		return nil, fmt.Errorf("jq filter has %d bytes, more than the limit of %d bytes", len(text), maxText)
	}
	query, err := gojq.Parse(text)
	if err != nil {
		return nil, newSyntaxError(err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, fmt.Errorf("jq filter does not compile: %w", err)
	}
	return &Filter{text: text, code: code, plain: classify(query)}, nil
}

// CompileOwn compiles a jq program of the operator itself, which always runs in this process.
func CompileOwn(text string) (*Filter, error) {
	f, err := Compile(text)
	if f != nil {
		f.own = true
	}
	return f, err
}

// String returns the program as text, or "" if f is nil.
func (f *Filter) String() string {
	if f == nil {
		return ""
	}
	return f.text
}

// Apply applies the filter to an input, and returns the result as JSON. If the program has no output, the result is
// null. If it has one output, the result is this output. If it has several outputs, the result is an array of them.
// Equal results have equal texts, except that each number keeps its notation, such as 1 or 1.0. If f is nil, the result
// is nil. If the filter fails, the error is a *FilterError. Any other error means that the filter was interrupted or
// could not be run.
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

// here runs the filter in this process. If a plain program needs more than maxSteps steps or takes longer than maxHere,
// the error is errSpent.
func (f *Filter) here(ctx context.Context, tree any) (json.RawMessage, error) {
	if f.own {
		bounded, cancel := context.WithTimeoutCause(ctx, maxOwn, errLong)
		defer cancel()
		return evaluate(bounded, f.code, tree)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, maxHere, errSpent)
	defer cancel()
	return evaluate(newBudget(bounded), f.code, tree)
}

// failed returns err. If err is a *FilterError, failed returns a copy of err that contains text, the program of the
// filter.
func failed(text string, err error) error {
	if failure := (*FilterError)(nil); errors.As(err, &failure) {
		named := *failure
		named.filter = text
		return &named
	}
	return err
}
