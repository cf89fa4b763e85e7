package sdk

import (
	"slices"
	"testing"
)

func TestPathsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][]string{
		"a":                  {"a"},
		"web.my-key.0":       {"web", "my-key", "0"},
		`a."b.c"."d"`:        {"a", "b.c", "d"},
		"a.'b \"c\"'":        {"a", `b "c"`},
		`a."say ""x"" now"`:  {"a", `say "x" now`},
		"a[0][12].b":         {"a", "0", "12", "b"},
		`a.""`:               {"a", ""},
		"":                   nil,
		".a":                 nil,
		"a.":                 nil,
		"a..b":               nil,
		"a[x]":               nil,
		"a[0":                nil,
		"a[]":                nil,
		`a."b`:               nil,
		`a"b"`:               nil,
		`"a"b`:               nil,
		"annotations.a/b c$": {"annotations", "a/b c$"},
	} {
		got, err := splitPath(path)
		if !slices.Equal(want, got) || (err == nil) != (want != nil) {
			t.Errorf("%s is %q, %v, want %q", path, got, err, want)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, path := range []string{"a.b", `a."b.c"`, "a['b']", "a[0].b", "'it''s'", `a.""`, "..", "[", `"`} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if keys, err := splitPath(text); err == nil {
			if again, err := splitPath(Path(keys...)); err != nil || !slices.Equal(keys, again) {
				t.Errorf("%q is %q, and as text again %q, %v", text, keys, again, err)
			}
		}
		if keys, err := splitPath(Path("web", text, "end")); err != nil || !slices.Equal(keys, []string{"web", text, "end"}) {
			t.Errorf("%q is written %s, which is %q, %v", text, Path(text), keys, err)
		}
	})
}
