package sections

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/values"
)

func TestHookWriteThatMetAnotherChangeIsPatchedOnIt(t *testing.T) {
	before := values.Config{Sections: values.Values{"web": map[string]any{"a": int64(1)}}}
	w, err := PlanConfigWrite(before, "web", []values.Op{{Op: "add", Path: "/web/b", Value: json.RawMessage("2")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, live, want string }{
		{"as it was", "a: 1\n", "a: 1\nb: 2\n"},
		{"written already", "a: 1\nb: 2\n", ""},
		{"changed by a person", "a: 5\nc: 3\n", "a: 5\nb: 2\nc: 3\n"},
	} {
		text, changed, err := w.Text(map[string]string{"web": c.live}, values.Layers{})
		if err != nil || changed != (c.want != "") || text != c.want {
			t.Errorf("%s: %q, %t, %v; want %q", c.name, text, changed, err, c.want)
		}
	}
}

func TestPlanHasOnlyWhatChangesTheConfigMap(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	config := values.Config{
		Sections: values.Values{"web": map[string]any{"a": int64(1)}},
		Flags:    map[string]bool{"webEnabled": true, "dbEnabled": false},
	}
	same := []values.Op{{Op: "add", Path: "/web/a", Value: json.RawMessage("1")}}
	other := []values.Op{{Op: "add", Path: "/web/a", Value: json.RawMessage("2")}}
	for name, c := range map[string]struct {
		ops       []values.Op
		flags     map[string]*bool
		wantOps   int
		wantFlags []string
	}{
		"nothing is requested":                        {},
		"the value is there already":                  {ops: same},
		"the flags are set already":                   {flags: map[string]*bool{"webEnabled": &yes, "dbEnabled": &no, "absentEnabled": nil}},
		"another value":                               {ops: other, wantOps: 1},
		"a flag, and a value that is there already":   {ops: same, flags: map[string]*bool{"webEnabled": &no}, wantFlags: []string{"webEnabled"}},
		"a flag that is false is not an absent one":   {flags: map[string]*bool{"absentEnabled": &no, "dbEnabled": nil}, wantFlags: []string{"absentEnabled", "dbEnabled"}},
		"another value, one new flag and one old one": {ops: other, flags: map[string]*bool{"webEnabled": &yes, "dbEnabled": &yes}, wantOps: 1, wantFlags: []string{"dbEnabled"}},
	} {
		requested := len(c.flags)
		w, err := PlanConfigWrite(config, "web", c.ops, c.flags)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if (w == nil) != (c.wantOps == 0 && c.wantFlags == nil) {
			t.Errorf("%s: the plan is %+v", name, w)
			continue
		}
		if w != nil && (len(w.Ops) != c.wantOps || !slices.Equal(slices.Sorted(maps.Keys(w.Flags)), c.wantFlags) || w.Section != "web") {
			t.Errorf("%s: the plan is %+v", name, w)
		}
		if len(c.flags) != requested {
			t.Errorf("%s: the flags of the caller have changed", name)
		}
	}
	if _, err := PlanConfigWrite(config, "web", []values.Op{{Op: "add", Path: "/web/a/b/c", Value: json.RawMessage("1")}}, nil); err == nil {
		t.Error("operations that cannot be applied are planned")
	}
}

func TestRevertUndoesOnlyWhatNobodyElseChangedSince(t *testing.T) {
	t.Parallel()
	no := false
	before := func() values.Config {
		return values.Config{
			Sections: values.Values{"web": map[string]any{"a": int64(1)}, "db": map[string]any{"x": int64(1)}},
			Flags:    map[string]bool{"webEnabled": true},
		}
	}
	w, err := PlanConfigWrite(before(), "web", []values.Op{{Op: "add", Path: "/web/b", Value: json.RawMessage("2")}}, map[string]*bool{"webEnabled": &no, "dbEnabled": &no})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		since func(*values.Config)
		want  values.Config
	}{
		"nothing": {func(*values.Config) {}, before()},
		"the section": {
			func(c *values.Config) { c.Sections["web"] = map[string]any{"a": int64(5)} },
			values.Config{
				Sections: values.Values{"web": map[string]any{"a": int64(5)}, "db": map[string]any{"x": int64(1)}},
				Flags:    map[string]bool{"webEnabled": true},
			},
		},
		"a flag": {
			func(c *values.Config) { c.Flags["dbEnabled"] = true },
			values.Config{Sections: before().Sections, Flags: map[string]bool{"webEnabled": true, "dbEnabled": true}},
		},
	} {
		now := before()
		if changed, left, err := w.Apply(&now); err != nil || !changed || left {
			t.Fatalf("the change is not applied: %t, %v", changed, err)
		}
		if changed, left, err := w.Apply(&now); err != nil || changed || left {
			t.Errorf("the second time, the same change is reported as a change: %t, %v", changed, err)
		}
		c.since(&now)
		if err := w.Revert(before(), &now); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, now); diff != "" {
			t.Errorf("others have changed since: %s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRevertRemovesASectionThatDidNotExistBefore(t *testing.T) {
	t.Parallel()
	w, err := PlanConfigWrite(values.Config{}, "web", []values.Op{{Op: "add", Path: "/web", Value: json.RawMessage(`{"b":2}`)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var now values.Config
	if _, _, err := w.Apply(&now); err != nil || now.Sections["web"] == nil {
		t.Fatalf("applied: %+v, %v", now, err)
	}
	if err := w.Revert(values.Config{}, &now); err != nil {
		t.Fatal(err)
	}
	if _, has := now.Sections["web"]; has {
		t.Errorf("the section is left: %+v", now)
	}
}

func TestPatchThatNoLongerFitsIsToldFromOtherErrors(t *testing.T) {
	t.Parallel()
	before := values.Config{Sections: values.Values{"web": map[string]any{"a": map[string]any{"b": int64(1)}}}}
	w, err := PlanConfigWrite(before, "web", []values.Op{{Op: "add", Path: "/web/a/c", Value: json.RawMessage("2")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ live, want string }{
		"the parent is gone":     {"other: 1\n", ""},
		"the section is invalid": {"a: [\n", "the section is invalid: "},
	} {
		text, changed, err := w.Text(map[string]string{"web": c.live}, values.Layers{})
		if !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), c.want) || changed || text != "" {
			t.Errorf("%s: %q, %t, %v", name, text, changed, err)
		}
	}
}

func TestHookWriteDoesNotDependOnOtherKeysOfTheConfigMap(t *testing.T) {
	t.Parallel()
	yes := true
	before := values.Config{Sections: values.Values{"web": map[string]any{"a": int64(1)}}}
	section, err := PlanConfigWrite(before, "web", []values.Op{{Op: "add", Path: "/web/b", Value: json.RawMessage("2")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	flag, err := PlanConfigWrite(before, "web", nil, map[string]*bool{"webEnabled": &yes})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		write      *ConfigWrite
		web        string
		key, other string
		want       string
	}{
		"a flag that is not a boolean":           {section, "a: 1\n", "nginxEnabled", "True", "a: 1\nb: 2\n"},
		"a section that is not YAML":             {section, "a: 1\n", "nginx", "a: [\n", "a: 1\nb: 2\n"},
		"a key that is not in camel case":        {section, "a: 5\n", "some_key", "x: 1\n", "a: 5\nb: 2\n"},
		"the own section, if only a flag is set": {flag, "a: [\n", "webEnabled", "True", ""},
	} {
		text, changed, err := c.write.Text(map[string]string{"web": c.web, c.key: c.other}, values.Layers{})
		if err != nil || text != c.want || changed != (c.want != "") {
			t.Errorf("%s: %q, %t, %v; want %q", name, text, changed, err, c.want)
		}
	}
}
