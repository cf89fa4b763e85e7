package jq

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/itchyny/gojq"
)

// FilterError means that a filter has failed. The filter would fail again for the same input.
type FilterError struct {
	filter string
	// Reason is the reason of the failure. It may contain values of the input.
	Reason string `json:"reason"`
	// Public is the reason of the failure without values of the input.
	Public string `json:"public"`
	// Bound is true if the filter needs too much memory or time, has too many outputs, has too large a result, or
	// cannot be run at all.
	Bound bool `json:"bound"`
}

// Error returns the program of the filter and Reason.
func (f *FilterError) Error() string { return fmt.Sprintf("jq filter %q: %s", f.filter, f.Reason) }

// errEndless is the error of a filter that needs more CPU time than maxTime. errLong is the error of a program of the
// operator that takes longer than maxOwn.
var (
	errEndless = exceeded("needs more than %s of CPU time", maxTime)
	errLong    = exceeded("takes longer than %s", maxOwn)
)

// exceeded returns the error of a filter that exceeds a limit.
func exceeded(format string, args ...any) *FilterError {
	text := fmt.Sprintf(format, args...)
	return &FilterError{Reason: text, Public: text, Bound: true}
}

// evaluate runs code in this process, with tree as the input, and returns the result. The error is a *FilterError or,
// if the run was interrupted, the error of ctx.
func evaluate(ctx context.Context, code *gojq.Code, tree any) (json.RawMessage, error) {
	var outputs []any
	for run := code.RunWithContext(ctx, tree); ; {
		output, more := run.Next()
		if !more {
			break
		}
		if err, isError := output.(error); isError {
			if halt := (*gojq.HaltError)(nil); errors.As(err, &halt) && halt.Value() == nil {
				break
			}
			return nil, failureOf(ctx, err)
		}
		if len(outputs) == maxOutputs {
			return nil, exceeded("more than %d outputs", maxOutputs)
		}
		outputs = append(outputs, output)
	}
	var result any = outputs
	switch len(outputs) {
	case 0:
		result = nil
	case 1:
		result = outputs[0]
	}
	if err := (&room{maxResult, maxDepth}).subtract(result); err != nil {
		return nil, exceeded("%s", err)
	}
	text, err := gojq.Marshal(result)
	if err != nil {
		return nil, exceeded("write its result: %s", err)
	}
	return bytes.Clone(text), nil // copied, because callers keep the result, and with it they would keep the spare capacity of text in memory
}

// failureOf returns err, the error of a run of a filter, as a *FilterError. If the run was interrupted because its time
// is used up, failureOf returns errEndless or errLong. If ctx has ended for another reason, it returns err unchanged.
func failureOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errEndless) || errors.Is(cause, errLong) {
		return cause
	}
	if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
		return err
	}
	return &FilterError{Reason: err.Error(), Public: public(err)}
}

// public returns the text of err, the error of a filter, up to the first value in it. If the program itself throws the
// error, the whole text is a value, and public returns a fixed text instead.
func public(err error) string {
	if thrown := gojq.ValueError(nil); errors.As(err, &thrown) {
		return "it ends with an error that the program throws"
	}
	text, _, _ := strings.Cut(err.Error(), "(")
	values := strings.IndexFunc(text+"0", func(r rune) bool { return strings.ContainsRune(`"[{-0123456789`, r) })
	return strings.TrimRight(text[:values], " :") + " …"
}
