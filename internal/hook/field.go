package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	apifield "k8s.io/apimachinery/pkg/util/validation/field"

	"addon-operator/internal/schema"
	"addon-operator/internal/tree"
)

// problems collects what is wrong in one config, so that its author sees all of it at once.
type problems []error

// field is one value of a config under its path, nil for the whole config. Reading it as a type it is not, or out of its range, adds to wrong and
// gives the fallback, so that reading goes on behind every mistake.
type field struct {
	path  *apifield.Path
	value any
	given bool
	// loose makes keys that are not known count as absent, here and below, and null as well.
	loose bool
	wrong *problems
}

// object is a field that is a map. A field that is none reads as an empty one.
type object struct {
	field
	entries map[string]any
}

func (f field) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if f.path != nil {
		text = f.path.String() + ": " + text
	}
	*f.wrong = append(*f.wrong, errors.New(text))
}

// child is the field under key, given or not.
func (o object) child(key string) field {
	value, given := o.entries[key]
	return field{path: below(o.path, key), value: value, given: given && (!o.loose || value != nil), loose: o.loose, wrong: o.wrong}
}

// need is child, and wrong when the key is missing from what is a map.
func (o object) need(key string) field {
	f := o.child(key)
	if !f.given && o.entries != nil {
		f.fail("is required")
	}
	return f
}

// object reads a map and names every key that is not known, unless it is read loosely.
func (f field) object(known ...string) object {
	entries := f.mapping()
	o := object{field: f, entries: entries}
	if f.loose {
		return o
	}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if !slices.Contains(known, key) {
			o.child(key).fail("is no known key%s", nearest(key, known))
		}
	}
	return o
}

// mapping reads a map whose keys are free.
func (f field) mapping() map[string]any {
	if !f.given {
		return nil
	}
	entries, ok := f.value.(map[string]any)
	if !ok {
		f.fail("must be a map, not %s", tree.Kind(f.value))
	}
	return entries
}

// list reads a list with at least least items.
func (f field) list(least int) []field {
	if !f.given {
		return nil
	}
	values, ok := f.value.([]any)
	if !ok {
		f.fail("must be a list, not %s", tree.Kind(f.value))
		return nil
	}
	if len(values) < least {
		f.fail("must not be empty")
	}
	items := make([]field, len(values))
	for i, value := range values {
		items[i] = field{path: f.path.Index(i), value: value, given: true, loose: f.loose, wrong: f.wrong}
	}
	return items
}

// text reads a string; an empty one counts as absent, as the field's existing readers take it.
func (f field) text(absent string) string {
	if !f.given {
		return absent
	}
	text, ok := f.value.(string)
	if !ok {
		f.fail("must be a string, not %s%s", tree.Kind(f.value), quoteHint(f.value))
		return absent
	}
	if text == "" {
		return absent
	}
	return text
}

// full reads a string that must hold something.
func (f field) full() string {
	text := f.text("")
	if _, isText := f.value.(string); isText && text == "" {
		f.fail("must not be empty")
	}
	return text
}

// texts reads a list, not an empty one, of strings that each hold something. An item that does not is wrong and "".
func (f field) texts() []string {
	var texts []string
	for _, item := range f.list(1) {
		texts = append(texts, item.full())
	}
	return texts
}

// distinct keeps the first of equal texts, in their order.
func distinct(texts []string) []string {
	var kept []string
	for _, text := range texts {
		if !slices.Contains(kept, text) {
			kept = append(kept, text)
		}
	}
	return kept
}

// oneOf reads a string out of a closed set.
func (f field) oneOf(allowed ...string) string {
	if !f.given {
		return ""
	}
	text, ok := f.value.(string)
	switch {
	case !ok:
		f.fail("must be a string, not %s", tree.Kind(f.value))
	case !slices.Contains(allowed, text):
		f.fail("is %q, must be one of %s", tree.Excerpt(text), strings.Join(allowed, ", "))
	default:
		return text
	}
	return ""
}

func (f field) flag(absent bool) bool {
	if !f.given {
		return absent
	}
	flag, ok := f.value.(bool)
	if !ok {
		f.fail("must be true or false, not %s", tree.Kind(f.value))
		return absent
	}
	return flag
}

// integer reads a whole number from least to 2³¹-1. 10.0 is one: JSON does not tell it from 10.
func (f field) integer(least, absent int) int {
	if !f.given {
		return absent
	}
	number, ok := f.value.(json.Number)
	if !ok {
		f.fail("must be an integer, not %s", tree.Kind(f.value))
		return absent
	}
	const most = 1<<31 - 1
	value, err := strconv.ParseFloat(number.String(), 64)
	switch {
	case err != nil || value > most:
		f.fail("is %s, must be at most %d", number, most)
	case value < float64(least):
		f.fail("is %s, must be at least %d", number, least)
	case value != float64(int(value)):
		f.fail("is %s, must be an integer", number)
	default:
		return int(value)
	}
	return absent
}

// duration reads a length of time, such as 1m30s; absent it is zero.
func (f field) duration() time.Duration {
	text := f.full()
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		f.fail("is %q, must be a duration such as 30s or 1m30s", tree.Excerpt(text))
		return 0
	case d < 0:
		f.fail("is %s, must not be negative", text)
		return 0
	}
	return d
}

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// below returns the path of a key. A key that is no plain word is quoted, so that its dots are not read as steps.
func below(path *apifield.Path, key string) *apifield.Path {
	if plainKey.MatchString(key) {
		return path.Child(key)
	}
	return path.Key(strconv.Quote(tree.Excerpt(key)))
}

// nearest hints at the key that was meant, else lists what is known.
func nearest(key string, known []string) string {
	for _, k := range known {
		if strings.EqualFold(k, key) {
			return fmt.Sprintf(", write %s", k)
		}
	}
	hint := ", known are " + strings.Join(known, ", ")
	if near := schema.Nearest(key, known); near != "" {
		hint = fmt.Sprintf(", did you mean %s?%s", near, hint[1:])
	}
	return hint
}

// quoteHint helps with the unquoted true or 1 of YAML.
func quoteHint(value any) string {
	switch value.(type) {
	case bool, json.Number:
		return ": put it in quotes"
	default:
		return ""
	}
}
