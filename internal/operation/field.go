package operation

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"addon-operator/internal/tree"
)

// text returns a string field, or "" if it is absent.
func (d *document) text(field string) string {
	value, found := d.fields[field]
	if !found || value == nil {
		return ""
	}
	text, ok := value.(string)
	if !ok {
		d.fail(field, "must be a string, not %s", tree.Kind(value))
	}
	return text
}

// need reports a missing required field, whose text is given. It reports nothing if text reported a
// problem before.
func (d *document) need(field, text string) {
	if value, found := d.fields[field]; text == "" && (!found || value == nil || value == "") {
		d.fail(field, "is required")
	}
}

// segment returns text, which must be valid as a segment of a URL path.
func (d *document) segment(field, text string) string {
	if text == "" {
		return ""
	}
	for _, problem := range content.IsPathSegmentName(text) {
		d.fail(field, "is %q, which %s", tree.Excerpt(text), problem)
	}
	return text
}

func (d *document) flag(field string) bool {
	value, found := d.fields[field]
	if !found || value == nil {
		return false
	}
	flag, ok := value.(bool)
	if !ok {
		d.fail(field, "must be true or false, not %s", tree.Kind(value))
	}
	return flag
}

func sortedKeys(entries map[string]any) []string { return slices.Sorted(maps.Keys(entries)) }

func listed(all []Type) string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = string(t)
	}
	return strings.Join(names, ", ")
}
