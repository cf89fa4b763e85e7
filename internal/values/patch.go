package values

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	kjson "k8s.io/apimachinery/pkg/util/json"

	"addon-operator/internal/tree"
)

// The operations a hook may write. The addon-operator HOOKS docs have the first
// two; test is in use as well.
const (
	opAdd    = "add"
	opRemove = "remove"
	opTest   = "test"
)

// Op is one operation of a JSON patch (RFC 6902). Its path begins with the key of
// a section. An add without a value adds null.
type Op struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// String names the operation without its value, which can be a secret.
func (o Op) String() string { return o.Op + " " + o.Path }

// ParsePatch reads the patch file of a hook: JSON documents one after another,
// each an operation or an array of operations. An empty file holds none. Fields
// other than op, path and value are left out.
func ParsePatch(text []byte) ([]Op, error) {
	var ops []Op
	n := 0
	for document, err := range tree.JSON(text) {
		n++
		if err != nil {
			return nil, fmt.Errorf("values patch: document %d %w: write JSON documents only, one after another", n, err)
		}
		parsed, err := parseDocument(document)
		if err != nil {
			return nil, fmt.Errorf("values patch: document %d: %w", n, err)
		}
		ops = append(ops, parsed...)
	}
	return ops, nil
}

// parseDocument reads one operation, or an array of them.
func parseDocument(document json.RawMessage) ([]Op, error) {
	elements := []json.RawMessage{document}
	if document[0] == '[' {
		elements = nil
		if err := json.Unmarshal(document, &elements); err != nil {
			return nil, fmt.Errorf("not an array of operations: %w", err)
		}
	}
	ops := make([]Op, 0, len(elements))
	for i, element := range elements {
		op, err := parseOp(element)
		if err != nil {
			return nil, fmt.Errorf("operation %d: %w", i+1, err)
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// parseOp reads one operation and checks what can be checked without a document.
func parseOp(text json.RawMessage) (Op, error) {
	var fields map[string]json.RawMessage
	if text[0] != '{' || json.Unmarshal(text, &fields) != nil {
		return Op{}, errors.New(`must be an object like {"op": "add", "path": "/key/name", "value": 1}`)
	}
	var op Op
	if json.Unmarshal(fields["op"], &op.Op) != nil || op.Op == "" {
		return Op{}, errors.New(`has no "op": write "add" or "remove"`)
	}
	if json.Unmarshal(fields["path"], &op.Path) != nil {
		return Op{}, fmt.Errorf(`%q has no "path" that is a string`, op.Op)
	}
	switch op.Op {
	case opAdd, opTest:
		value, err := compact(fields["value"])
		if err != nil {
			return Op{}, fmt.Errorf("%s: %w", op, err)
		}
		op.Value = value
	case opRemove:
	default:
		return Op{}, fmt.Errorf("%s: unsupported patch operation %q: only add, remove and test are, and add replaces a value too", op, op.Op)
	}
	if !strings.HasPrefix(op.Path, "/") {
		return Op{}, fmt.Errorf("%s: the path must begin with a slash and the key of a section", op)
	}
	return op, nil
}

// compact returns the value of an operation in its Canonical text.
func compact(value json.RawMessage) (json.RawMessage, error) {
	decoded, err := decodeValue(value)
	if err != nil {
		return nil, err
	}
	return Canonical(decoded)
}

// decodeValue returns the value of an operation, null for none.
func decodeValue(value json.RawMessage) (v any, err error) {
	if len(value) == 0 {
		return nil, nil
	}
	if err := kjson.Unmarshal(value, &v); err != nil {
		return nil, errors.New("the value holds a number that is too big, or is nested too deep; quote the number if it is text")
	}
	return v, nil
}

// Split checks that a hook may change what its patch addresses, and parts what
// changes sections from what sets flags. A hook of a module may change the section
// with the key own and nothing else; a global hook, own being Global, may change
// the global section, and may add true or false to flags or remove them. Flags
// come as what the hook says last of each: nil is a removed one.
func Split(ops []Op, own string) (sections []Op, flags map[string]*bool, err error) {
	for _, op := range ops {
		root, below, _ := strings.Cut(op.Path[1:], "/")
		isFlag := strings.HasSuffix(root, enabledSuffix) && root != enabledSuffix
		switch {
		case root == own:
			sections = append(sections, op)
		case own != Global && root == Global:
			return nil, nil, fmt.Errorf("%s: a hook of a module cannot change global values: do it in a global hook, or keep the value under /%s", op, own)
		case own != Global:
			return nil, nil, fmt.Errorf("%s: a hook of a module can change only its own values, under /%s", op, own)
		case !isFlag:
			return nil, nil, fmt.Errorf("%s: a global hook can change only /%s and flags like /someModule%s", op, Global, enabledSuffix)
		case below != "" || strings.HasSuffix(op.Path, "/"):
			return nil, nil, fmt.Errorf("%s: there is nothing below a flag: use /%s", op, root)
		default:
			value, err := flagValue(op)
			if err != nil {
				return nil, nil, err
			}
			if flags == nil {
				flags = map[string]*bool{}
			}
			flags[root] = value
		}
	}
	return sections, flags, nil
}

// flagValue returns what an operation says of a flag, nil when it takes it back.
func flagValue(op Op) (*bool, error) {
	value := string(op.Value)
	switch {
	case op.Op == opRemove:
		return nil, nil
	case op.Op == opTest:
		return nil, fmt.Errorf("%s: a flag can be added and removed, not tested", op)
	case value == "true" || value == "false":
		enabled := value == "true"
		return &enabled, nil
	default:
		return nil, fmt.Errorf("%s: the value must be the boolean true or false, without quotes", op)
	}
}
