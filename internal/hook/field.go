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

// problems collects all problems of one config, so that its author sees them at once.
type problems []error

// field is one value of a config and its path. The path of the whole config is nil. If a value has
// the wrong type or is out of range, its problem is added to wrong, and the value is read as if it
// were absent. So reading continues after every problem.
type field struct {
	path  *apifield.Path
	value any
	given bool
	// loose treats unknown keys and null values as absent, in this field and all fields below.
	loose bool
	wrong *problems
}

// object is a field that is a map. Any other field is read as an empty map.
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

// child returns the field under key. If the key is absent, the field is not given.
func (o object) child(key string) field {
	value, given := o.entries[key]
	return field{path: below(o.path, key), value: value, given: given && (!o.loose || value != nil), loose: o.loose, wrong: o.wrong}
}

// need returns the field under a required key. If the key is missing, need reports a problem.
func (o object) need(key string) field {
	f := o.child(key)
	if !f.given && o.entries != nil {
		f.fail("is required")
	}
	return f
}

// object reads a map. It reports each key that is not in known, unless f is loose.
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

// mapping reads a map with arbitrary keys.
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

// text reads a string. If the field is absent, invalid or empty, text returns absent. It treats an
// empty string as absent for compatibility.
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

// full reads a string that must not be empty.
func (f field) full() string {
	text := f.text("")
	if _, isText := f.value.(string); isText && text == "" {
		f.fail("must not be empty")
	}
	return text
}

// texts reads a non-empty list of non-empty strings. An invalid item is reported and read as "".
func (f field) texts() []string {
	var texts []string
	for _, item := range f.list(1) {
		texts = append(texts, item.full())
	}
	return texts
}

// distinct removes duplicates and keeps the order.
func distinct(texts []string) []string {
	var kept []string
	for _, text := range texts {
		if !slices.Contains(kept, text) {
			kept = append(kept, text)
		}
	}
	return kept
}

// oneOf reads a string from a fixed set.
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

// integer reads an integer from least to 2³¹-1. It accepts 10.0, because JSON does not distinguish
// 10.0 from 10.
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

// duration reads a duration such as 1m30s. If the field is absent or invalid, the duration is zero.
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

// below returns the path of a key. A key with special characters is quoted, so that its dots are
// not read as path separators.
func below(path *apifield.Path, key string) *apifield.Path {
	if plainKey.MatchString(key) {
		return path.Child(key)
	}
	return path.Key(strconv.Quote(tree.Excerpt(key)))
}

// nearest returns a hint for the unknown key: the most similar known key and the list of known
// keys, or only one of the two.
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

// quoteHint returns a hint for an unquoted true or 1 in YAML.
func quoteHint(value any) string {
	switch value.(type) {
	case bool, json.Number:
		return ": put it in quotes"
	default:
		return ""
	}
}
