package values_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/schema"
	"addon-operator/internal/values"
)

// explainedValues returns layers of the section "web". Each value is set by a different combination of layers.
func explainedValues(t *testing.T) values.Layers {
	t.Helper()
	section := func(text string) (v any) {
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	schemas, err := schema.Parse(
		schema.File{Path: "openapi/config-values.yaml", Text: []byte("type: object\nproperties:\n  level: {type: string, default: info}\n  replicas: {type: integer, default: 9}\n")},
		schema.File{Path: "openapi/values.yaml", Text: []byte("x-extend: {schema: config-values.yaml}\ntype: object\nproperties:\n  internal: {type: object, default: {}, properties: {found: {type: array, default: []}}}\n")},
	)
	if err != nil {
		t.Fatal(err)
	}
	at := func(minute int) values.Origin {
		return values.Origin{At: time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC)}
	}
	op := func(kind, path, value, hook string, minute int) values.Saved {
		return values.Saved{Op: values.Op{Op: kind, Path: path, Value: json.RawMessage(value)}, Hook: hook, Origin: at(minute)}
	}
	files := []values.Part{
		{Path: "modules/values.yaml", Section: section(`{"replicas": 1, "image": {"name": "web", "tag": "1.0"}, "old": true}`)},
		{Path: "modules/010-web/values.yaml", Section: section(`{"image": {"tag": "1.1"}, "empty": {}, "list": [1]}`)},
	}
	return values.Layers{
		Files:  map[string][]values.Part{"web": files},
		Config: values.Config{Sections: values.Values{"web": section(`{"replicas": 1, "image": {"a/b": 2}, "empty": {"x": 1}}`)}},
		Saved: map[string][]values.Saved{"web": {
			op("add", "/web/image/tag", `"1.2"`, "hooks/tag.sh", 1),
			op("add", "/web/internal/found/-", `"a"`, "hooks/find.sh", 2),
			op("add", "/web/internal/found/-", `"b"`, "hooks/find.sh", 3),
			op("add", "/web/missing/deep", `1`, "hooks/skipped.sh", 4),
			op("add", "/web/same", `{"m": {"n": 1}}`, "hooks/parent.sh", 5),
			op("add", "/web/same/m/n", `2`, "hooks/child.sh", 6),
			op("remove", "/web/old", ``, "hooks/remove.sh", 7),
		}},
		Schemas: map[string]*schema.Set{"web": schemas},
	}
}

func TestEachValueIsExplainedByTheLayersThatSayIt(t *testing.T) {
	t.Parallel()
	layers := explainedValues(t)
	var got []string
	for _, s := range layers.Explain("web") {
		line := fmt.Sprintf("%s = %s: %s", s.Path, s.Text(), s.Source())
		if s.Overridden {
			line = "  overrides " + line
		}
		if !s.At.IsZero() {
			line += " at " + s.At.Format("15:04")
		}
		got = append(got, line)
	}
	want := []string{
		"/web/empty/x = 1: ConfigMap",
		"/web/image/a~1b = 2: ConfigMap",
		"/web/image/name = \"web\": modules/values.yaml",
		"/web/image/tag = \"1.2\": hook hooks/tag.sh at 12:01",
		"  overrides /web/image/tag = \"1.1\": modules/010-web/values.yaml",
		"  overrides /web/image/tag = \"1.0\": modules/values.yaml",
		"/web/internal/found = [\"a\",\"b\"]: hook hooks/find.sh at 12:03",
		"  overrides /web/internal/found = []: default in openapi/values.yaml",
		"/web/level = \"info\": default in openapi/config-values.yaml",
		"/web/list = [1]: modules/010-web/values.yaml",
		"/web/old = (removed): hook hooks/remove.sh at 12:07",
		"  overrides /web/old = true: modules/values.yaml",
		"/web/replicas = 1: ConfigMap",
		"  overrides /web/replicas = 1: modules/values.yaml",
		"/web/same/m/n = 2: hook hooks/child.sh at 12:06",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestExplainedValuesAreTheMergedOnes compares the explained values with the values that hooks and charts receive.
func TestExplainedValuesAreTheMergedOnes(t *testing.T) {
	t.Parallel()
	layers := explainedValues(t)
	layers.Static = values.Values{}
	for _, part := range layers.Files["web"] {
		layers.Static = values.Merge(layers.Static, values.Values{"web": part.Section})
	}
	merged, _ := layers.Section("web")
	rebuilt := values.Values{}
	for _, s := range layers.Explain("web") {
		if s.Overridden || s.Removed {
			continue
		}
		put(rebuilt, strings.Split(strings.TrimPrefix(s.Path, "/"), "/"), s.Value)
	}
	if diff := cmp.Diff(merged, rebuilt["web"]); diff != "" {
		t.Errorf("(-merged +explained):\n%s", diff)
	}
}

// put sets a value in a map. The argument into is the map, and names are the parts of the JSON pointer of the value.
func put(into map[string]any, names []string, value any) {
	name := strings.NewReplacer("~1", "/", "~0", "~").Replace(names[0])
	if len(names) == 1 {
		into[name] = value
		return
	}
	under, isMap := into[name].(map[string]any)
	if !isMap {
		under = map[string]any{}
		into[name] = under
	}
	put(under, names[1:], value)
}

func TestPathsOfValuesArePointersOrNames(t *testing.T) {
	t.Parallel()
	said := []values.LayerValue{{Path: "/web/image/tag"}, {Path: "/web/image/name"}, {Path: "/web/imagePullSecret"}, {Path: "/web/web/a"}}
	for path, want := range map[string]int{
		"/web/image": 2, "/image": 2, "image": 2, "image.tag": 1, "/web/image/": 2, "image.none": 0, "/web": 4, "/": 4, "web.a": 1, "/web/web/a": 1,
	} {
		if got := values.Below(said, "web", path); len(got) != want {
			t.Errorf("below %q are %d values, want %d: %v", path, len(got), want, got)
		}
	}
}

func TestTheTimeOfAValueIsThatOfItsLastChange(t *testing.T) {
	t.Parallel()
	layers := explainedValues(t)
	configured := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	layers.ConfigAt = map[string]time.Time{"web": configured}
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC) }
	want := map[string]time.Time{
		"/web/replicas": configured, "/web/image/a~1b": configured, "/web/empty/x": configured,
		"/web/image/tag": at(1), "/web/internal/found": at(3), "/web/same/m/n": at(6), "/web/old": at(7),
	}
	if diff := cmp.Diff(want, layers.Since("web")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if since := layers.Since("other"); len(since) > 0 {
		t.Errorf("of an unknown section: %v", since)
	}
}

func TestTheSourceOfAValueIsNamedForPeople(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]values.LayerValue{
		"modules/010-web/values.yaml":           {Layer: values.FileLayer, By: "modules/010-web/values.yaml"},
		"values.yaml":                           {Layer: values.FileLayer},
		"default in openapi/config-values.yaml": {Layer: values.DefaultLayer, By: "openapi/config-values.yaml"},
		"ConfigMap":                             {Layer: values.ConfigMapLayer},
		"hook hooks/tag.sh":                     {Layer: values.HookLayer, By: "hooks/tag.sh"},
	} {
		if got := v.Source(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestAValueIsShownAsJSON(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]values.LayerValue{
		`"x"`: {Value: "x"}, `null`: {}, `{}`: {Value: map[string]any{}}, `[1,2]`: {Value: []any{int64(1), int64(2)}}, "(removed)": {Removed: true, Value: "x"},
	} {
		if got := v.Text(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := (&values.LayerValue{Value: func() {}}).Text(); !strings.HasPrefix(got, `"the values contain a value that JSON cannot represent: `) {
		t.Error(got)
	}
}
