package sdk_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/internal/values"
	"addon-operator/sdk"
)

const someValues = `{
	"global":{"teams":["red"]},
	"web":{"replicas":3,"big":12345678901234567,"text":"t","null":null,"list":[{"name":"a"},{"name":"b"}],"labels":{"a.b/c":"x"}}
}`

func TestValuesAreReadAsTheTypeAskedFor(t *testing.T) {
	t.Parallel()
	_, code, stderr := files{"VALUES_PATH": someValues}.run(t, func(r *sdk.Run) error {
		is(t, r.Values, "web.replicas", 0, 3)
		is(t, r.Values, "web.big", 0, 12345678901234567)
		is(t, r.Values, "web.text", "", "t")
		is(t, r.Values, "web.list.1.name", "", "b")
		is(t, r.Values, "web.list[0].name", "", "a")
		is(t, r.Values, `web.labels."a.b/c"`, "", "x")
		is(t, r.Values, sdk.Path("web", "labels", "a.b/c"), "", "x")
		is(t, r.Values, "web.none", 7, 7)
		is(t, r.Values, "web.null", "absent", "absent")
		is(t, r.Values, "web.list.9.name", "absent", "absent")
		is(t, r.Values, "web.text.deeper", "absent", "absent")
		is(t, r.Values, "global.teams", nil, []string{"red"})
		is(t, r.Values, "web.list", nil, []struct {
			Name string `json:"name"`
		}{{"a"}, {"b"}})
		for path, want := range map[string]bool{"web.null": true, "web.none": false, "web.list.1": true, "web.list.2": false, "": false} {
			if got := r.Values.Has(path); got != want {
				t.Errorf("has %q: %t", path, got)
			}
		}
		for path, want := range map[string]string{
			"web.text": "value web.text is not of type int: json: cannot unmarshal string into Go value of type int", "web.": `path "web.": a key is missing: separate keys with dots`,
		} {
			if _, err := sdk.Value(r.Values, path, 0); err == nil || err.Error() != want {
				t.Errorf("%s: the error is %v, want %s", path, err, want)
			}
		}
		return nil
	})
	if code != 0 {
		t.Error(stderr)
	}
}

func is[T any](t *testing.T, v *sdk.Values, path string, absent, want T) {
	t.Helper()
	got, err := sdk.Value(v, path, absent)
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestChangesOfValuesBecomeAPatch(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do    func(v *sdk.Values)
		patch string
	}{
		"nothing":             {func(*sdk.Values) {}, ""},
		"a value":             {func(v *sdk.Values) { v.Set("web.replicas", 5) }, `{"op":"add","path":"/web/replicas","value":5}`},
		"null":                {func(v *sdk.Values) { v.Set("web.replicas", nil) }, `{"op":"add","path":"/web/replicas","value":null}`},
		"a struct":            {func(v *sdk.Values) { v.Set("web.s", struct{ A []int }{[]int{1}}) }, `{"op":"add","path":"/web/s","value":{"A":[1]}}`},
		"a key with signs":    {func(v *sdk.Values) { v.Set(sdk.Path("web", "labels", "a.b/c~d"), 1) }, `{"op":"add","path":"/web/labels/a.b~1c~0d","value":1}`},
		"parents are missing": {func(v *sdk.Values) { v.Set("web.a.b.c", 1) }, `{"op":"add","path":"/web/a","value":{"b":{"c":1}}}`},
		"a parent is null":    {func(v *sdk.Values) { v.Set("web.null.b", 1) }, `{"op":"add","path":"/web/null","value":{"b":1}}`},
		"no section":          {func(v *sdk.Values) { v.Set("other.a.b", 1) }, `{"op":"add","path":"/other/a","value":{"b":1}}`},
		"one after another": {
			func(v *sdk.Values) { v.Set("web.a.b", 1); v.Set("web.a.c", 2) },
			`{"op":"add","path":"/web/a","value":{"b":1}}{"op":"add","path":"/web/a/c","value":2}`,
		},
		"within a list": {
			func(v *sdk.Values) { v.Set("web.list.1.name", "c") },
			`{"op":"add","path":"/web/list","value":[{"name":"a"},{"name":"c"}]}`,
		},
		"out of a list": {func(v *sdk.Values) { v.Remove("web.list.0") }, `{"op":"add","path":"/web/list","value":[{"name":"b"}]}`},
		"a flag":        {func(v *sdk.Values) { v.Set("webEnabled", true) }, `{"op":"add","path":"/webEnabled","value":true}`},
		"no flag":       {func(v *sdk.Values) { v.Remove("webEnabled") }, `{"op":"remove","path":"/webEnabled"}`},
		"a set and removed flag": {
			func(v *sdk.Values) { v.Set("webEnabled", true); v.Remove("webEnabled") },
			`{"op":"add","path":"/webEnabled","value":true}{"op":"remove","path":"/webEnabled"}`,
		},
		"a removal":    {func(v *sdk.Values) { v.Remove("web.text") }, `{"op":"remove","path":"/web/text"}`},
		"missing keys": {func(v *sdk.Values) { v.Remove("web.none"); v.Remove("web.text.a"); v.Remove("other.a") }, ""},
		"what was set and is gone": {
			func(v *sdk.Values) { v.Set("web.a", 1); v.Remove("web.a"); v.Remove("web.a") },
			`{"op":"add","path":"/web/a","value":1}{"op":"remove","path":"/web/a"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			written, code, stderr := files{"VALUES_PATH": someValues, "CONFIG_VALUES_PATH": someValues}.run(t, func(r *sdk.Run) error {
				test.do(r.Values)
				test.do(r.ConfigValues)
				return nil
			})
			if code != 0 {
				t.Fatal(stderr)
			}
			want := files{"VALUES_JSON_PATCH_PATH": test.patch, "CONFIG_VALUES_JSON_PATCH_PATH": test.patch}
			if test.patch == "" {
				want = files{}
			}
			sameFiles(t, want, written)
		})
	}
}

func TestRemovedFlagIsNotRead(t *testing.T) {
	t.Parallel()
	_, code, stderr := files{"VALUES_PATH": someValues}.run(t, func(r *sdk.Run) error {
		r.Values.Set("webEnabled", true)
		if enabled, err := sdk.Value(r.Values, "webEnabled", false); !enabled || err != nil {
			t.Errorf("after Set, the flag is %t, with the error %v", enabled, err)
		}
		r.Values.Remove("webEnabled")
		if enabled, err := sdk.Value(r.Values, "webEnabled", false); enabled || r.Values.Has("webEnabled") || err != nil {
			t.Errorf("after Remove, the flag is %t, with the error %v", enabled, err)
		}
		return nil
	})
	if code != 0 {
		t.Error(stderr)
	}
}

// The test makes random changes in a hook. It checks that applying the patch to the original values gives the same
// values as the hook reads after its changes.
func TestPatchLeadsToWhatTheHookSees(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		var before values.Values
		if err := json.Unmarshal([]byte(someValues), &before); err != nil {
			r.Fatal(err)
		}
		key := rapid.SampledFrom([]string{"list", "a", "0", "1", "name", "null", "a.b/c~", "labels", "text"})
		var seen values.Values
		written, code, _ := files{"VALUES_PATH": someValues}.run(t, func(run *sdk.Run) error {
			for range rapid.IntRange(1, 6).Draw(r, "changes") {
				path := sdk.Path(append([]string{"web"}, rapid.SliceOfN(key, 1, 4).Draw(r, "path")...)...)
				if rapid.Bool().Draw(r, "set") {
					run.Values.Set(path, rapid.SampledFrom([]any{1, "x", nil, []any{1, []any{2}}, map[string]any{"a": []any{map[string]any{}}}}).Draw(r, "value"))
				} else {
					run.Values.Remove(path)
				}
			}
			var err error
			seen, err = sdk.Value[values.Values](run.Values, "web", nil)
			return err
		})
		if code != 0 {
			r.Skip("a change was refused")
		}
		ops, err := values.ParsePatch([]byte(written["VALUES_JSON_PATCH_PATH"]))
		if err != nil {
			r.Fatal(err)
		}
		after, err := values.Apply(before, ops)
		if err != nil {
			r.Fatalf("%v: %v", ops, err)
		}
		differs, err := values.Changed(after["web"], seen)
		if err != nil || differs {
			r.Fatalf("%v led to %v, the hook saw %v", ops, after["web"], seen)
		}
	})
}
