package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"addon-operator/internal/tree"
)

// maxYAML is the maximum size of a YAML file in bytes. Parsing a file needs up to 70 times as much memory.
const maxYAML = 1 << 20

// parseYAML decodes the first document of a YAML text. parseYAML returns nil if the text has no document.
func parseYAML(text []byte) (any, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if len(text) > maxYAML {
		return nil, fmt.Errorf("file has %d bytes, more than the limit of %d for YAML", len(text), maxYAML)
	}
	return tree.FirstYAML(text)
}

// field returns the value of the key called name in a map. Like encoding/json, it compares keys case-insensitively.
// Unlike encoding/json, it prefers a key that matches exactly. If no key matches, it returns nil.
func field(of map[string]any, name string) any {
	if value, exact := of[name]; exact {
		return value
	}
	// If several keys match, the last one in sorted order is used, as in sigs.k8s.io/yaml.
	key := ""
	for candidate := range of {
		if strings.EqualFold(candidate, name) && candidate > key {
			key = candidate
		}
	}
	if key == "" {
		return nil
	}
	return of[key]
}

// scalarText returns a YAML scalar as text. For example, it returns "true" for true, and "" for nil. If value is a map
// or a list, the result isScalar is false.
func scalarText(value any) (text string, isScalar bool) {
	switch v := value.(type) {
	case nil:
		return "", true
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	default:
		return "", false
	}
}
