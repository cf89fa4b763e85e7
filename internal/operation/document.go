package operation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	goyaml "go.yaml.in/yaml/v2"
)

// maxSize bounds in bytes what the documents of one file, or a string in them that is YAML, come to. The aliases of a small
// YAML text can stand for any amount.
const maxSize = 16 << 20

// errSize is about text that comes to more.
var errSize = fmt.Errorf("comes to more than %d MiB, that much is taken", maxSize>>20)

// readDocuments returns the documents of text in order: a stream of JSON values, with anything or nothing between them that
// JSON takes for space, or else YAML documents. Those that hold nothing are left out. Numbers are json.Number.
func readDocuments(text []byte) ([]any, error) {
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
		return nil, fmt.Errorf("neither JSON, %w, nor YAML, %w", jsonErr, err)
	default:
		return nil, fmt.Errorf("not valid YAML, %w", err)
	}
}

func readJSON(text []byte) (documents []any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	for n := 1; ; n++ {
		var document any
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return documents, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("document %d ends in the middle", n)
		case err != nil:
			return nil, fmt.Errorf("see document %d near byte %d", n, decoder.InputOffset())
		}
		if document != nil {
			documents = append(documents, document)
		}
	}
}

// readYAML reads YAML documents by the rules of YAML 1.1, as all of Kubernetes does: of a key given twice the last counts.
func readYAML(text []byte) (documents []any, err error) {
	decoder := goyaml.NewDecoder(bytes.NewReader(text))
	plain := converter{left: maxSize}
	for n := 1; ; n++ {
		var document any
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil {
			return nil, fmt.Errorf("see document %d: %w", n, explainYAML(err))
		}
		converted, err := plain.convert(document)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if converted != nil {
			documents = append(documents, converted)
		}
	}
}

// readText reads a string that holds one JSON value or YAML document.
func readText(text string) (any, error) {
	documents, err := readDocuments([]byte(text))
	switch {
	case err != nil:
		return nil, err
	case len(documents) == 0:
		return nil, errors.New("holds nothing")
	case len(documents) > 1:
		return nil, fmt.Errorf("holds %d documents, must hold one", len(documents))
	}
	return documents[0], nil
}

var yamlQuoted = regexp.MustCompile("(?s)`.*`|'.*'")

// explainYAML returns the error of a YAML parser without what it quotes of the text.
func explainYAML(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if wrong := (*goyaml.TypeError)(nil); errors.As(err, &wrong) { // it quotes values, and is never met where any type is taken
		return errors.New("a value has not the type that YAML says it has")
	}
	if strings.Contains(text, "map key") {
		return errors.New("a key is no plain word")
	}
	if strings.Contains(text, "anchor") || strings.Contains(text, "decode") { // the others quote only YAML's own marks
		text = yamlQuoted.ReplaceAllString(text, "it")
	}
	return errors.New(text)
}

// converter makes of what a YAML parser returns what a JSON parser would, up to an amount.
type converter struct{ left int }

// spend takes n bytes from what is left.
func (c *converter) spend(n int) error {
	if c.left -= n; c.left < 0 {
		return errSize
	}
	return nil
}

func (c *converter) convert(value any) (any, error) {
	const perValue = 8 // punctuation, and what it takes in memory
	if err := c.spend(perValue); err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case string:
		return v, c.spend(len(v))
	case int, int64, uint64:
		return json.Number(fmt.Sprint(v)), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New(".nan and .inf are no JSON numbers")
		}
		return json.Number(strconv.FormatFloat(v, 'g', -1, 64)), nil
	case []any:
		items := make([]any, len(v))
		for i, item := range v {
			converted, err := c.convert(item)
			if err != nil {
				return nil, err
			}
			items[i] = converted
		}
		return items, nil
	case map[any]any:
		return c.convertMap(v)
	default: // null and booleans
		return v, nil
	}
}

func (c *converter) convertMap(entries map[any]any) (any, error) {
	converted := make(map[string]any, len(entries))
	for key, value := range entries {
		name, isText := key.(string)
		if !isText {
			switch key.(type) {
			case bool, int, int64, uint64, float64:
				name = fmt.Sprint(key)
			default:
				return nil, errors.New("a key is no plain word")
			}
		}
		if err := c.spend(len(name)); err != nil {
			return nil, err
		}
		item, err := c.convert(value)
		if err != nil {
			return nil, err
		}
		converted[name] = item
	}
	return converted, nil
}
