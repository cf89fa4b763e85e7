package values_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/values"
)

// layers returns the layers of the example in the LIFECYCLE document of flant/addon-operator, with patches of a global
// hook and of a module's hook.
func layers(t *testing.T) values.Layers {
	t.Helper()
	file, err := values.ParseFile("modules/values.yaml", []byte("global:\n  param1: 100\nsomeModuleEnabled: false\n"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := values.ParseFile("modules/001-some-module/values.yaml", []byte("someModule:\n  param1: \"String\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return values.Layers{
		Static: values.Merge(file.Sections, own.Sections),
		Config: config(t, map[string]string{
			"global":            "param1: 200\n",
			"someModule":        "param1: \"Long string\"\nparam2: \"FOO\"\n",
			"someModuleEnabled": "true",
			"switchedEnabled":   "true",
		}),
		Saved: map[string][]values.Saved{
			values.Global: values.MergePatches(nil, patch(t, `{"op":"add","path":"/global/discovered","value":{"nodes":3}}`), "hooks/discover.sh"),
			"someModule":  values.MergePatches(nil, patch(t, `{"op":"add","path":"/someModule/param2","value":"BAR"}{"op":"add","path":"/someModule/gone/x","value":1}`), "hooks/x.sh"),
		},
	}
}

func TestLayersAreMergedFromFilesToPatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, want string }{
		{values.Global, `{"s":{"param1":200,"discovered":{"nodes":3}}}`},
		{"someModule", `{"s":{"param1":"Long string","param2":"BAR"}}`},
		{"switched", `{"s":{}}`},
		{"unknown", `{"s":{}}`},
	} {
		got, _ := layers(t).Section(c.key)
		if diff := cmp.Diff(doc(t, c.want)["s"], got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.key, diff)
		}
	}
}

func TestZeroLayersHaveEmptySections(t *testing.T) {
	t.Parallel()
	got, skipped := values.Layers{}.HookValues("foo", nil)
	if diff := cmp.Diff(doc(t, `{"global":{},"foo":{}}`), got); diff != "" || skipped != nil {
		t.Errorf("skipped %v, values (-want +got):\n%s", skipped, diff)
	}
}

func TestPatchWinsOverConfigMap(t *testing.T) {
	t.Parallel()
	l := values.Layers{
		Config: config(t, map[string]string{"m": "a: from ConfigMap\n"}),
		Saved:  map[string][]values.Saved{"m": values.MergePatches(nil, patch(t, `{"op":"add","path":"/m/a","value":"from hook"}`), "h")},
	}
	got, _ := l.Section("m")
	if diff := cmp.Diff(map[string]any{"a": "from hook"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestListInTheConfigMapReplacesTheSection(t *testing.T) {
	t.Parallel()
	l := values.Layers{Static: doc(t, `{"m":{"a":1}}`), Config: config(t, map[string]string{"m": "- 1\n"})}
	got, _ := l.Section("m")
	if diff := cmp.Diff([]any{int64(1)}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHookConfigValuesAreWhatTheConfigMapSays(t *testing.T) {
	t.Parallel()
	l := layers(t)
	for _, c := range []struct {
		name   string
		config map[string]string
		key    string
		want   string
	}{
		{"nothing of files and patches", nil, "someModule", `{"global":{"param1":200},"someModule":{"param1":"Long string","param2":"FOO"}}`},
		{"only switched on", nil, "switched", `{"global":{"param1":200},"switched":{}}`},
		{"not mentioned", nil, "other", `{"global":{"param1":200},"other":null}`},
		{"for a global hook", nil, values.Global, `{"global":{"param1":200}}`},
		{"nothing mentioned", map[string]string{}, "someModule", `{"global":null,"someModule":null}`},
		{"nothing mentioned for a global hook", map[string]string{}, values.Global, `{"global":null}`},
		{"empty ones", map[string]string{"global": "", "m": "{}"}, "m", `{"global":{},"m":{}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := l
			if c.config != nil {
				l.Config = config(t, c.config)
			}
			if diff := cmp.Diff(doc(t, c.want), l.HookConfigValues(c.key)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestHookValuesNameTheEnabledModulesWhenAsked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		key     string
		enabled []string
		want    string
	}{
		{"a module's hook", "someModule", []string{"a-module", "some-module"}, `{"global":{"param1":200,"discovered":{"nodes":3},"enabledModules":["a-module","some-module"]},"someModule":{"param1":"Long string","param2":"BAR"}}`},
		{"none enabled yet", "switched", []string{}, `{"global":{"param1":200,"discovered":{"nodes":3},"enabledModules":[]},"switched":{}}`},
		{"not asked", "switched", nil, `{"global":{"param1":200,"discovered":{"nodes":3}},"switched":{}}`},
		{"a global hook", values.Global, nil, `{"global":{"param1":200,"discovered":{"nodes":3}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, _ := layers(t).HookValues(c.key, c.enabled)
			if diff := cmp.Diff(doc(t, c.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnabledModulesReplaceWhatIsConfiguredUnderTheirName(t *testing.T) {
	t.Parallel()
	l := values.Layers{Static: doc(t, `{"global":{"enabledModules":["stale"]}}`)}
	got, _ := l.HookValues("m", []string{"fresh"})
	if diff := cmp.Diff(doc(t, `{"global":{"enabledModules":["fresh"]},"m":{}}`), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSkippedOperationsOfBothSectionsAreReported(t *testing.T) {
	t.Parallel()
	l := layers(t)
	l.Saved[values.Global] = values.MergePatches(l.Saved[values.Global], patch(t, `{"op":"add","path":"/global/gone/x","value":1}`), "hooks/g.sh")
	for name, of := range map[string]func() []values.Skipped{
		"hook": func() []values.Skipped { _, skipped := l.HookValues("someModule", nil); return skipped },
		"helm": func() []values.Skipped { _, skipped := l.HelmValues("someModule", nil); return skipped },
	} {
		skipped := of()
		if len(skipped) != 2 || skipped[0].Path != "/global/gone/x" || skipped[1].Path != "/someModule/gone/x" {
			t.Errorf("%s: skipped %v", name, skipped)
		}
	}
}

func TestHelmValuesHoldNumbersAsHelmReadsThem(t *testing.T) {
	t.Parallel()
	l := values.Layers{Static: doc(t, `{"global":{"n":1},"m":{"n":2,"f":2.5,"deep":{"l":[3,"4",{"n":5}]}}}`)}
	got, _ := l.HelmValues("m", []string{"m"})
	want := map[string]any{
		"global": map[string]any{"n": 1.0, "enabledModules": []any{"m"}},
		"m":      map[string]any{"n": 2.0, "f": 2.5, "deep": map[string]any{"l": []any{3.0, "4", map[string]any{"n": 5.0}}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBothPatchesOfARunReferToTheSameBase(t *testing.T) {
	t.Parallel()
	l := values.Layers{}
	configBase := l.HookConfigValues("m")
	valuesBase, _ := l.HookValues("m", nil)

	written, err := values.Apply(configBase, patch(t, `{"op":"add","path":"/m/obj","value":{}}`))
	if err != nil {
		t.Fatalf("a config patch of a module the ConfigMap does not mention: %v", err)
	}
	text, err := values.FormatSection(written["m"])
	if err != nil || text != "obj: {}\n" {
		t.Errorf("the ConfigMap gets %q, %v", text, err)
	}
	if _, err := values.Apply(valuesBase, patch(t, `{"op":"add","path":"/m/obj/k","value":1}`)); err == nil {
		t.Error("the values patch saw the value that the config patch of the same run added")
	}
}
