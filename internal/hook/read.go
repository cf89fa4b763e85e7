package hook

import (
	"bytes"
	"errors"
	"fmt"

	"addon-operator/internal/redact"
	"addon-operator/internal/tree"
)

// readTree parses the output of a hook as JSON or YAML. As YAML, handwritten JSON with tabs,
// trailing commas, single quotes or True is accepted too. If a key is duplicate, the last value is
// used. Of several YAML documents, the first is used.
func readTree(data []byte) (any, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 {
		return nil, errors.New("it is empty")
	}
	if read, err := tree.Decode(trimmed); err == nil {
		return read, nil
	}
	// YAML allows tabs inside a flow mapping, but not before and after it. In a block mapping,
	// leading spaces are significant and must stay.
	if trimmed[0] == '{' {
		data = trimmed
	}
	read, err := tree.FirstYAML(data)
	if err != nil {
		return nil, fmt.Errorf("it is neither JSON nor YAML: %w; it begins with %s", err, redact.Beginning(data))
	}
	return read, nil
}
