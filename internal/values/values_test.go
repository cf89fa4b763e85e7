package values_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/internal/values"
)

// doc decodes a JSON object. If the text is not a JSON object, it fails the test.
func doc(t testing.TB, text string) values.Values {
	t.Helper()
	var v values.Values
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("test data %s: %v", text, err)
	}
	return v
}

// canonical returns the canonical text of a value that JSON can represent.
func canonical(t rapid.TB, v any) string {
	t.Helper()
	text, err := values.Canonical(v)
	if err != nil {
		t.Fatalf("Canonical(%v): %v", v, err)
	}
	return string(text)
}

// scalars generates random scalars.
func scalars() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.Just[any](nil),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.Int64(), func(i int64) any { return i }),
		// The text of -0 is decoded as the integer 0, which differs from -0. So 0 is added, which turns -0 into 0.
		rapid.Map(rapid.Float64Range(-1e300, 1e300), func(f float64) any { return f + 0 }),
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.SampledFrom([]string{"", "y", "no", "true", "1e3", "0x1f", "010", "12:30", "~", "null", "<<", "2020-01-02", "- a", "a: b", "#", "\t", "\n", "\u007f", "\u0085", "\u2028", "\ufeff"}),
			func(s string) any { return s }),
	)
}

// names generates only a few different keys, so that generated documents have common keys.
var names = rapid.SampledFrom([]string{"a", "b", "c", "a/b", "~", "y", "1", ""})

// anything generates any JSON value up to a depth.
func anything(depth int) *rapid.Generator[any] {
	if depth == 0 {
		return scalars()
	}
	return rapid.OneOf(
		scalars(),
		rapid.Map(rapid.SliceOfN(anything(depth-1), 0, 3), func(l []any) any { return l }),
		rapid.Map(objects(depth-1), func(v values.Values) any { return map[string]any(v) }),
	)
}

// objects generates any JSON object up to a depth.
func objects(depth int) *rapid.Generator[values.Values] {
	return rapid.Map(rapid.MapOfN(names, anything(depth), 0, 4), func(m map[string]any) values.Values { return m })
}

// regular generates objects in which all values above a depth are maps, and all values at this depth
// are scalars. So if such objects are merged, no layer replaces a map by another type.
func regular(depth int) *rapid.Generator[values.Values] {
	under := scalars()
	if depth > 0 {
		under = rapid.Map(regular(depth-1), func(v values.Values) any { return map[string]any(v) })
	}
	return rapid.Map(rapid.MapOfN(names, under, 0, 4), func(m map[string]any) values.Values { return m })
}

func TestMergeTakesMapsDeepAndReplacesTheRest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, low, high, want string }{
		{"maps are merged at every depth", `{"m":{"a":1,"b":{"c":1,"d":1}}}`, `{"m":{"b":{"d":2,"e":2}}}`, `{"m":{"a":1,"b":{"c":1,"d":2,"e":2}}}`},
		{"a list replaces a list", `{"m":{"l":[1,2,3]}}`, `{"m":{"l":[4]}}`, `{"m":{"l":[4]}}`},
		{"an empty list replaces a list", `{"m":{"l":[1]}}`, `{"m":{"l":[]}}`, `{"m":{"l":[]}}`},
		{"maps in lists are not merged", `{"l":[{"a":1}]}`, `{"l":[{"b":2}]}`, `{"l":[{"b":2}]}`},
		{"a scalar replaces a map", `{"m":{"a":{"b":1}}}`, `{"m":{"a":1}}`, `{"m":{"a":1}}`},
		{"a map replaces a scalar", `{"m":{"a":1}}`, `{"m":{"a":{"b":1}}}`, `{"m":{"a":{"b":1}}}`},
		{"a list replaces a section", `{"m":{"a":1}}`, `{"m":[1]}`, `{"m":[1]}`},
		{"null overrides", `{"m":{"a":{"b":1},"c":1}}`, `{"m":{"a":null}}`, `{"m":{"a":null,"c":1}}`},
		{"an empty map changes nothing", `{"m":{"a":1}}`, `{"m":{}}`, `{"m":{"a":1}}`},
		{"false and zero override", `{"m":{"a":true,"b":1,"c":"x"}}`, `{"m":{"a":false,"b":0,"c":""}}`, `{"m":{"a":false,"b":0,"c":""}}`},
		{"nothing over nothing", `{}`, `{}`, `{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := values.Merge(doc(t, c.low), doc(t, c.high))
			if diff := cmp.Diff(doc(t, c.want), got); diff != "" {
				t.Errorf("Merge(%s, %s) (-want +got):\n%s", c.low, c.high, diff)
			}
		})
	}
}

func TestMergeOfNothingIsAnEmptyDocument(t *testing.T) {
	t.Parallel()
	for _, got := range []values.Values{values.Merge(), values.Merge(nil), values.Merge(nil, nil)} {
		if got == nil || len(got) != 0 {
			t.Errorf("got %#v, want an empty document that can be written to", got)
		}
	}
}

func TestMergeLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := objects(3).Draw(t, "a"), objects(3).Draw(t, "b"), objects(3).Draw(t, "c")
		want := canonical(t, values.Merge(a, b, c))
		if got := canonical(t, values.Merge(values.Merge(a, b), c)); got != want {
			t.Fatalf("not folded from the left: %s, want %s", got, want)
		}
		if got, want := canonical(t, values.Merge(a, nil)), canonical(t, a); got != want {
			t.Fatalf("nothing is no identity on the right: %s, want %s", got, want)
		}
		if got, want := canonical(t, values.Merge(nil, a)), canonical(t, a); got != want {
			t.Fatalf("nothing is no identity on the left: %s, want %s", got, want)
		}
		if got, want := canonical(t, values.Merge(a, a)), canonical(t, a); got != want {
			t.Fatalf("a document merged with itself changed: %s, want %s", got, want)
		}
		for key, v := range b {
			if _, isMap := v.(map[string]any); !isMap && canonical(t, values.Merge(a, b)[key]) != canonical(t, v) {
				t.Fatalf("%q of the higher layer did not win", key)
			}
		}
	})
}

func TestMergeIsAssociativeWhereNoMapIsReplaced(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := regular(2).Draw(t, "a"), regular(2).Draw(t, "b"), regular(2).Draw(t, "c")
		left, right := values.Merge(values.Merge(a, b), c), values.Merge(a, values.Merge(b, c))
		if canonical(t, left) != canonical(t, right) {
			t.Fatalf("(ab)c = %s, a(bc) = %s", canonical(t, left), canonical(t, right))
		}
	})
}

// scribble changes every map and list in v.
func scribble(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, under := range v {
			scribble(under)
		}
		v["scribbled"] = true
	case values.Values:
		scribble(map[string]any(v))
	case []any:
		for i, element := range v {
			scribble(element)
			v[i] = "scribbled"
		}
	}
}

func TestNothingComposedSharesMemoryWithWhatItWasMadeOf(t *testing.T) {
	t.Parallel()
	ops := patch(t, `{"op":"add","path":"/a/new","value":{"x":[{"y":1}]}}`)
	saved := values.MergePatches(nil, ops, "hook")
	for name, compose := range map[string]func(a, b values.Values) any{
		"Merge": func(a, b values.Values) any { return values.Merge(a, b) },
		"Apply": func(a, _ values.Values) any {
			patched, err := values.Apply(a, ops)
			if err != nil {
				return values.Values{}
			}
			return patched
		},
		"Replay": func(a, _ values.Values) any {
			replayed, _ := values.Replay(a, saved)
			return replayed
		},
		"HookConfigValues": func(a, _ values.Values) any {
			return values.Layers{Config: values.Config{Sections: a}}.HookConfigValues("a")
		},
		"HookValues": func(a, b values.Values) any {
			l := values.Layers{Static: a, Config: values.Config{Sections: b}, Saved: map[string][]values.Saved{"a": saved}}
			v, _ := l.HookValues("a", []string{"x"})
			return v
		},
		"HelmValues": func(a, b values.Values) any {
			v, _ := values.Layers{Static: a, Config: values.Config{Sections: b}}.HelmValues("a", nil)
			return v
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				a, b := objects(3).Draw(t, "a"), objects(3).Draw(t, "b")
				beforeA, beforeB, beforeSaved := canonical(t, a), canonical(t, b), canonical(t, saved)
				first := compose(a, b)
				want := canonical(t, first)
				scribble(first)
				if canonical(t, a) != beforeA || canonical(t, b) != beforeB || canonical(t, saved) != beforeSaved {
					t.Fatalf("writing to the result of %s changed its inputs", name)
				}
				if got := canonical(t, compose(a, b)); got != want {
					t.Fatalf("%s gave %s, the second time %s", name, want, got)
				}
			})
		})
	}
}

func TestNumbersSurvive(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{`{"n":0}`, `{"n":0}`},
		{`{"n":-1}`, `{"n":-1}`},
		{`{"n":9007199254740993}`, `{"n":9007199254740993}`},
		{`{"n":9223372036854775807}`, `{"n":9223372036854775807}`},
		{`{"n":-9223372036854775808}`, `{"n":-9223372036854775808}`},
		{`{"n":1.5}`, `{"n":1.5}`},
		{`{"n":1.0}`, `{"n":1}`},
		{`{"n":1e3}`, `{"n":1000}`},
		{`{"n":1e30}`, `{"n":1e+30}`},
		{`{"n":[{"deep":9007199254740993}]}`, `{"n":[{"deep":9007199254740993}]}`},
	} {
		if got := canonical(t, values.Merge(doc(t, c.text))); got != c.want {
			t.Errorf("%s became %s, want %s", c.text, got, c.want)
		}
	}
	if n := doc(t, `{"n":3}`)["n"]; n != int64(3) {
		t.Errorf("3 was decoded as %T, want int64", n)
	}
}

func TestCanonicalTextIsTheSameAfterAnyRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := objects(3).Draw(t, "v")
		text := canonical(t, v)
		var again values.Values
		if err := json.Unmarshal([]byte(text), &again); err != nil {
			t.Fatalf("decoding %s: %v", text, err)
		}
		if got := canonical(t, again); got != text {
			t.Fatalf("%s became %s", text, got)
		}
	})
}

func TestCanonicalRefusesWhatIsNotJSON(t *testing.T) {
	t.Parallel()
	notJSON := values.Values{"f": func() {}}
	if _, err := values.Canonical(notJSON); err == nil {
		t.Error("Canonical took a function")
	}
	if _, err := values.Checksum(notJSON); err == nil {
		t.Error("Checksum took a function")
	}
	if _, err := values.Changed(notJSON, nil); err == nil {
		t.Error("Changed took a function before")
	}
	if _, err := values.Changed(nil, notJSON); err == nil {
		t.Error("Changed took a function after")
	}
}

func TestChangedComparesWhatHooksWouldRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, after string
		want          bool
	}{
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, false},
		{`{"a":1}`, `{"a":1.0}`, false},
		{`{"a":[1,2]}`, `{"a":[2,1]}`, true},
		{`{"a":null}`, `{}`, true},
		{`{"a":{}}`, `{"a":[]}`, true},
		{`{"a":"1"}`, `{"a":1}`, true},
	} {
		before, after := doc(t, c.before), doc(t, c.after)
		got, err := values.Changed(before, after)
		if err != nil || got != c.want {
			t.Errorf("Changed(%s, %s) = %v, %v; want %v", c.before, c.after, got, err, c.want)
		}
		old, errOld := values.Checksum(before)
		now, errNow := values.Checksum(after)
		if errOld != nil || errNow != nil || (old != now) != c.want {
			t.Errorf("checksums of %s and %s are %s and %s; want differing: %v", c.before, c.after, old, now, c.want)
		}
		if len(old) != 32 || strings.Trim(old, "0123456789abcdef") != "" {
			t.Errorf("checksum %q is not 32 hexadecimal digits", old)
		}
	}
}
