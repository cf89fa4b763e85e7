package hook

import (
	"bytes"
	"errors"
	"fmt"

	"addon-operator/internal/redact"
	"addon-operator/internal/tree"
)

// readTree parses the output of a hook, which is JSON or YAML. Because it also tries YAML, it accepts handwritten JSON
// with tabs, trailing commas, single quotes or True. If a map has the same key several times, the last value is used.
// If the text has several YAML documents, the first is used.
func readTree(data []byte) (any, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 {
		return nil, errors.New("it is empty")
	}
	if read, err := tree.Decode(trimmed); err == nil {
		return read, nil
	}
	// Remove white space around a flow mapping {...}: YAML allows tabs inside it, but not before and after it. In a
	// block mapping, leading spaces are significant, so nothing is removed.
	if trimmed[0] == '{' {
		data = trimmed
	}
	read, err := tree.FirstYAML(data)
	if err != nil {
		return nil, fmt.Errorf("it is neither JSON nor YAML: %w; it begins with %s", err, redact.Beginning(data))
	}
	return read, nil
}
