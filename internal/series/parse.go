package series

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"addon-operator/internal/tree"
)

// Parse parses the operations of a hook: a sequence of JSON objects, with or without line breaks between them. The
// first {PREFIX} in the name of a metric is replaced by prefix. If an operation is invalid, or the text exceeds a
// limit, Parse returns no operations. The error for an invalid operation has the number of the operation, counted from
// 1.
func Parse(text []byte, prefix string) ([]Op, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("%d bytes of metrics were written, more than the limit of %d MiB", len(text), maxText>>20)
	}
	var ops []Op
	groups := map[string]bool{}
	for raw, err := range tree.JSON(text) {
		n := len(ops) + 1
		if err != nil {
			return nil, fmt.Errorf("metric operation %d %w", n, err)
		}
		op, err := parse(raw, prefix)
		switch {
		case err != nil:
			return nil, fmt.Errorf("metric operation %d: %w", n, err)
		case n > maxOps:
			return nil, fmt.Errorf("more than %d metric operations were written, the limit of one run", maxOps)
		}
		if groups[op.Group] = true; len(groups) > maxGroups {
			return nil, fmt.Errorf("metric operations of more than %d groups were written, the limit of one run", maxGroups)
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// parse reads one operation.
func parse(raw json.RawMessage, prefix string) (Op, error) {
	if kind := kindOf(raw); kind != "object" {
		return Op{}, fmt.Errorf("is a JSON %s, not an object; write one object after another", kind)
	}
	var w written
	if err := json.Unmarshal(raw, &w); err != nil {
		return Op{}, named(w.Name, fieldError(err))
	}
	op, err := w.op(prefix)
	return op, named(w.Name, err)
}

// named returns err with the name of the metric in front, if the metric has a name.
func named(name string, err error) error {
	if err == nil || name == "" {
		return err
	}
	return fmt.Errorf("(%.80q) %w", name, err)
}

// fieldError converts a type error of encoding/json to an error that names the field and the JSON types. Other errors
// stay unchanged.
func fieldError(err error) error {
	wrong := (*json.UnmarshalTypeError)(nil)
	if !errors.As(err, &wrong) {
		return err
	}
	want, is := "a string", wrong.Value
	field, _, _ := strings.Cut(wrong.Field, ".")
	switch {
	case wrong.Type.String() == "float64":
		want = "a number"
	case field == "labels" && wrong.Type.String() != "string":
		want = "an object of strings"
	case field == "buckets":
		want = "a list of numbers"
	}
	if digits, ok := strings.CutPrefix(is, "number "); ok {
		return fmt.Errorf("field %q: number %.40s is too large", field, digits)
	}
	if field == "labels" && want == "a string" {
		return fmt.Errorf("field %q: a value is a %s, but must be a string: put it in quotes", field, is)
	}
	return fmt.Errorf("field %q: is a %s, but must be %s", field, is, want)
}

// kindOf returns the kind of the JSON value raw as a word for messages.
func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	default:
		return "number"
	}
}
