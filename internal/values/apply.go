package values

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"addon-operator/internal/tree"
)

// Apply applies the operations to a copy of the document, one after another. The error names the first operation that
// fails. The parent of a path must exist and be a map or a list. As an exception, if an operation adds a value below an
// absent or null section, the section is treated as an empty map. In a list, "-" is the position after the last
// element, and a negative index counts from the end, as in flant/addon-operator. In the result, the section that an
// operation changes must be a map. Only the section of a module may also be a list.
//
// Apply does not use the library evanphx/json-patch, because the library patches JSON text. Replay skips each saved
// operation that cannot be applied, so each operation would be a separate patch that decodes and encodes the section
// again. With 30 operations on a section of 40 KiB, this would take 100 times as long (BenchmarkReplayByLibrary). The
// library also has a bug: the operation "test" fails for a null that an earlier operation of the same patch has added.
// A Go test compares Apply with the library for all other patches.
//
// A run of a hook can return a values patch and a config patch. Each patch is applied to a document as it was before
// the run. So the values patch is applied to values without the changes of the config patch.
func Apply(document Values, ops []Op) (Values, error) {
	patched := Merge(document)
	for _, op := range ops {
		if err := applyOp(patched, op); err != nil {
			return nil, fmt.Errorf("values patch: %w", err)
		}
	}
	for _, op := range ops {
		if err := checkSection(patched, op); err != nil {
			return nil, fmt.Errorf("values patch: %w", err)
		}
	}
	return patched, nil
}

// checkSection returns an error if the section of op does not have a valid type after all operations.
func checkSection(document Values, op Op) error {
	key := segments(op.Path)[0]
	switch v := document[key].(type) {
	case map[string]any:
		return nil
	case []any:
		if key != Global {
			return nil
		}
	case nil:
		if op.Op == opTest {
			return nil
		}
		return fmt.Errorf("%s: would leave no section %q: add {} instead of removing it", op, key)
	default:
		return fmt.Errorf("%s: would make the section %q %s: it must be a map", op, key, tree.Kind(v))
	}
	return fmt.Errorf("%s: would make the section %q a list: it must be a map", op, key)
}

// applyOp applies one operation to document, which it modifies.
func applyOp(document Values, op Op) error {
	path := segments(op.Path)
	value, err := decodeValue(op.Value)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if op.Op == opAdd && len(path) > 1 && document[path[0]] == nil {
		document[path[0]] = map[string]any{}
	}
	if _, err := edit(map[string]any(document), path, op.Op, value); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// edit follows the path from node, and applies the operation at the end of the path. It returns the new node, because
// a list may have been reallocated.
func edit(node any, path []string, op string, value any) (any, error) {
	if len(path) == 1 {
		return editLeaf(node, path[0], op, value)
	}
	switch node := node.(type) {
	case map[string]any:
		child, found := node[path[0]]
		if !found {
			return nil, fmt.Errorf("the path contains %q, which does not exist: add it first, as a map", path[0])
		}
		edited, err := edit(child, path[1:], op, value)
		if err != nil {
			return nil, err
		}
		node[path[0]] = edited
		return node, nil
	case []any:
		i, err := index(path[0], len(node))
		if err != nil {
			return nil, err
		}
		edited, err := edit(node[i], path[1:], op, value)
		if err != nil {
			return nil, err
		}
		node[i] = edited
		return node, nil
	default:
		return nil, notContainer(node, path[0])
	}
}

// editLeaf applies the operation to the child of node with this name. The name is the last one of the operation's
// path.
func editLeaf(node any, name, op string, value any) (any, error) {
	switch node := node.(type) {
	case map[string]any:
		return node, editMap(node, name, op, value)
	case []any:
		return editList(node, name, op, value)
	default:
		return nil, notContainer(node, name)
	}
}

func editMap(node map[string]any, name, op string, value any) error {
	held, found := node[name]
	switch op {
	case opAdd:
		node[name] = value
		return nil
	case opRemove:
		if !found {
			return fmt.Errorf("there is no %q to remove", name)
		}
		delete(node, name)
		return nil
	default:
		return test(held, value)
	}
}

func editList(node []any, name, op string, value any) (any, error) {
	switch op {
	case opAdd:
		if name == "-" {
			return append(node, value), nil
		}
		i, err := index(name, len(node)+1)
		if err != nil {
			return nil, err
		}
		return slices.Insert(node, i, value), nil
	case opRemove:
		i, err := index(name, len(node))
		if err != nil {
			return nil, err
		}
		return slices.Delete(node, i, i+1), nil
	default:
		i, err := index(name, len(node))
		if err != nil {
			return nil, err
		}
		return node, test(node[i], value)
	}
}

// test returns an error if the current value, the argument held, differs from the expected value. If there is no
// current value, held is nil.
func test(held, expected any) error {
	changed, err := Changed(held, expected)
	if err == nil && changed {
		return errors.New("the test failed: the value is different")
	}
	return err
}

// index converts a name in a path to an index of a list. The argument places is the number of valid
// indexes, which begin at 0.
func index(name string, places int) (int, error) {
	i, err := strconv.Atoi(name)
	if err != nil {
		return 0, fmt.Errorf("%q is no index of a list", name)
	}
	if i < 0 {
		i += places
	}
	if i < 0 || i >= places {
		return 0, fmt.Errorf("index %s is out of range", name)
	}
	return i, nil
}

// notContainer returns the error for a path that continues with name below node, which is neither a map nor a list.
func notContainer(node any, name string) error {
	return fmt.Errorf("%q cannot be in %s: its parent must be a map or a list", name, tree.Kind(node))
}

// unescape undoes the escapes of JSON pointers (RFC 6901) in one name.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// segments returns the names of a path, which begins with a slash.
func segments(path string) []string {
	names := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, name := range names {
		names[i] = unescape.Replace(name)
	}
	return names
}
