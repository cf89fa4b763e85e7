package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/redact"
	"addon-operator/workflow/inspect"
)

func TestFieldsThatDifferAreNamedByTheirPathsWithSecretsMasked(t *testing.T) {
	t.Parallel()
	item := func(name, image string) map[string]any { return map[string]any{"name": name, "image": image} }
	before := map[string]any{
		"kind": "Deployment", "same": []any{1, 2}, "metadata": map[string]any{"labels": map[string]any{"a.b/c": "x"}},
		"containers": []any{item("one", "a"), item("two", "a")}, "ports": []any{80, 443}, "dbPassword": "old", "gone": false,
	}
	after := map[string]any{
		"kind": "Deployment", "same": []any{1, 2}, "metadata": map[string]any{"labels": map[string]any{"a.b/c": "y"}},
		"containers": []any{item("two", "b"), item("one", "a"), item("three", "c")}, "ports": []any{80, 444}, "dbPassword": "new",
	}
	got, err := FieldChanges(before, after, redact.Redactor{}.Values)
	if err != nil {
		t.Fatal(err)
	}
	want := []inspect.FieldChange{
		{Path: "containers[three]", New: map[string]any{"name": "three", "image": "c"}},
		{Path: "containers[two].image", Old: "a", New: "b"},
		{Path: "dbPassword", Old: "(redacted)", New: "(redacted)"},
		{Path: "gone", Old: false},
		{Path: "metadata.labels[a.b/c]", Old: "x", New: "y"},
	}
	ports := got[len(got)-1]
	if diff := cmp.Diff(want, got[:len(got)-1]); diff != "" || ports.Path != "ports[1]" {
		t.Errorf("changes (-want +got):\n%s\nand %v", diff, ports)
	}
}
