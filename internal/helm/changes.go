package helm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Change is the difference of one object between two manifests.
type Change struct {
	Object

	// Added is true if only the new manifest contains the object. Removed is true if only the old manifest contains
	// it.
	Added, Removed bool

	// Fields are the sorted paths of the fields that differ, such as "spec.replicas". If a list differs, its path is
	// given, and not the paths of its elements.
	Fields []string
}

// String returns the object and its changed fields without their values, as in "ConfigMap default/settings
// (data.size)". If more than three fields differ, it names three and the number of the others.
func (c Change) String() string {
	switch {
	case c.Added:
		return c.Object.String() + " (added)"
	case c.Removed:
		return c.Object.String() + " (removed)"
	default:
		return c.Object.String() + " (" + firstOf(c.Fields) + ")"
	}
}

// Changes compares m with the manifest of a revision of the release. The changes of objects in m come first, in the
// order of m, and the removed objects follow. Changes sends one request.
func (c *Client) Changes(name string, revision int, m Manifest) ([]Change, error) {
	old, err := c.records.storage().Get(name, revision)
	if err != nil {
		return nil, fmt.Errorf("read revision %d of release %q: %w", revision, name, err)
	}
	changes, err := compare(old.Manifest, m.Text)
	if err != nil {
		return nil, fmt.Errorf("compare the manifest of release %q with its revision %d: %w", name, revision, err)
	}
	return changes, nil
}

// ChangesText describes changes in one line. It names up to three objects with their changed fields, without values,
// and the number of the other changed objects.
func ChangesText(changes []Change) string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = c.String()
	}
	return firstOf(texts)
}

// firstOf joins the first three texts with commas, and appends the number of the others, if any.
func firstOf(texts []string) string {
	const most = 3
	if more := len(texts) - most; more > 0 {
		texts = append(slices.Clone(texts[:most]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
}

// compare returns the changes between two manifests. The argument before is the older manifest, and after is the newer
// one.
func compare(before, after string) ([]Change, error) {
	was, err := read(before)
	if err != nil {
		return nil, err
	}
	is, err := read(after)
	if err != nil {
		return nil, err
	}
	old := map[Object]*yaml.RNode{}
	for _, n := range was {
		old[identity(n)] = n
	}
	var changes []Change
	for _, n := range is {
		key := identity(n)
		if old[key] == nil {
			changes = append(changes, Change{Object: named(n), Added: true})
			continue
		}
		fields, err := differing(old[key], n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", named(n), err)
		}
		if delete(old, key); len(fields) > 0 {
			changes = append(changes, Change{Object: named(n), Fields: fields})
		}
	}
	for _, n := range was {
		if old[identity(n)] == n {
			changes = append(changes, Change{Object: named(n), Removed: true})
		}
	}
	return changes, nil
}

func named(n *yaml.RNode) Object {
	return Object{APIVersion: n.GetApiVersion(), Kind: n.GetKind(), Namespace: n.GetNamespace(), Name: n.GetName()}
}

// differing returns the sorted paths of the fields in which two objects differ. These are the
// fields of the merge patch (RFC 7386) that changes a into b.
func differing(a, b *yaml.RNode) ([]string, error) {
	before, err := a.MarshalJSON()
	if err != nil {
		return nil, err
	}
	after, err := b.MarshalJSON()
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return nil, err
	}
	var fields any
	if err := json.Unmarshal(patch, &fields); err != nil {
		return nil, err
	}
	paths := leaves(nil, "", fields)
	slices.Sort(paths)
	return paths, nil
}

// leaves appends the paths of all values in tree that are not maps, and of empty maps. The argument at is the path of
// tree itself, "" for the root.
func leaves(paths []string, at string, tree any) []string {
	fields, ok := tree.(map[string]any)
	if !ok || len(fields) == 0 && at != "" {
		return append(paths, at)
	}
	for name, value := range fields {
		path := name
		if at != "" {
			path = at + "." + name
		}
		paths = leaves(paths, path, value)
	}
	return paths
}
