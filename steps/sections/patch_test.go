package sections

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/values"
)

func TestAPatchThatOnlyRepeatsValuesOfLowerLayersIsNotSaved(t *testing.T) {
	t.Parallel()
	add := func(path, value string) values.Op {
		return values.Op{Op: "add", Path: path, Value: json.RawMessage(value)}
	}
	hook := func(op values.Op) values.Saved { return values.Saved{Op: op, Hook: "web/a"} }
	l := values.Layers{
		Static: values.Values{"web": map[string]any{"size": int64(1), "log": map[string]any{}}},
		Config: values.Config{Sections: values.Values{"web": map[string]any{"zone": "a"}}},
		Saved:  map[string][]values.Saved{"web": {hook(add("/web/log/level", `"info"`)), hook(add("/web/mode", `"x"`))}},
	}
	for _, c := range []struct {
		name      string
		ops, want []values.Op
		changed   bool
	}{
		{name: "values of the file and the ConfigMap", ops: []values.Op{add("/web/size", "1"), add("/web/zone", `"a"`)}},
		{name: "removed at once", ops: []values.Op{add("/web/new", "1"), {Op: "remove", Path: "/web/new"}}},
		{name: "a saved value", ops: []values.Op{add("/web/size", "1"), add("/web/mode", `"x"`)}, want: []values.Op{add("/web/mode", `"x"`)}},
		{name: "above a saved value", ops: []values.Op{add("/web/log", `{"level":"info"}`)}, want: []values.Op{add("/web/log", `{"level":"info"}`)}},
		{
			name: "one of the values changes", changed: true,
			ops: []values.Op{add("/web/size", "1"), add("/web/zone", `"b"`)}, want: []values.Op{add("/web/size", "1"), add("/web/zone", `"b"`)},
		},
	} {
		p, err := NewPatch(l, "base", "web", c.ops)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, append([]values.Op(nil), p.Values...)); diff != "" || p.Changed != c.changed {
			t.Errorf("%s: changed %t, want %t (-want +got):\n%s", c.name, p.Changed, c.changed, diff)
		}
	}

	// The hook repeats the zone. After that, a person changes it.
	p, err := NewPatch(l, "base", "web", []values.Op{add("/web/zone", `"a"`)})
	if err != nil {
		t.Fatal(err)
	}
	l.Saved = map[string][]values.Saved{"web": values.MergePatches(l.Saved["web"], p.Values, "web/a")}
	l.Config.Sections = values.Values{"web": map[string]any{"zone": "b"}}
	section, _ := l.Section("web")
	want := any(map[string]any{"log": map[string]any{"level": "info"}, "mode": "x", "size": int64(1), "zone": "b"})
	if diff := cmp.Diff(want, section); diff != "" {
		t.Errorf("the section is not as in the ConfigMap (-want +got):\n%s", diff)
	}
}

// If one operation of a patch is saved, other operations of the patch can be needed too: those below it, and those on the
// same list.
func TestAPatchThatChangesNothingChangesNothingWhenItIsSaved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ static, saved, ops string }{
		{
			static: `{"log":{"format":"json"}}`, saved: `{"op":"add","path":"/web/log/level","value":"info"}`,
			ops: `{"op":"add","path":"/web/log","value":{"level":"info"}}{"op":"add","path":"/web/log/format","value":"json"}`,
		},
		{
			static: `{"list":["a"]}`, saved: `{"op":"add","path":"/web/list/1","value":"a"}`,
			ops: `{"op":"add","path":"/web/list/-","value":"a"}{"op":"add","path":"/web/list/0","value":"a"}{"op":"remove","path":"/web/list/1"}`,
		},
	} {
		section := map[string]any{}
		if err := json.Unmarshal([]byte(c.static), &section); err != nil {
			t.Fatal(err)
		}
		l := values.Layers{
			Static: values.Values{"web": section},
			Saved:  map[string][]values.Saved{"web": values.MergePatches(nil, parsed(t, c.saved), "web/a")},
		}
		p, err := NewPatch(l, "base", "web", parsed(t, c.ops))
		if err != nil || p.Changed {
			t.Fatalf("%s: changed %t: %v", c.ops, p.Changed, err)
		}
		before, _ := l.Section("web")
		l.Saved["web"] = values.MergePatches(l.Saved["web"], p.Values, "web/a")
		after, _ := l.Section("web")
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s (-before +after):\n%s", c.ops, diff)
		}
	}
}

// parsed returns the operations in the text of a patch.
func parsed(t *testing.T, text string) []values.Op {
	t.Helper()
	ops, err := values.ParsePatch([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return ops
}
