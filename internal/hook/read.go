package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"
)

// readTree reads what a hook prints: JSON, or YAML with all it allows, so that hand-written JSON with tabs, trailing
// commas, single quotes or True is read too. A key given twice holds its last value; of several YAML documents the
// first counts. Numbers are json.Number.
func readTree(data []byte) (any, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 {
		return nil, errors.New("it is empty")
	}
	if tree, err := decodeNumbers(trimmed); err == nil {
		return tree, nil
	}
	// Around a flow mapping YAML allows no tabs, inside it does. A block mapping keeps its indentation.
	if trimmed[0] == '{' {
		data = trimmed
	}
	converted, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("it is neither JSON nor YAML: %w", err)
	}
	return decodeNumbers(converted)
}

// decodeNumbers reads exactly one JSON value and keeps its numbers as they are written.
func decodeNumbers(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	if decoder.InputOffset() != int64(len(data)) {
		return nil, errors.New("something follows the JSON value")
	}
	return tree, nil
}
