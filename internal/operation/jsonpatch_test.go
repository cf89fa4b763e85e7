package operation

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAJSONPatchThatDoesNotFitSaysWhereAndNotWhat(t *testing.T) {
	t.Parallel()
	const object = `{"kind":"Secret","data":{"p":"hunter2"},"l":[1]}`
	for patch, want := range map[string]string{
		`[{"op":"remove","path":"/data/q"}]`:                     "/data/q",
		`[{"op":"replace","path":"/other/q","value":"hunter2"}]`: "/other/q",
		`[{"op":"test","path":"/data/p","value":"hunter3"}]`:     "/data/p",
		`[{"op":"add","path":"/l/7","value":"hunter2"}]`:         "/l/7",
		`[{"op":"move","from":"/none/a","path":"/b"}]`:           "/none/a",
	} {
		_, err := applyJSONPatch([]byte(patch), []byte(object))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v", patch, err)
		}
	}
}

func TestCopiesInAJSONPatchAreBounded(t *testing.T) {
	t.Parallel()
	patch := `[{"op":"copy","from":"/a","path":"/b"}` + strings.Repeat(`,{"op":"copy","from":"/b","path":"/b/x"}`, 40) + `]`
	if _, err := applyJSONPatch([]byte(patch), []byte(`{"a":{"x":"`+strings.Repeat("y", 1<<20)+`"}}`)); err == nil {
		t.Error("it grew without bound")
	}
}

func FuzzJSONPatch(f *testing.F) {
	object := `{"kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1"},"list":[{"b":null},2]}`
	for _, patch := range []string{
		`[{"op":"add","path":"/data/b","value":"2"},{"op":"remove","path":"/data/a"}]`,
		`[{"op":"replace","path":"/list/0","value":null},{"op":"test","path":"/list/0/b"}]`,
		`[{"op":"move","from":"/list","path":"/data/list"},{"op":"copy","from":"/data","path":"/data/data"}]`,
		`[{"op":"add","path":"/list/-1","value":{}},{"op":"add","path":"/~0~1","value":[]}]`,
	} {
		f.Add(patch, object)
	}
	f.Fuzz(func(t *testing.T, patch, object string) {
		d := &document{number: 1}
		var value any
		if json.Unmarshal([]byte(patch), &value) != nil {
			return
		}
		if d.checkJSONPatch(value); len(d.wrong) > 0 {
			return
		}
		if patched, err := applyJSONPatch([]byte(patch), []byte(object)); err == nil && json.Valid([]byte(object)) && !json.Valid(patched) {
			t.Errorf("%s of %s makes %s", patch, object, patched)
		}
	})
}
