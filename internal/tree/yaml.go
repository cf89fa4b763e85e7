package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	goyaml "go.yaml.in/yaml/v2"
)

// maxSize is the maximum decoded size of all documents of one YAML text, in bytes. Because of aliases, a small text
// can have any decoded size.
const maxSize = 16 << 20

// maxText is the maximum size of a YAML text in bytes. The parser needs about a hundred times as much memory as the
// text.
const maxText = 4 << 20

var (
	errText   = fmt.Errorf("is larger than %d MiB, the limit for YAML; JSON can be larger", maxText>>20)
	errSize   = fmt.Errorf("expands to more than the limit of %d MiB", maxSize>>20)
	errNumber = errors.New(".nan and .inf are no JSON numbers; quote them or leave them out")
	errKey    = errors.New("a key of a map must be a plain word, not a list, a map or null")
	errType   = errors.New("a value does not match its YAML type")
)

// A SyntaxError says why a text is not valid YAML.
type SyntaxError struct {
	// Line is the line of the error, counted from 1. Line is 0 if the line is unknown.
	Line int
	// Why is the reason. It quotes only syntax of the text, and no values.
	Why string
}

// Error returns the reason. If the line is known, the line is in front of the reason.
func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return e.Why
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Why)
}

// YAML yields the decoded documents of a YAML text. It decodes YAML 1.1 as Kubernetes does: of a duplicate key, the
// last value is used, and keys like y, on and no become "true" and "false". YAML stops after the first error. The error
// is a *[SyntaxError], or says which limit is exceeded or which value JSON cannot represent.
func YAML(text []byte) iter.Seq2[any, error] {
	return decodeYAML(text, func(decoder *goyaml.Decoder) (document any, err error) {
		err = decoder.Decode(&document)
		return document, err
	})
}

// StrictYAML is like [YAML], but only true and false are booleans, as in YAML 1.2. The words yes, no, on, off, y and n
// are texts, also as keys.
func StrictYAML(text []byte) iter.Seq2[any, error] {
	return decodeYAML(text, func(decoder *goyaml.Decoder) (any, error) {
		var document strict
		err := decoder.Decode(&document)
		return document.value, err
	})
}

// decodeYAML yields the documents that the function decode returns, with the types of a JSON parser.
func decodeYAML(text []byte, decode func(*goyaml.Decoder) (any, error)) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		if len(text) > maxText {
			yield(nil, errText)
			return
		}
		plain := converter{left: maxSize}
		for decoder := goyaml.NewDecoder(bytes.NewReader(text)); ; {
			document, err := decode(decoder)
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				err = explain(err)
			default:
				document, err = plain.convert(document)
			}
			if !yield(document, err) || err != nil {
				return
			}
		}
	}
}

// FirstYAML returns the first decoded document of a YAML text, or nil if the text has no documents. It returns the
// same errors as [YAML].
func FirstYAML(text []byte) (any, error) { return first(YAML(text)) }

// FirstStrictYAML is like [FirstYAML], but decodes the text as [StrictYAML] does.
func FirstStrictYAML(text []byte) (any, error) { return first(StrictYAML(text)) }

func first(documents iter.Seq2[any, error]) (any, error) {
	for document, err := range documents {
		return document, err
	}
	return nil, nil
}

var (
	yamlLine   = regexp.MustCompile(`^line (\d+): `)
	yamlQuoted = regexp.MustCompile("(?s)`.*`|'.*'")
)

// explain converts an error of the YAML parser to an error that quotes no values of the text.
func explain(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if wrong := (*goyaml.TypeError)(nil); errors.As(err, &wrong) { // its text, which quotes values, is not used
		return errType
	}
	if errors.Is(err, errKey) || strings.Contains(text, "map key") {
		return errKey
	}
	syntax := &SyntaxError{}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		syntax.Line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	if strings.Contains(text, "anchor") || strings.Contains(text, "decode") { // other errors quote no values
		text = yamlQuoted.ReplaceAllString(text, "it")
	}
	syntax.Why = text
	return syntax
}

// converter converts values of the YAML parser to the types of a JSON parser. The field left is the number of bytes
// that the values yet to be converted may have in total.
type converter struct{ left int }

// spend subtracts n bytes from the remaining size.
func (c *converter) spend(n int) error {
	if c.left -= n; c.left < 0 {
		return errSize
	}
	return nil
}

func (c *converter) convert(value any) (any, error) {
	const perValue = 8 // estimated bytes for punctuation, and overhead in memory
	if err := c.spend(perValue); err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case nil, bool:
		return v, nil
	case string:
		return text(v), c.spend(len(v))
	case int, int64, uint64:
		return json.Number(fmt.Sprint(v)), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errNumber
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
	default: // the parser returns no other types
		return nil, errType
	}
}

func (c *converter) convertMap(entries map[any]any) (any, error) {
	converted := make(map[string]any, len(entries))
	for key, value := range entries {
		name, err := keyText(key)
		if err != nil {
			return nil, err
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

// keyText converts a key of a YAML map to text, as Kubernetes does.
func keyText(key any) (string, error) {
	switch v := key.(type) {
	case string:
		return text(v), nil
	case bool, int, int64: // uint64 is an error here, as in sigs.k8s.io/yaml
		return fmt.Sprint(v), nil
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 32)
		return strings.NewReplacer("+Inf", ".inf", "-Inf", "-.inf", "NaN", ".nan").Replace(text), nil
	default:
		return "", errKey
	}
}

// text returns its argument as valid UTF-8, which JSON requires. Binary values of YAML may contain other bytes.
func text(of string) string {
	if utf8.ValidString(of) {
		return of
	}
	return string([]rune(of)) // invalid bytes become U+FFFD, as in encoding/json
}

// A Part is one document of a YAML text.
type Part struct {
	Text []byte
	// Number is the number of the part in the text. Line is the number of its first line. Numbers are counted from 1.
	Number, Line int
}

// Split splits a YAML text into documents at separator lines. Blank text before the first separator is not a document.
// But Split always returns at least one part.
//
// Split does not use YAMLReader of apimachinery. YAMLReader does not report the number and the line of a document, so
// errors could not name them. YAMLReader also rejects a separator with content, such as "--- {a: 1}", and the rest of
// the text after it, although YAML allows such a separator.
func Split(text []byte) []Part {
	var parts []Part
	part := Part{Number: 1, Line: 1}
	line := 0
	for each := range bytes.Lines(text) {
		line++
		if !bytes.HasPrefix(each, []byte("---")) || len(bytes.TrimSpace(each)) > 3 && each[3] != ' ' && each[3] != '\t' {
			part.Text = append(part.Text, each...)
			continue
		}
		if len(parts) > 0 || len(bytes.TrimSpace(part.Text)) > 0 {
			parts = append(parts, part)
			part.Number++
		}
		part.Text, part.Line = nil, line+1
		if rest := bytes.TrimSpace(each[3:]); len(rest) > 0 {
			part.Text, part.Line = append(append([]byte{}, rest...), '\n'), line
		}
	}
	return append(parts, part)
}
