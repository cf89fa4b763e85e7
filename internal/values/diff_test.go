package values_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/internal/values"
)

func TestDiffNamesEachValueThatIsOther(t *testing.T) {
	t.Parallel()
	got, err := values.Diff("web",
		map[string]any{"same": 1, "image": map[string]any{"tag": "1"}, "gone": true, "list": []any{"a"}},
		map[string]any{"same": 1, "image": map[string]any{"tag": "2", "a/b": "new"}, "list": []any{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []values.Change{
		{Path: "/web/gone", Old: true, Removed: true},
		{Path: "/web/image/a~1b", New: "new", Added: true},
		{Path: "/web/image/tag", Old: "1", New: "2"},
		{Path: "/web/list", Old: []any{"a"}, New: []any{"a", "b"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got, err = values.Diff("web", nil, map[string]any{}); err != nil || len(got) != 0 {
		t.Errorf("of an absent section: %v, %v", got, err)
	}
}

func TestTheDifferenceInTheOtherDirectionIsTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before, after := map[string]any(objects(2).Draw(t, "before")), map[string]any(objects(2).Draw(t, "after"))
		there, err := values.Diff("a/b", before, after)
		if err != nil {
			t.Fatal(err)
		}
		back, err := values.Diff("a/b", after, before)
		if err != nil {
			t.Fatal(err)
		}
		last := ""
		for i, c := range there {
			if c.Path <= last || !strings.HasPrefix(c.Path, "/a~1b") || c.Added && c.Removed {
				t.Fatalf("%+v follows path %q", c, last)
			}
			last = c.Path
			there[i] = values.Change{Path: c.Path, Old: c.New, New: c.Old, Added: c.Removed, Removed: c.Added}
		}
		if diff := cmp.Diff(there, back); diff != "" {
			t.Fatalf("(-reversed +got):\n%s", diff)
		}
		changed, err := values.Changed(before, after)
		if err != nil || changed != (len(there) > 0) {
			t.Fatalf("the sections differ: %t, %v, in %d values", changed, err, len(there))
		}
	})
}

func TestADifferenceNamesWhatHappensToMaps(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, after string
		want          []values.Change
	}{
		"a map that gets its first key": {`{"a":{}}`, `{"a":{"b":1}}`, []values.Change{
			{Path: "/web/a", Old: map[string]any{}, Removed: true}, {Path: "/web/a/b", New: int64(1), Added: true},
		}},
		"a map that replaces a number": {`{"a":1}`, `{"a":{"b":1}}`, []values.Change{{Path: "/web/a", Old: int64(1), Removed: true}, {Path: "/web/a/b", New: int64(1), Added: true}}},
		"null in place of no value":    {`{}`, `{"a":null}`, []values.Change{{Path: "/web", Old: map[string]any{}, Removed: true}, {Path: "/web/a", Added: true}}},
		"an equal number":              {`{"a":1}`, `{"a":1}`, nil},
		"the order of a list":          {`{"a":[1,2]}`, `{"a":[2,1]}`, []values.Change{{Path: "/web/a", Old: []any{int64(1), int64(2)}, New: []any{int64(2), int64(1)}}}},
	} {
		got, err := values.Diff("web", map[string]any(doc(t, test.before)), map[string]any(doc(t, test.after)))
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	for _, before := range []any{nil, map[string]any{"a": 1}} {
		if got, err := values.Diff("web", before, map[string]any{"a": func() {}}); err == nil || got != nil {
			t.Errorf("a value that JSON cannot express is compared: %v, %v", got, err)
		}
	}
}
