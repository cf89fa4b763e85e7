package operation

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"addon-operator/internal/tree"
)

// text returns the string in a field. If the field is absent or null, text returns "". If the field
// is not a string, text reports a problem and returns "".
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

// need reports a problem if a required field is missing or empty. The parameter text is the result
// of d.text for this field. If d.text has already reported a problem with the field, need does not
// report another.
func (d *document) need(field, text string) {
	if value, found := d.fields[field]; text == "" && (!found || value == nil || value == "") {
		d.fail(field, "is required")
	}
}

// segment returns text. If text is not valid as a segment of a URL path, segment reports a problem.
func (d *document) segment(field, text string) string {
	if text == "" {
		return ""
	}
	for _, problem := range content.IsPathSegmentName(text) {
		d.fail(field, "is %q, which %s", tree.Excerpt(text), problem)
	}
	return text
}

// flag returns the boolean in a field. If the field is absent or null, flag returns false. In this
// field, the words that YAML 1.1 treats as booleans are booleans, too.
func (d *document) flag(field string) bool {
	switch value := d.fields[field].(type) {
	case nil:
		return false
	case bool:
		return value
	case string:
		switch strings.ToLower(value) {
		case "yes", "on", "y":
			return true
		case "no", "off", "n":
			return false
		}
	}
	d.fail(field, "must be true or false, not %s", tree.Kind(d.fields[field]))
	return false
}

func sortedKeys(entries map[string]any) []string { return slices.Sorted(maps.Keys(entries)) }

func listed(all []Type) string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = string(t)
	}
	return strings.Join(names, ", ")
}
