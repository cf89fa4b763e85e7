// Package tree reads the JSON and YAML that hooks and people write. A text holds documents, one after another; a document is
// read as a tree: maps with text keys, lists, texts, booleans, null, and numbers as they are written (json.Number). What a
// text may come to is bounded, and errors quote nothing of it but single words of the notation, as it may hold secrets.
package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// A NotationError is the error of a text that is neither JSON nor, where that is read, YAML.
type NotationError struct{ err error }

func (e *NotationError) Error() string { return e.err.Error() }
func (e *NotationError) Unwrap() error { return e.err }

// Decode returns the tree of a text that is one JSON value and nothing else.
func Decode(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(text[decoder.InputOffset():])) > 0 {
		return nil, errors.New("something follows the JSON value")
	}
	return tree, nil
}

// JSON yields the JSON values that follow one another in a text, with anything or nothing between them that JSON takes for
// space. An error is the last it yields. Its text goes behind what the caller calls the value, as in "operation 2 is not valid
// JSON near byte 7".
func JSON(text []byte) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
			var value json.RawMessage
			err := decoder.Decode(&value)
			switch {
			case errors.Is(err, io.EOF):
				return
			case errors.Is(err, io.ErrUnexpectedEOF):
				err = &NotationError{errors.New("ends in the middle")}
			case err != nil:
				err = &NotationError{fmt.Errorf("is not valid JSON near byte %d", decoder.InputOffset())}
			}
			if !yield(value, err) || err != nil {
				return
			}
		}
	}
}

// Documents returns the trees of a text: a stream of JSON values or else YAML documents. Those that hold nothing are left out.
func Documents(text []byte) ([]any, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	documents, jsonErr := readJSON(text)
	if jsonErr == nil {
		return documents, nil
	}
	documents, err := readYAML(text)
	switch {
	case err == nil || errors.Is(err, errSize):
		return documents, err
	case bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")): // it was meant to be JSON
		return nil, &NotationError{fmt.Errorf("neither JSON, %w, nor YAML, %w", jsonErr, err)}
	case errors.Is(err, errText):
		return nil, err
	default:
		return nil, &NotationError{fmt.Errorf("not valid YAML, %w", err)}
	}
}

func readJSON(text []byte) (documents []any, err error) {
	n := 0
	for value, err := range JSON(text) {
		n++
		var document any
		if err == nil {
			document, err = Decode(value)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d %w", n, err)
		}
		if document != nil {
			documents = append(documents, document)
		}
	}
	return documents, nil
}

func readYAML(text []byte) (documents []any, err error) {
	n := 0
	for document, err := range YAML(text) {
		n++
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if document != nil {
			documents = append(documents, document)
		}
	}
	return documents, nil
}

// Kind names the kind of a tree for people: "a map".
func Kind(tree any) string {
	switch tree.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case json.Number, int, int64, float64:
		return "a number"
	default:
		return "a map"
	}
}

// Excerpt bounds text that an error repeats.
func Excerpt(text string) string {
	const most = 60
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most]) + "…"
}
