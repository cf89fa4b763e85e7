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

// FilterError is the error of a filter that does not give a result. Applied to the same input it fails again.
type FilterError struct {
	filter string
	// Reason says why. It can quote values of the input.
	Reason string `json:"reason"`
	// Public says why without values of the input.
	Public string `json:"public"`
	// Bound is set if the filter exceeds a bound on its memory, time, outputs or result.
	Bound bool `json:"bound"`
}

// Error returns the filter's text and the reason.
func (f *FilterError) Error() string { return fmt.Sprintf("jq filter %q: %s", f.filter, f.Reason) }

// errEndless is the error of a run that needs more CPU time than it has.
var errEndless = exceeded("needs more than %s of CPU time", maxTime)

// exceeded returns the failure of a filter that exceeds a bound.
func exceeded(format string, args ...any) *FilterError {
	text := fmt.Sprintf(format, args...)
	return &FilterError{Reason: text, Public: text, Bound: true}
}

// evaluate runs code on a tree in this process. Its error is the context's or a *FilterError.
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
	if err := (&room{maxResult, maxDepth}).take(result); err != nil {
		return nil, exceeded("%s", err)
	}
	text, err := gojq.Marshal(result)
	if err != nil {
		return nil, exceeded("write its result: %s", err)
	}
	return bytes.Clone(text), nil // kept for long, so without the room its buffer has to grow
}

// failureOf returns the failure that an error of a run is, or the error of a run that was cut off.
func failureOf(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errEndless) {
		return errEndless
	}
	if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
		return err
	}
	return &FilterError{Reason: err.Error(), Public: public(err)}
}

// public returns why a filter failed, up to where the values begin that it failed on.
func public(err error) string {
	if thrown := gojq.ValueError(nil); errors.As(err, &thrown) {
		return "it ends with an error of its own"
	}
	text, _, _ := strings.Cut(err.Error(), "(")
	values := strings.IndexFunc(text+"0", func(r rune) bool { return strings.ContainsRune(`"[{-0123456789`, r) })
	return strings.TrimRight(text[:values], " :") + " …"
}
