package operation

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"addon-operator/internal/tree"
)

// text returns a field that is a string, empty where it is not given.
func (d *document) text(field string) string {
	value, given := d.fields[field]
	if !given || value == nil {
		return ""
	}
	text, ok := value.(string)
	if !ok {
		d.fail(field, "must be a string, not %s", tree.Kind(value))
	}
	return text
}

// need notes that a field, of the value text, is required. What was found wrong with it before is enough to know.
func (d *document) need(field, text string) {
	if value, given := d.fields[field]; text == "" && (!given || value == nil || value == "") {
		d.fail(field, "is required")
	}
}

// segment returns text, which is to be a part of a URL's path.
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
	value, given := d.fields[field]
	if !given || value == nil {
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
