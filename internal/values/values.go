package values

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	kjson "k8s.io/apimachinery/pkg/util/json"

	"addon-operator/internal/tree"
)

// Values is a document that maps keys to sections, or any other JSON object. It consists of nil, bool, string, int64,
// float64, []any and map[string]any. As in unstructured Kubernetes objects, a number is an int64 if it is written as
// an integer that fits, and a float64 otherwise.
type Values map[string]any

// UnmarshalJSON decodes a JSON object and keeps integers exact. encoding/json alone would round integers above 2^53.
func (v *Values) UnmarshalJSON(data []byte) error {
	var m map[string]any
	if err := kjson.Unmarshal(data, &m); err != nil {
		return err
	}
	*v = m
	return nil
}

// Merge returns the merged layers. The first layer is the lowest. Maps are merged key by key at every depth. A list,
// a scalar or an explicit null replaces the value of a lower layer. Layers are merged one by one, beginning with the
// lowest. This order matters if a middle layer replaces a map by another type: merging the two upper layers first
// would lead to another result.
func Merge(layers ...Values) Values {
	merged := map[string]any{}
	for _, layer := range layers {
		mergeInto(merged, layer)
	}
	return merged
}

// mergeInto merges high into low, which it modifies. So low must not share maps with other documents.
func mergeInto(low, high map[string]any) {
	for key, above := range high {
		below, isMap := asMap(low[key])
		over, overMap := asMap(above)
		if isMap && overMap {
			mergeInto(below, over)
			continue
		}
		low[key] = clone(above)
	}
}

// asMap returns v as a map[string]any, and whether v is a JSON object.
func asMap(v any) (map[string]any, bool) {
	switch v := v.(type) {
	case map[string]any:
		return v, true
	case Values:
		return v, true
	default:
		return nil, false
	}
}

// clone returns a copy of v that shares no map or list with v. All JSON objects in the copy have the type
// map[string]any.
func clone(v any) any {
	if m, ok := asMap(v); ok {
		copied := make(map[string]any, len(m))
		for key, under := range m {
			copied[key] = clone(under)
		}
		return copied
	}
	if list, ok := v.([]any); ok {
		copied := make([]any, len(list))
		for i, element := range list {
			copied[i] = clone(element)
		}
		return copied
	}
	return v
}

// Canonical returns the canonical JSON text of a section or document, with sorted keys, without spaces, and with one
// notation for equal numbers. Two values are equal if their canonical texts are equal.
func Canonical(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("the values contain a value that JSON cannot represent: %w", err)
	}
	return text, nil
}

// Checksum returns 32 hexadecimal digits derived from the Canonical text of v. For an absent section, v is nil.
func Checksum(v any) (string, error) {
	text, err := Canonical(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// Changed reports whether two sections or documents differ in their Canonical text.
func Changed(before, after any) (bool, error) {
	old, err := Canonical(before)
	if err != nil {
		return false, err
	}
	now, err := Canonical(after)
	if err != nil {
		return false, err
	}
	return string(old) != string(now), nil
}

// decodeYAML decodes a YAML text to the types that [Values] consists of. Words that YAML 1.1 treats as booleans (y, n,
// on, off, yes, no) are booleans, and as keys they become "true" and "false", as everywhere in Kubernetes and Helm. If
// decodeYAML returns an error, line is the line of the error, or 0 if the line is unknown.
func decodeYAML(text []byte) (v any, line int, err error) { return decodedBy(tree.FirstYAML, text) }

// decodeModule is like decodeYAML, for the section of a module in the ConfigMap: only true and false are booleans.
// flant/addon-operator reads these sections as YAML 1.2, and all other values as YAML 1.1.
func decodeModule(text []byte) (v any, line int, err error) {
	return decodedBy(tree.FirstStrictYAML, text)
}

// decodedBy decodes a YAML text with the function decode.
func decodedBy(decode func(text []byte) (any, error), text []byte) (v any, line int, err error) {
	v, err = decode(text)
	if syntax := (*tree.SyntaxError)(nil); errors.As(err, &syntax) {
		return nil, syntax.Line, fmt.Errorf("not valid YAML: %s", syntax.Why)
	}
	if err != nil {
		return nil, 0, err
	}
	if err := kjson.ConvertInterfaceNumbers(&v, 0); err != nil {
		return nil, 0, errors.New("contains a number that is too large, or is nested too deeply; quote the number if it is text")
	}
	return v, 0, nil
}

// lineOf returns the line of a top-level key in a YAML text. If it does not find the key, it returns 0.
func lineOf(text []byte, key string) int {
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.ReplaceAll(strings.ReplaceAll(line, `"`, ""), "'", "")
		if rest, found := strings.CutPrefix(line, key); found && strings.HasPrefix(strings.TrimLeft(rest, " "), ":") {
			return i + 1
		}
	}
	return 0
}
