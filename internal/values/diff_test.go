package values_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
