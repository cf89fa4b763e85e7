package values

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	kjson "k8s.io/apimachinery/pkg/util/json"

	"addon-operator/internal/tree"
)

// The operations that a hook may write. The document HOOKS of flant/addon-operator describes "add" and "remove".
// Existing hooks also use "test".
const (
	opAdd    = "add"
	opRemove = "remove"
	opTest   = "test"
)

// Op is one operation of a JSON patch (RFC 6902). Its path begins with the key of a section, or is a flag. An operation
// "add" without a value adds null.
type Op struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// String returns the operation and its path, without its value, which can be a secret.
func (o Op) String() string { return o.Op + " " + o.Path }

// ParsePatch parses the patch file of a hook. The file is a sequence of JSON documents, and each document is an
// operation or an array of operations. For an empty file, ParsePatch returns no operations. Fields other than op,
// path and value are ignored.
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

// parseDocument parses a document that is one operation or an array of operations.
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

// parseOp parses one operation, and validates it as far as this is possible without the values to which it is
// applied.
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
		return Op{}, fmt.Errorf("%s: unsupported patch operation %q: use add, remove or test; add also replaces a value", op, op.Op)
	}
	if !strings.HasPrefix(op.Path, "/") {
		return Op{}, fmt.Errorf("%s: the path must begin with a slash and the key of a section", op)
	}
	return op, nil
}

// compact returns the [Canonical] text of the value of an operation.
func compact(value json.RawMessage) (json.RawMessage, error) {
	decoded, err := decodeValue(value)
	if err != nil {
		return nil, err
	}
	return Canonical(decoded)
}

// decodeValue returns the decoded value of an operation. If the operation has no value, it returns nil.
func decodeValue(value json.RawMessage) (v any, err error) {
	if len(value) == 0 {
		return nil, nil
	}
	if err := kjson.Unmarshal(value, &v); err != nil {
		return nil, errors.New("the value contains a number that is too large, or is nested too deeply; quote the number if it is text")
	}
	return v, nil
}

// A Patch contains the operations of one patch file of a hook, split into those on the hook's own section, on global
// values, and on flags.
type Patch struct {
	// Own has the operations on the hook's own section: the section of its module or, for a global hook, the global
	// section.
	Own []Op
	// Global has the operations of a module's hook on values in the global section. It is empty for a global hook,
	// whose own section is the global one.
	Global []Op
	// Flags has the last value that a global hook has written for each flag. A nil value means that the hook removes
	// the flag.
	Flags map[string]*bool
}

// Split splits the operations of a hook into those on its own section, on global values, and on flags. It returns an
// error if the hook is not allowed to do one of the operations. own is the key of the hook's own section; for a global
// hook, it is Global. A hook of a module may also change values below the global section. A global hook may also set
// flags to true or false, and remove flags.
func Split(ops []Op, own string) (Patch, error) {
	var p Patch
	for _, op := range ops {
		root, below, _ := strings.Cut(op.Path[1:], "/")
		switch {
		case root == own:
			p.Own = append(p.Own, op)
		case own != Global:
			if root != Global || below == "" {
				return Patch{}, foreignSection(op, own, root)
			}
			p.Global = append(p.Global, op)
		default:
			value, err := flagOf(op, root, below)
			if err != nil {
				return Patch{}, err
			}
			if p.Flags == nil {
				p.Flags = map[string]*bool{}
			}
			p.Flags[root] = value
		}
	}
	return p, nil
}

// isFlag reports whether key is the key of a flag, such as someModuleEnabled.
func isFlag(key string) bool { return strings.HasSuffix(key, enabledSuffix) && key != enabledSuffix }

// foreignSection returns the error for an operation of a module's hook on the section or flag root, which the hook must
// not change. own is the key of the module's section.
func foreignSection(op Op, own, root string) error {
	switch {
	case root == Global:
		return fmt.Errorf("%s: a hook of a module cannot replace all global values: use a path below /%s", op, Global)
	case isFlag(root):
		return fmt.Errorf("%s: a hook of a module cannot set flags: only global hooks can", op)
	default:
		return fmt.Errorf("%s: a hook of a module can change only its own values, under /%s, and global ones, under /%s", op, own, Global)
	}
}

// flagOf returns the value to which an operation of a global hook sets the flag root, or nil if the operation removes
// the flag.
func flagOf(op Op, root, below string) (*bool, error) {
	switch {
	case !isFlag(root):
		return nil, fmt.Errorf("%s: a global hook can change only /%s and flags like /someModule%s", op, Global, enabledSuffix)
	case below != "" || strings.HasSuffix(op.Path, "/"):
		return nil, fmt.Errorf("%s: there is nothing below a flag: use /%s", op, root)
	default:
		return flagValue(op)
	}
}

// SplitConfig is like [Split], for a patch of the ConfigMap. In the ConfigMap, a hook of a module can change only the
// section of its module, and a global hook can set or remove only flags that belong to a valid module name.
func SplitConfig(ops []Op, own string) (Patch, error) {
	p, err := Split(ops, own)
	if err != nil {
		return Patch{}, err
	}
	if len(p.Global) > 0 {
		return Patch{}, fmt.Errorf("%s: a hook of a module can change only its own section of the ConfigMap: use a patch of values, or a global hook", p.Global[0])
	}
	for _, flag := range slices.Sorted(maps.Keys(p.Flags)) {
		if err := checkKey(strings.TrimSuffix(flag, enabledSuffix), enabledSuffix); err != nil {
			return Patch{}, fmt.Errorf("key /%s %w", flag, err)
		}
	}
	return p, nil
}

// flagValue returns the value to which an operation sets a flag, or nil if the operation removes the flag.
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
