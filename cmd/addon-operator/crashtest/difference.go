package crashtest

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"addon-operator/internal/redact"
)

// A Difference is a field or an object that differs between the end of a round and the undisturbed
// run.
type Difference struct {
	// Of is the name of the object, the release or the values that differ, such as "ConfigMap shop/counter".
	Of string `json:"of"`
	// Field is the path of the field; empty if the object exists only in the round or only in the
	// undisturbed run.
	Field string `json:"field,omitempty"`
	// Want is the value in the undisturbed run, and Got is the value after the kill; nil if there is none. If Field is
	// empty, the value is "exists". A secret is redacted, and a long value is shortened.
	Want *string `json:"want"`
	Got  *string `json:"got"`
}

func (d Difference) String() string {
	value := func(s *string, absent string) string {
		if s == nil {
			return absent
		}
		return *s
	}
	if d.Field == "" {
		return fmt.Sprintf("%s: %s → %s", d.Of, value(d.Want, "does not exist"), value(d.Got, "does not exist"))
	}
	return fmt.Sprintf("%s: %s: %s → %s", d.Of, d.Field, value(d.Want, "(none)"), value(d.Got, "(none)"))
}

// longestValue is the maximum number of characters of a value that a report shows. If two long values differ,
// shownBefore is the number of shown characters before their first difference.
const (
	longestValue = 60
	shownBefore  = 20
)

// diff returns the differences between two states, sorted by object and field.
func diff(want, got state) (out []Difference) {
	for of := range union(want, got) {
		a, inWant := want[of]
		b, inGot := got[of]
		if !inWant || !inGot {
			out = append(out, Difference{Of: of.String(), Want: existence(inWant), Got: existence(inGot)})
			continue
		}
		for path := range union(a, b) {
			x, inA := a[path]
			y, inB := b[path]
			if inA != inB || x != y {
				x, y = excerpts(x, y)
				out = append(out, Difference{of.String(), path, shown(of, path, x, inA), shown(of, path, y, inB)})
			}
		}
	}
	slices.SortFunc(out, func(a, b Difference) int { return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Field, b.Field)) })
	return out
}

// union returns the set of the keys of a and b.
func union[K comparable, V any](a, b map[K]V) map[K]bool {
	keys := map[K]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	return keys
}

// excerpts shortens two values if one of them is longer than longestValue: it replaces their common
// beginning by an ellipsis, except the last shownBefore-1 common characters. Values whose common
// beginning has at most shownBefore characters stay unchanged.
func excerpts(a, b string) (x, y string) {
	first, second, same := []rune(a), []rune(b), 0
	if max(len(first), len(second)) <= longestValue {
		return a, b
	}
	for same < min(len(first), len(second)) && first[same] == second[same] {
		same++
	}
	if same <= shownBefore {
		return a, b
	}
	from := same - shownBefore + 1
	return "…" + string(first[from:]), "…" + string(second[from:])
}

func existence(is bool) *string {
	if !is {
		return nil
	}
	text := "exists"
	return &text
}

// shown returns a value of a field for the report: short, and without secrets.
func shown(of thing, path, value string, is bool) *string {
	if !is {
		return nil
	}
	if of.Kind == "Secret" && (strings.HasPrefix(path, "data") || strings.HasPrefix(path, "stringData")) || isSecret(path) {
		value = redact.Mark
	} else if value = strings.Join(strings.Fields(redact.Text(value)), " "); len([]rune(value)) > longestValue {
		value = string([]rune(value)[:longestValue]) + "…"
	}
	return &value
}

// pathPart matches a key in a path, which can be in brackets and quotes.
var pathPart = regexp.MustCompile(`\["(?:[^"\\]|\\.)*"\]|[^.\[\]]+`)

// isSecret reports whether path contains a field name that is usual for a secret, such as
// "password".
func isSecret(path string) bool {
	return slices.ContainsFunc(pathPart.FindAllString(path, -1), func(part string) bool {
		if key, err := strconv.Unquote(strings.Trim(part, "[]")); err == nil {
			part = key
		}
		return redact.Secret(part)
	})
}

// noise has the things (objects, releases and values) and the fields that differ between the two undisturbed runs. The
// comparison of rounds ignores these things and fields.
type noise struct {
	// things has the things that exist in only one of the undisturbed runs, because their names are random. The
	// comparison does not compare these things, but their number for each kind and namespace. This number includes
	// other things of the kind and namespace, if the undisturbed state does not have them.
	things map[thing]bool
	// fields has the paths of fields whose values differ, by thing.
	fields map[thing]map[string]bool
}

// findNoise returns the differences between two undisturbed runs.
func findNoise(a, b state) noise {
	n := noise{map[thing]bool{}, map[thing]map[string]bool{}}
	for of := range union(a, b) {
		x, inA := a[of]
		y, inB := b[of]
		if !inA || !inB {
			n.things[of] = true
			continue
		}
		for path := range union(x, y) {
			v, inX := x[path]
			w, inY := y[path]
			if inX != inY || v != w {
				if n.fields[of] == nil {
					n.fields[of] = map[string]bool{}
				}
				n.fields[of][path] = true
			}
		}
	}
	return n
}

// texts names the things and fields that are not compared, sorted.
func (n noise) texts() (out []string) {
	for of, paths := range n.fields {
		for path := range paths {
			out = append(out, of.String()+": "+path)
		}
	}
	for of := range n.things {
		out = append(out, of.String())
	}
	slices.Sort(out)
	return out
}

// apply returns s without the noise. If some things of a kind in a namespace have random names, apply also removes the
// things of this kind and namespace that the state want does not have. In place of all removed things of the kind and
// namespace, the result has their number.
func (n noise) apply(s, want state) state {
	random := map[thing]bool{}
	for of := range n.things {
		random[thing{Kind: of.Kind, Namespace: of.Namespace}] = true
	}
	out, numbers := state{}, map[thing]int{}
	for of, f := range s {
		group := thing{Kind: of.Kind, Namespace: of.Namespace}
		if _, known := want[of]; n.things[of] || !known && random[group] {
			numbers[group]++
			continue
		}
		f = maps.Clone(f)
		maps.DeleteFunc(f, func(path, _ string) bool { return n.fields[of][path] })
		out[of] = f
	}
	for group := range random {
		group.Name = "(random names)"
		out[group] = fields{"number": fmt.Sprint(numbers[thing{Kind: group.Kind, Namespace: group.Namespace}])}
	}
	return out
}
