package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Values are the sections of the values that a hook gets. All hooks get the section "global". A module hook also gets
// the section of its module, whose key is the name of the module in camelCase. A path is a sequence of keys separated
// by dots, such as web.hosts.0; [Path] quotes keys that contain dots.
//
// Set and Remove add to the values patch of the run. Later reads in the same run return the changed values. If a change
// is invalid, the run fails after the function of the hook has returned.
type Values struct {
	variable string // environment variable with the path of the patch file
	tree     map[string]any
	ops      []valuesOp
	errs     []error
}

type valuesOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// MarshalJSON omits the value of an operation "remove".
func (o valuesOp) MarshalJSON() ([]byte, error) {
	if o.Op == "remove" {
		return json.Marshal(map[string]any{"op": o.Op, "path": o.Path})
	}
	type fields valuesOp // without this method
	return json.Marshal(fields(o))
}

// ValuesOf returns the values in document, which maps keys to sections and must be representable as JSON. It is for
// tests that only read values: changes are not written to a file.
func ValuesOf(document map[string]any) (*Values, error) {
	tree, err := plain(document)
	if err != nil {
		return nil, err
	}
	sections, _ := tree.(map[string]any) // if document is nil, tree is nil
	return &Values{tree: sections}, nil
}

// Value decodes the value at a path to type T. If the value does not exist or is null, Value returns the argument
// absent.
func Value[T any](v *Values, path string, absent T) (T, error) {
	keys, err := splitPath(path)
	if err != nil {
		return absent, err
	}
	found, ok := find(v.tree, keys)
	if !ok || found == nil {
		return absent, nil
	}
	text, err := json.Marshal(found)
	if err != nil {
		return absent, fmt.Errorf("value %s: %w", path, err)
	}
	var value T
	if err := json.Unmarshal(text, &value); err != nil {
		return absent, fmt.Errorf("value %s is not of type %T: %w", path, value, err)
	}
	return value, nil
}

// Has reports whether a value exists at a path. The value can be null.
func (v *Values) Has(path string) bool {
	keys, err := splitPath(path)
	if err != nil {
		return false
	}
	_, ok := find(v.tree, keys)
	return ok
}

// Set sets the value at a path. The value must be representable as JSON. Set creates missing objects on the path, but
// it cannot add elements to a list. With the path <module>Enabled, a global hook enables or disables a module.
func (v *Values) Set(path string, value any) {
	keys, err := splitPath(path)
	if err == nil {
		var tree any
		if tree, err = plain(value); err == nil {
			err = v.set(keys, tree)
		}
	}
	if err != nil {
		v.errs = append(v.errs, fmt.Errorf("set %s: %w", path, err))
	}
}

// Remove deletes the value at a path, if it exists. With the path <module>Enabled, a global hook deletes the enabled
// override of a module.
func (v *Values) Remove(path string) {
	keys, err := splitPath(path)
	if err == nil {
		err = v.remove(keys)
	}
	if err != nil {
		v.errs = append(v.errs, fmt.Errorf("remove %s: %w", path, err))
	}
}

// plain converts a value to the types of decoded JSON, by encoding and decoding it.
func plain(value any) (tree any, err error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return tree, decode(text, &tree)
}

func (v *Values) set(keys []string, value any) error {
	if v.tree == nil {
		v.tree = map[string]any{}
	}
	depth, err := patchable(v.tree, keys)
	if err != nil {
		return err
	}
	if err := put(v.tree, keys, value); err != nil {
		return err
	}
	return v.add(keys[:depth])
}

func (v *Values) remove(keys []string) error {
	if _, ok := find(v.tree, keys); !ok && len(keys) > 1 { // an enabled override has one key, and can exist although it is not in the tree
		return nil
	}
	depth, err := patchable(v.tree, keys)
	if err != nil {
		return err
	}
	removeAt(v.tree, keys)
	if depth < len(keys) { // the value is in a list
		return v.add(keys[:depth])
	}
	v.ops = append(v.ops, valuesOp{Op: "remove", Path: pointer(keys)})
	return nil
}

// add appends an operation to the patch. When the patch is applied, the operation sets the value at keys to the value
// that v now has there.
func (v *Values) add(keys []string) error {
	now, _ := find(v.tree, keys)
	copied, err := plain(now)
	if err != nil {
		return err
	}
	v.ops = append(v.ops, valuesOp{Op: "add", Path: pointer(keys), Value: copied})
	return nil
}

// output returns the patch.
func (v *Values) output() (variable string, content []byte, err error) {
	if err := errors.Join(v.errs...); err != nil {
		return v.variable, nil, err
	}
	content, err = lines(v.ops)
	return v.variable, content, err
}

// patchable returns the length of the path that a patch operation must have to change the value at keys. The path
// consists of all keys, with two exceptions. If a value on the path is a list, the path ends at the list, and the
// operation replaces the whole list, because its elements may be different when the operation is applied again later.
// If a key on the path is missing or null, the path ends at this key, and the operation adds its value. If this key is
// the first one, which names a section, the path ends at the second key instead.
func patchable(tree map[string]any, keys []string) (int, error) {
	node := tree
	for i, key := range keys[:len(keys)-1] {
		switch child := node[key].(type) {
		case map[string]any:
			node = child
		case []any:
			return i + 1, nil
		case nil:
			return min(max(i+1, 2), len(keys)), nil
		default:
			return 0, fmt.Errorf("%s is neither an object nor a list", Path(keys[:i+1]...))
		}
	}
	return len(keys), nil
}

// find returns the value at keys, and whether there is one.
func find(node any, keys []string) (any, bool) {
	for _, key := range keys {
		switch parent := node.(type) {
		case map[string]any:
			child, ok := parent[key]
			if !ok {
				return nil, false
			}
			node = child
		case []any:
			i, err := index(parent, key)
			if err != nil {
				return nil, false
			}
			node = parent[i]
		default:
			return nil, false
		}
	}
	return node, true
}

// put sets the value at keys, and creates missing objects on the path.
func put(node any, keys []string, value any) error {
	key, last := keys[0], len(keys) == 1
	switch parent := node.(type) {
	case map[string]any:
		if last {
			parent[key] = value
			return nil
		}
		if parent[key] == nil {
			parent[key] = map[string]any{}
		}
		return put(parent[key], keys[1:], value)
	case []any:
		i, err := index(parent, key)
		if err != nil {
			return err
		}
		if last {
			parent[i] = value
			return nil
		}
		if parent[i] == nil {
			parent[i] = map[string]any{}
		}
		return put(parent[i], keys[1:], value)
	default:
		return fmt.Errorf("%q cannot be set below a value that is neither an object nor a list", key)
	}
}

// removeAt removes the value at keys, if there is one, and returns the changed node.
func removeAt(node any, keys []string) any {
	key, last := keys[0], len(keys) == 1
	switch parent := node.(type) {
	case map[string]any:
		if last {
			delete(parent, key)
		} else {
			parent[key] = removeAt(parent[key], keys[1:])
		}
	case []any:
		i, err := index(parent, key)
		switch {
		case err != nil:
		case last:
			return append(parent[:i:i], parent[i+1:]...)
		default:
			parent[i] = removeAt(parent[i], keys[1:])
		}
	}
	return node
}

func index(list []any, key string) (int, error) {
	i, err := strconv.Atoi(key)
	if err != nil || i < 0 || i >= len(list) {
		return 0, fmt.Errorf("%q is not an index of a list of length %d", key, len(list))
	}
	return i, nil
}
