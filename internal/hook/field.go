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

// problems collects all problems of one config, so that the author of the hook sees all of them at once.
type problems []error

// field is one value in a config, with its path. The path of the whole config is nil. If a value has a wrong type or
// is out of range, the methods add a problem to the list in the field wrong, and return the same as if the value was
// absent. So the rest of the config is read, too.
type field struct {
	path  *apifield.Path
	value any
	given bool
	// loose means that unknown keys, and keys with the value null, are treated as absent, in this field and in all
	// fields below it.
	loose bool
	wrong *problems
}

// object is a field whose value is a map. If the value is not a map, it is read as an empty map.
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

// child returns the field with this key. If the map does not have the key, the result has given set to false.
func (o object) child(key string) field {
	value, given := o.entries[key]
	return field{path: below(o.path, key), value: value, given: given && (!o.loose || value != nil), loose: o.loose, wrong: o.wrong}
}

// need returns the field with this key. If the map does not have the key, need reports a problem.
func (o object) need(key string) field {
	f := o.child(key)
	if !f.given && o.entries != nil {
		f.fail("is required")
	}
	return f
}

// object reads the field as a map. object reports each key that is not one of the known keys, unless f.loose is set.
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

// mapping reads the field as a map that may have any keys.
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

// list reads the field as a list. The argument least is the minimum number of items. list reports a problem if there
// are fewer items.
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

// text reads the field as a string. The argument absent is the result if the field is absent, invalid or an empty
// string. For compatibility, an empty string is not a problem.
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

// full reads the field as a string. full reports a problem if the string is empty.
func (f field) full() string {
	text := f.text("")
	if _, isText := f.value.(string); isText && text == "" {
		f.fail("must not be empty")
	}
	return text
}

// texts reads the field as a list of strings. texts reports a problem if the list is empty, and for each item that is
// invalid or an empty string. Such an item is "" in the result.
func (f field) texts() []string {
	var texts []string
	for _, item := range f.list(1) {
		texts = append(texts, item.full())
	}
	return texts
}

// distinct returns texts without duplicates, in the order of their first occurrence.
func distinct(texts []string) []string {
	var kept []string
	for _, text := range texts {
		if !slices.Contains(kept, text) {
			kept = append(kept, text)
		}
	}
	return kept
}

// oneOf reads the field as a string. If the string is not one of allowed, oneOf reports a problem and returns "".
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

// integer reads the field as an integer. integer reports a problem if the integer is not in the range from least to
// 2³¹-1. The argument absent is the result if the field is absent or invalid. integer accepts 10.0, because in JSON
// this is the same number as 10.
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
	case err != nil && value >= 0 || value > most:
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

// duration reads the field as a duration such as 1m30s. If the field is absent or invalid, the result is zero.
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

// below returns the path of the value with this key in the map at path. If the key has special characters, it is
// quoted, so that its dots do not look like separators.
func below(path *apifield.Path, key string) *apifield.Path {
	if plainKey.MatchString(key) {
		return path.Child(key)
	}
	return path.Key(strconv.Quote(tree.Excerpt(key)))
}

// nearest returns a hint for an unknown key. If a known key differs only in upper and lower case, the hint names that
// key. Otherwise the hint lists the known keys. If one of them is similar to the unknown key, the hint asks first
// whether that key was meant.
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

// quoteHint returns a hint if value was probably meant as a string, but is not in quotes in the YAML text, such as
// true or 1.
func quoteHint(value any) string {
	switch value.(type) {
	case bool, json.Number:
		return ": put it in quotes"
	default:
		return ""
	}
}
