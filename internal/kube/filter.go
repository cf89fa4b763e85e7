package kube

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
	// filterTime and filterOutputs bound what a filter may cost, so that one that does not end stops nothing but itself.
	filterTime    = 5 * time.Second
	filterOutputs = 10_000
)

// Filter is a compiled jq program. It may be used from many goroutines at once. A nil filter is none.
type Filter struct {
	text string
	code *gojq.Code
}

// CompileFilter compiles a jq program. It cannot read the environment, files or further input. An empty text gives nil.
func CompileFilter(text string) (*Filter, error) {
	if text == "" {
		return nil, nil
	}
	query, err := gojq.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse jq filter %q: %w", text, err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, fmt.Errorf("compile jq filter %q: %w", text, err)
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

// Apply runs the filter on object, a JSON text. What comes out is null if the program has no output, the output if it has
// one, and an array of all outputs if it has more. The same result is always the same text. A nil filter gives nil.
func (f *Filter) Apply(ctx context.Context, object json.RawMessage) (json.RawMessage, error) {
	if f == nil {
		return nil, nil
	}
	tree, err := decodeTree(object)
	if err != nil {
		return nil, err
	}
	return f.apply(ctx, tree)
}

// apply runs the filter on tree, which it leaves as it is.
func (f *Filter) apply(ctx context.Context, tree any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, filterTime)
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
		if len(outputs) == filterOutputs {
			return nil, fmt.Errorf("jq filter %q: more than %d outputs", f.text, filterOutputs)
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
	text, err := gojq.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("jq filter %q: write its result: %w", f.text, err)
	}
	return bytes.Clone(text), nil // kept for long, so without the room its buffer has to grow
}

// decodeTree returns a JSON text as what jq programs work on. Numbers stay as they are written, however big.
func decodeTree(text json.RawMessage) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("read an object: %w", err)
	}
	return tree, nil
}
