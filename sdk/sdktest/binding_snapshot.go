package sdktest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"addon-operator/internal/hook"
	"addon-operator/internal/jq"
)

// bindingSnapshot is the snapshot of one kubernetes binding.
type bindingSnapshot struct {
	binding    hook.KubernetesBinding
	objects    *objects
	filter     *jq.Filter
	labels     labels.Selector
	namespaces labels.Selector // nil if the binding does not select namespaces by labels
	seen       map[id]look
}

// look is the last known state of an object in the snapshot of a binding.
type look struct {
	item hook.Item
	// mark is the result of the jqFilter or, if the binding has no filter, the whole object. If mark changes, the hook
	// gets an event of type Modified.
	mark string
}

func newBindingSnapshot(b hook.KubernetesBinding, objects *objects) (*bindingSnapshot, error) {
	s := &bindingSnapshot{binding: b, objects: objects, labels: labels.Everything(), seen: map[id]look{}}
	var err error
	if s.filter, err = jq.Compile(b.JqFilter); err != nil {
		return nil, err
	}
	if b.LabelSelector != nil {
		if s.labels, err = metav1.LabelSelectorAsSelector(b.LabelSelector); err != nil {
			return nil, err
		}
	}
	if b.Namespaces.LabelSelector != nil {
		s.namespaces, err = metav1.LabelSelectorAsSelector(b.Namespaces.LabelSelector)
	}
	return s, err
}

// selects reports whether the binding selects an object.
func (s *bindingSnapshot) selects(object *unstructured.Unstructured) bool {
	b := s.binding
	switch {
	case !isKind(object, b.APIVersion, b.Kind),
		len(b.NameSelector) > 0 && !slices.Contains(b.NameSelector, object.GetName()),
		!s.labels.Matches(labels.Set(object.GetLabels())),
		len(b.Namespaces.Names) > 0 && !slices.Contains(b.Namespaces.Names, object.GetNamespace()):
		return false
	}
	for _, r := range b.FieldSelector {
		value, _, _ := unstructured.NestedFieldNoCopy(object.Object, strings.Split(r.Field, ".")...) // nil if the field does not exist
		text := ""
		if value != nil {
			text = fmt.Sprint(value)
		}
		if (text == r.Value) != (r.Operator == "=") {
			return false
		}
	}
	if s.namespaces == nil {
		return true
	}
	namespace := s.objects.find("v1", "Namespace", "", object.GetNamespace())
	return namespace != nil && s.namespaces.Matches(labels.Set(namespace.GetLabels()))
}

// change updates the snapshot to the new state of an object, which is nil if the object was deleted. It returns the
// type of the resulting event, Added, Modified or Deleted, or "" if the change causes no event.
func (s *bindingSnapshot) change(ctx context.Context, key id, object *unstructured.Unstructured) (string, hook.Item, error) {
	before, had := s.seen[key]
	if object == nil || !s.selects(object) {
		if !had {
			return "", hook.Item{}, nil
		}
		delete(s.seen, key)
		return hook.Deleted, before.item, nil
	}
	text, err := object.MarshalJSON()
	if err != nil {
		return "", hook.Item{}, err
	}
	result, err := s.filter.Apply(ctx, jq.NewInput(text))
	if err != nil { // the snapshot keeps the previous state
		return "", hook.Item{}, err
	}
	now := look{mark: string(text)}
	if result != nil {
		now.mark, now.item.FilterResult = string(result), result
	}
	if s.binding.KeepFullObjects {
		now.item.Object = json.RawMessage(text)
	}
	s.seen[key] = now
	switch {
	case !had:
		return hook.Added, now.item, nil
	case before.mark != now.mark:
		return hook.Modified, now.item, nil
	default:
		return "", hook.Item{}, nil
	}
}

// items returns all objects of the snapshot, sorted by namespace and name.
func (s *bindingSnapshot) items() []hook.Item {
	keys := slices.SortedFunc(maps.Keys(s.seen), func(a, b id) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	items := make([]hook.Item, len(keys))
	for i, key := range keys {
		items[i] = s.seen[key].item
	}
	return items
}
