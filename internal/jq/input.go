package jq

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Input is a JSON text to which filters are applied. The text is decoded at most once, and only if a filter runs in
// this process. An Input is not safe for concurrent use.
type Input struct {
	text []byte
	tree any
	read bool
}

// NewInput returns text as an Input. The caller must not change text afterwards.
func NewInput(text []byte) *Input { return &Input{text: text} }

// decoded returns the decoded text. All calls return the same value, because filters do not change it.
func (in *Input) decoded() (any, error) {
	if in.read {
		return in.tree, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(in.text))
	decoder.UseNumber()
	if err := decoder.Decode(&in.tree); err != nil {
		return nil, fmt.Errorf("read the input of a jq filter: %w", err)
	}
	in.read = true
	return in.tree, nil
}
