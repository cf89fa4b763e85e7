// Package jq runs what hooks write in jq's language. A filter is a compiled program: it is given a tree, JSON as Go has it,
// and its outputs become one JSON text, the result. It sees nothing of the environment, reads no further input and imports
// no modules; its length, its time, its outputs and their text are bounded, so that one that does not end stops nothing but itself.
package jq

import (
	"bytes"
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
	// maxTime and maxOutputs bound one run.
	maxTime    = 5 * time.Second
	maxOutputs = 10_000
	// maxResult bounds the text of a result in bytes, maxDepth its nesting, as deep as other readers of JSON follow.
	maxResult = 16 << 20
	maxDepth  = 10_000
)

// Filter is a compiled program. It may be used from many goroutines at once. A nil filter is none.
type Filter struct {
	text string
	code *gojq.Code
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
	return &Filter{text, code}, nil
}

// String returns the program's text.
func (f *Filter) String() string {
	if f == nil {
		return ""
	}
	return f.text
}

// Apply runs the filter on a tree, which it leaves as it is. The result is null if the program has no output, the output if
// it has one, and an array of all outputs if it has more. The same result is always the same text. A nil filter gives nil.
func (f *Filter) Apply(ctx context.Context, tree any) (json.RawMessage, error) {
	if f == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	var outputs []any
	for run := f.code.RunWithContext(ctx, tree); ; {
		output, more := run.Next()
		if !more {
			break
		}
		if err, failed := output.(error); failed {
			if halt := (*gojq.HaltError)(nil); errors.As(err, &halt) && halt.Value() == nil {
				break
			}
			return nil, fmt.Errorf("jq filter %q: %w", f.text, err)
		}
		if len(outputs) == maxOutputs {
			return nil, fmt.Errorf("jq filter %q: more than %d outputs", f.text, maxOutputs)
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
		return nil, fmt.Errorf("jq filter %q: %w", f.text, err)
	}
	text, err := gojq.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("jq filter %q: write its result: %w", f.text, err)
	}
	return bytes.Clone(text), nil // kept for long, so without the room its buffer has to grow
}
