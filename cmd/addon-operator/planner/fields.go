package planner

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/internal/dryrun"
	"addon-operator/internal/kube"
	"addon-operator/internal/tree"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

func subjectOf(module string) graph.Subject { return graph.Subject{Module: module} }

// object returns the description of the change c of one object.
func (p *planner) object(c dryrun.Change) inspect.PlanObject {
	is := c.After
	if is == nil {
		is = c.Before
	}
	o := inspect.PlanObject{APIVersion: is.GetAPIVersion(), Kind: is.GetKind(), Namespace: is.GetNamespace(), Name: is.GetName(), Note: c.Note}
	switch {
	case c.Before == nil:
		o.Action = inspect.ObjectCreated
		return o
	case c.After == nil:
		o.Action = inspect.ObjectDeleted
		return o
	}
	o.Action = inspect.ObjectChanged
	if from, to := owner(c.Before), owner(c.After); from != to && from != "" {
		o.Action, o.From = inspect.ObjectHandedOver, from
	}
	o.Fields = p.fieldChanges(dryrun.Content(c.Before.Object), dryrun.Content(c.After.Object))
	return o
}

// owner returns the name of the Helm release that an object belongs to; empty if it belongs to
// none.
func owner(o *unstructured.Unstructured) string {
	name, _ := kube.ReleaseIn(o.GetAnnotations())
	return name
}

// fieldChanges returns the fields in which two trees differ, with secrets masked.
func (p *planner) fieldChanges(before, after map[string]any) []inspect.FieldChange {
	changes, err := FieldChanges(before, after, p.hide)
	if err != nil {
		return []inspect.FieldChange{{Path: "(not comparable: " + err.Error() + ")"}}
	}
	return changes
}

// FieldChanges returns the fields in which two trees differ, sorted by path. The function hide
// replaces secrets in the returned values. A field whose values differ is returned even if hide
// replaces both values.
func FieldChanges(before, after map[string]any, hide func(any) (any, error)) ([]inspect.FieldChange, error) {
	a, err := parts(before, hide)
	if err != nil {
		return nil, err
	}
	b, err := parts(after, hide)
	if err != nil {
		return nil, err
	}
	var d differ
	d.compare("", a, b)
	slices.SortFunc(d.changes, func(a, b inspect.FieldChange) int { return strings.Compare(a.Path, b.Path) })
	return d.changes, nil
}

// parts returns a field with the whole tree v. The real value of the field is v in the types of decoded JSON. The value
// for people is the result of hide.
func parts(v map[string]any, hide func(any) (any, error)) (f field, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return field{}, err
	}
	if f.is, err = tree.Decode(text); err != nil {
		return field{}, err
	}
	f.shown, err = hide(f.is)
	return f, err
}

// A field is a part of a tree, with its real value and its value for people.
type field struct{ is, shown any }

func (f field) at(key string) field {
	is, _ := f.is.(map[string]any)
	shown, _ := f.shown.(map[string]any)
	return field{is[key], shown[key]}
}

func (f field) item(i int) field {
	is, _ := f.is.([]any)
	shown, _ := f.shown.([]any)
	if i < 0 || i >= len(is) || i >= len(shown) {
		return field{}
	}
	return field{is[i], shown[i]}
}

// A differ collects the fields in which two trees differ.
type differ struct{ changes []inspect.FieldChange }

// compare adds the fields in which a and b differ. a and b are at path.
func (d *differ) compare(path string, a, b field) {
	if reflect.DeepEqual(a.is, b.is) {
		return
	}
	before, isMap := a.is.(map[string]any)
	after, alsoMap := b.is.(map[string]any)
	if isMap && alsoMap {
		for key := range before {
			d.compare(join(path, key), a.at(key), b.at(key))
		}
		for key := range after {
			if _, had := before[key]; !had {
				d.compare(join(path, key), field{}, b.at(key))
			}
		}
		return
	}
	old, isList := a.is.([]any)
	now, alsoList := b.is.([]any)
	if isList && alsoList && d.lists(path, a, b, old, now) {
		return
	}
	d.changes = append(d.changes, inspect.FieldChange{Path: path, Old: a.shown, New: b.shown})
}

// lists compares two lists item by item and returns true. If the items of a list have no unique
// names, and the lists have different lengths, lists compares nothing and returns false.
func (d *differ) lists(path string, a, b field, old, now []any) bool {
	before, named := names(old)
	after, alsoNamed := names(now)
	if named && alsoNamed {
		for i, name := range before {
			d.compare(path+"["+name+"]", a.item(i), b.item(slices.Index(after, name)))
		}
		for i, name := range after {
			if !slices.Contains(before, name) {
				d.compare(path+"["+name+"]", field{}, b.item(i))
			}
		}
		return true
	}
	if len(old) != len(now) {
		return false
	}
	for i := range old {
		d.compare(fmt.Sprintf("%s[%d]", path, i), a.item(i), b.item(i))
	}
	return true
}

// names returns the names of the items of a list. ok is false if an item has no name, or if two
// items have the same name.
func names(list []any) (all []string, ok bool) {
	for _, item := range list {
		fields, _ := item.(map[string]any)
		name, _ := fields["name"].(string)
		if name == "" || slices.Contains(all, name) {
			return nil, false
		}
		all = append(all, name)
	}
	return all, true
}

// join returns the path of the field with the given key in the map at path.
func join(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./[]"):
		return path + "[" + key + "]"
	case path == "":
		return key
	default:
		return path + "." + key
	}
}
