package module_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/module"
	"addon-operator/internal/values"
)

func config(t *testing.T, data map[string]string) values.Config {
	t.Helper()
	c, err := values.ParseConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// This test is the first example in the LIFECYCLE document of flant/addon-operator.
func TestModulesOwnFileOverrulesTheCommonOne(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"values.yaml":                   "nginxIngressEnabled: true\n",
		"001-nginx-ingress/values.yaml": "nginxIngressEnabled: false\n",
	})
	got := module.Decide(find(t, scan(t, dir), "nginx-ingress"), nil, values.Config{})
	want := module.Decision{Enabled: false, Source: module.SourceModuleFile, By: filepath.Join(dir, "001-nginx-ingress/values.yaml")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.String() != "disabled by "+dir+"/001-nginx-ingress/values.yaml" {
		t.Errorf("the text of the decision is %q", got)
	}
}

// This test is the second example in the LIFECYCLE document of flant/addon-operator. In that example, the enabled
// script decides last: it writes false.
func TestConfigMapOverrulesFilesAndLeavesTheScriptToVeto(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"values.yaml":                 "global:\n  param1: 100\nsomeModuleEnabled: false\n",
		"001-some-module/values.yaml": "someModule:\n  param1: \"String\"\n",
		"001-some-module/enabled":     "x",
	})
	set := scan(t, dir)
	m := find(t, set, "some-module")
	found := config(t, map[string]string{
		"global":            "param1: 200\n",
		"someModule":        "param1: \"Long string\"\nparam2: \"FOO\"\n",
		"someModuleEnabled": "true",
	})
	got := module.Decide(m, nil, found)
	want := module.Decision{Enabled: true, Source: module.SourceConfig, By: "someModuleEnabled"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if m.Enabled != filepath.Join(dir, "001-some-module/enabled") {
		t.Errorf("the script to ask is %q", m.Enabled)
	}
	seen, _ := values.Layers{Static: set.Static, Config: found}.HookValues(m.Key, []string{})
	wantSeen := document(t, `{"global":{"param1":200,"enabledModules":[]},"someModule":{"param1":"Long string","param2":"FOO"}}`)
	if diff := cmp.Diff(wantSeen, seen); diff != "" {
		t.Errorf("the script sees (-want +got):\n%s", diff)
	}
	if got := module.Decide(m, nil, values.Config{}); got.Enabled || got.Source != module.SourceModulesFile {
		t.Errorf("without the ConfigMap: %v", got)
	}
}

func TestTheLastSourceThatSetsTheFlagDecides(t *testing.T) {
	t.Parallel()
	override := func(value bool) map[string]values.EnabledOverride {
		return map[string]values.EnabledOverride{"fooEnabled": {Value: value, Hook: "hooks/x.sh"}, "barEnabled": {Value: !value, Hook: "hooks/y.sh"}}
	}
	for _, c := range []struct {
		name          string
		common, own   string
		overrides     map[string]values.EnabledOverride
		configMap     map[string]string
		want          string
		wantedEnabled bool
	}{
		{"nobody", "", "", nil, nil, "disabled because nothing enables it", false},
		{"others are of no interest", "barEnabled: true\n", "barEnabled: true\n", map[string]values.EnabledOverride{"barEnabled": {Value: true}}, map[string]string{"barEnabled": "true"}, "disabled because nothing enables it", false},
		{"common file", "fooEnabled: true\n", "", nil, nil, "enabled by COMMON", true},
		{"a string counts", "fooEnabled: \"true\"\n", "", nil, nil, "enabled by COMMON", true},
		{"own file", "", "fooEnabled: true\n", nil, nil, "enabled by OWN", true},
		{"own file over common", "fooEnabled: false\n", "fooEnabled: true\n", nil, nil, "enabled by OWN", true},
		{"hook over files", "fooEnabled: true\n", "fooEnabled: true\n", override(false), nil, "disabled by hook hooks/x.sh", false},
		{"hook alone", "", "", override(true), nil, "enabled by hook hooks/x.sh", true},
		{"ConfigMap over hook", "", "", override(true), map[string]string{"fooEnabled": "false"}, "disabled by ConfigMap key fooEnabled", false},
		{"ConfigMap over all", "fooEnabled: false\n", "fooEnabled: false\n", override(false), map[string]string{"fooEnabled": "true"}, "enabled by ConfigMap key fooEnabled", true},
		{"values in the ConfigMap enable nothing", "", "", nil, map[string]string{"foo": "a: 1"}, "disabled because nothing enables it", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := tree(t, map[string]string{"values.yaml": c.common, "001-foo/values.yaml": c.own})
			got := module.Decide(find(t, scan(t, dir), "foo"), c.overrides, config(t, c.configMap))
			want := c.want
			switch want {
			case "enabled by COMMON":
				want = "enabled by " + filepath.Join(dir, "values.yaml")
			case "enabled by OWN":
				want = "enabled by " + filepath.Join(dir, "001-foo/values.yaml")
			}
			if got.String() != want || got.Enabled != c.wantedEnabled {
				t.Errorf("got %+v: %s, want %s", got, got, want)
			}
		})
	}
}

func TestOfSeveralDirectoriesTheLastHasTheWord(t *testing.T) {
	t.Parallel()
	one := tree(t, map[string]string{"values.yaml": "fooEnabled: true\n", "001-foo/": ""})
	two := tree(t, map[string]string{"values.yaml": "fooEnabled: false\n", "001-bar/": ""})
	for _, c := range []struct {
		dirs []string
		want bool
	}{
		{[]string{one, two}, false},
		{[]string{two, one}, true},
	} {
		if got := module.Decide(find(t, scan(t, c.dirs...), "foo"), nil, values.Config{}); got.Enabled != c.want {
			t.Errorf("%s", got)
		}
	}
}
