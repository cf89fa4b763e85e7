package hook

import (
	"bytes"
	"errors"
	"fmt"

	"addon-operator/internal/redact"
	"addon-operator/internal/tree"
)

// readTree reads what a hook prints: JSON, or YAML with all it allows, so that hand-written JSON with tabs, trailing
// commas, single quotes or True is read too. A key given twice holds its last value; of several YAML documents the
// first counts.
func readTree(data []byte) (any, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 {
		return nil, errors.New("it is empty")
	}
	if read, err := tree.Decode(trimmed); err == nil {
		return read, nil
	}
	// Around a flow mapping YAML allows no tabs, inside it does. A block mapping keeps its indentation.
	if trimmed[0] == '{' {
		data = trimmed
	}
	read, err := tree.FirstYAML(data)
	if err != nil {
		return nil, fmt.Errorf("it is neither JSON nor YAML: %w; it begins with %s", err, redact.Beginning(data))
	}
	return read, nil
}
