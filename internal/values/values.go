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

// Values is a document of sections by key, or any other JSON object. It is made
// of what JSON is made of: nil, bool, string, int64, float64, []any and
// map[string]any. As in Kubernetes' unstructured objects a number is an int64
// when it is written as a whole number that fits, and a float64 otherwise.
type Values map[string]any

// UnmarshalJSON decodes a JSON object and keeps whole numbers whole, which
// encoding/json by itself would not beyond 2^53.
func (v *Values) UnmarshalJSON(data []byte) error {
	var m map[string]any
	if err := kjson.Unmarshal(data, &m); err != nil {
		return err
	}
	*v = m
	return nil
}

// Merge returns the layers combined, the first being the lowest. Maps are merged
// key by key at every depth; a list or a scalar replaces what is below it, and so
// does an explicit null. Layers are folded from the left: where a middle layer
// replaces a map by something else, grouping them otherwise gives another result.
func Merge(layers ...Values) Values {
	merged := map[string]any{}
	for _, layer := range layers {
		mergeInto(merged, layer)
	}
	return merged
}

// mergeInto puts the keys of high into low, which must share nothing with any
// document that is still in use.
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

// asMap returns v as a plain map when it is a JSON object.
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

// clone returns a copy that shares no map or list with v, its objects plain maps.
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

// Canonical returns the one JSON text of a section or document: keys sorted, no
// spaces, equal numbers written alike. Two are the same when these texts are.
func Canonical(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("values hold what JSON cannot express: %w", err)
	}
	return text, nil
}

// Checksum returns 32 hexadecimal digits that differ when the Canonical text of v
// does. An absent section, nil, has a checksum too.
func Checksum(v any) (string, error) {
	text, err := Canonical(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// Changed tells whether two sections or documents differ in their Canonical text.
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

// decodeYAML returns what a YAML text holds, decoded as Values are. Keys that
// YAML 1.1 takes for booleans (y, n, on, off, yes, no) become "true" and "false",
// as they do everywhere in Kubernetes and Helm. With an error comes the line of
// the text, 0 where the parser does not know it.
func decodeYAML(text []byte) (v any, line int, err error) {
	v, err = tree.FirstYAML(text)
	if syntax := (*tree.SyntaxError)(nil); errors.As(err, &syntax) {
		return nil, syntax.Line, fmt.Errorf("not valid YAML: %s", syntax.Why)
	}
	if err != nil {
		return nil, 0, err
	}
	if err := kjson.ConvertInterfaceNumbers(&v, 0); err != nil {
		return nil, 0, errors.New("holds a number that is too big, or is nested too deep; quote the number if it is text")
	}
	return v, 0, nil
}

// lineOf returns the number of the line where a key stands at the left edge of a
// YAML text, 0 when it is not written so.
func lineOf(text []byte, key string) int {
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.ReplaceAll(strings.ReplaceAll(line, `"`, ""), "'", "")
		if rest, found := strings.CutPrefix(line, key); found && strings.HasPrefix(strings.TrimLeft(rest, " "), ":") {
			return i + 1
		}
	}
	return 0
}
