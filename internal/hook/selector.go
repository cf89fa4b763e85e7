package hook

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"

	"addon-operator/internal/tree"
)

// FieldSelector selects objects by the values of their fields. An object must meet all
// requirements. An empty selector selects all objects.
type FieldSelector []FieldRequirement

// FieldRequirement requires that a field has, or does not have, a certain value.
type FieldRequirement struct {
	Field string `json:"field"`
	// Operator is "=" or "!=". Other spellings in the config are converted to these two.
	Operator string `json:"operator"`
	Value    string `json:"value"`
}

// String returns the selector in the form of the query parameter fieldSelector, with special characters escaped.
func (s FieldSelector) String() string {
	terms := make([]string, len(s))
	for i, r := range s {
		terms[i] = r.Field + r.Operator + fields.EscapeValue(r.Value)
	}
	return strings.Join(terms, ",")
}

func readNameSelector(f field) []string {
	if list, short := f.value.([]any); short {
		f.fail("must be a map, not a list of %d: put the names under matchNames", len(list))
		return nil
	}
	if !f.given {
		return nil
	}
	return distinct(readNames(f.object("matchNames").need("matchNames")))
}

// readNames reads the field as a list of object names.
func readNames(f field) []string {
	var names []string
	for _, item := range f.list(0) {
		names = append(names, checkName(item, item.full()))
	}
	return names
}

// checkName returns name, and reports a problem if name contains one of the characters / , = %. It checks nothing else.
func checkName(f field, name string) string {
	if strings.ContainsAny(name, "/,=%") {
		f.fail("%q is not a valid object name: it contains one of / , = %%", tree.Excerpt(name))
	}
	return name
}

// readNamespaceSelector reads the field "namespace" of a binding. If the field has a label selector, its names
// are ignored, for compatibility.
func readNamespaceSelector(f field) NamespaceSelector {
	if !f.given {
		return NamespaceSelector{}
	}
	o := f.object("nameSelector", "labelSelector")
	if o.entries != nil && len(o.entries) == 0 {
		f.fail("must have nameSelector or labelSelector")
	}
	s := NamespaceSelector{
		Names:         readNameSelector(o.child("nameSelector")),
		LabelSelector: readLabelSelector(o.child("labelSelector")),
	}
	if s.LabelSelector != nil {
		s.Names = nil
	}
	return s
}

func readLabelSelector(f field) *metav1.LabelSelector {
	if !f.given {
		return nil
	}
	o := f.object("matchLabels", "matchExpressions")
	if !o.child("matchLabels").given && !o.child("matchExpressions").given {
		if !f.loose && o.entries != nil && len(o.entries) == 0 {
			f.fail("must have matchLabels or matchExpressions")
		}
		return nil
	}
	selector := &metav1.LabelSelector{}
	for _, item := range o.child("matchExpressions").list(0) {
		selector.MatchExpressions = append(selector.MatchExpressions, readLabelRequirement(item))
	}
	labels := o.child("matchLabels")
	for key, value := range labels.ordered() {
		if selector.MatchLabels == nil {
			selector.MatchLabels = map[string]string{}
		}
		checkLabelKey(value, key)
		selector.MatchLabels[key] = readLabelValue(value)
	}
	return selector
}

// ordered iterates over the entries of f, which must be a map. Its keys may be any strings. The entries are sorted by
// key, so that errors are always in the same order.
func (f field) ordered() func(yield func(string, field) bool) {
	entries := f.mapping()
	o := object{field: f, entries: entries}
	return func(yield func(string, field) bool) {
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			if !yield(key, o.child(key)) {
				return
			}
		}
	}
}

func readLabelRequirement(f field) metav1.LabelSelectorRequirement {
	o := f.object("key", "operator", "values")
	key := o.need("key")
	r := metav1.LabelSelectorRequirement{
		Key: key.full(),
		Operator: metav1.LabelSelectorOperator(o.need("operator").oneOf(
			string(metav1.LabelSelectorOpIn), string(metav1.LabelSelectorOpNotIn),
			string(metav1.LabelSelectorOpExists), string(metav1.LabelSelectorOpDoesNotExist))),
	}
	if r.Key != "" {
		checkLabelKey(key, r.Key)
	}
	values := o.child("values")
	for _, item := range values.list(0) {
		r.Values = append(r.Values, readLabelValue(item))
	}
	switch r.Operator {
	case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
		if len(r.Values) == 0 {
			values.fail("must have at least one value for operator %s", r.Operator)
		}
	case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			values.fail("must be left out for operator %s", r.Operator)
		}
	}
	return r
}

func checkLabelKey(f field, key string) {
	if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
		f.fail("%q is no label key: %s", tree.Excerpt(key), strings.Join(wrong, "; "))
	}
}

// readLabelValue reads the value of a label, which may be empty.
func readLabelValue(f field) string {
	value := f.text("")
	if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 {
		f.fail("%q is no label value: %s", tree.Excerpt(value), strings.Join(wrong, "; "))
	}
	return value
}

func readFieldSelector(f field) FieldSelector {
	if !f.given {
		return nil
	}
	var selector FieldSelector
	for _, item := range f.object("matchExpressions").need("matchExpressions").list(0) {
		selector = append(selector, readFieldRequirement(item))
	}
	return selector
}

func readFieldRequirement(f field) FieldRequirement {
	o := f.object("field", "operator", "value")
	r := FieldRequirement{
		Field:    o.need("field").full(),
		Operator: o.need("operator").oneOf("=", "==", "Equals", "!=", "NotEquals"),
		Value:    o.need("value").text(""),
	}
	switch r.Operator {
	case "==", "Equals":
		r.Operator = "="
	case "NotEquals":
		r.Operator = "!="
	}
	return r
}
