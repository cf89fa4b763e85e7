// Package tree parses the JSON and YAML texts of hooks and users. A text contains a sequence of documents. A document
// is decoded to a tree of maps with text keys, lists, texts, booleans, null, and numbers. Numbers have the type
// json.Number, which keeps the digits as written. The decoded size of YAML is limited. Errors quote only the syntax
// of a text, because values in the text may be secrets.
package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// A NotationError means that a text is not valid JSON. If YAML is accepted, it means that the text is not valid YAML
// either.
type NotationError struct{ err error }

func (e *NotationError) Error() string { return e.err.Error() }
func (e *NotationError) Unwrap() error { return e.err }

// Decode decodes a text that contains exactly one JSON value.
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

// JSON yields the JSON values in a text, with or without whitespace between them. It stops after the first error. The
// text of the error is the end of a sentence, such as "is not valid JSON near byte 7". The caller puts the name of
// the value before it, such as "operation 2".
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

// Documents decodes a text as a sequence of JSON values. If that fails, it decodes the text as a sequence of YAML
// documents, as [YAML] does. It omits empty documents.
func Documents(text []byte) ([]any, error) { return documents(text, YAML) }

// StrictDocuments is like [Documents], but decodes YAML as [StrictYAML] does.
func StrictDocuments(text []byte) ([]any, error) { return documents(text, StrictYAML) }

func documents(text []byte, yaml func([]byte) iter.Seq2[any, error]) ([]any, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	documents, jsonErr := readJSON(text)
	if jsonErr == nil {
		return documents, nil
	}
	documents, err := readYAML(yaml(text))
	switch {
	case err == nil || errors.Is(err, errSize):
		return documents, err
	case bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")): // the text was probably meant to be JSON
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

func readYAML(yaml iter.Seq2[any, error]) (documents []any, err error) {
	n := 0
	for document, err := range yaml {
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

// Kind returns the kind of a tree for messages, such as "a map".
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

// Excerpt returns text, shortened to 60 characters, for an error message.
func Excerpt(text string) string {
	const most = 60
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most]) + "…"
}
