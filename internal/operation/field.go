package operation

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

// text returns a field that is a string, empty where it is not given.
func (d *document) text(field string) string {
	value, given := d.fields[field]
	if !given || value == nil {
		return ""
	}
	text, ok := value.(string)
	if !ok {
		d.fail(field, "must be a string, not %s", kindOf(value))
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
		d.fail(field, "is %q, which %s", excerpt(text), problem)
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
		d.fail(field, "must be true or false, not %s", kindOf(value))
	}
	return flag
}

// excerpt bounds text that an error repeats.
func excerpt(text string) string {
	const most = 60
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most]) + "…"
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case []any:
		return "a list"
	default:
		return "a map"
	}
}

func sortedKeys(entries map[string]any) []string { return slices.Sorted(maps.Keys(entries)) }

func listed(all []Type) string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = string(t)
	}
	return strings.Join(names, ", ")
}
