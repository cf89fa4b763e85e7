package module_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"addon-operator/internal/module"
	"addon-operator/internal/values"
)

func redis() module.Addon {
	return module.Addon{ID: "id-1", Name: "redis", Version: "0.0.1", Content: "aa", Plans: []module.AddonPlan{
		{Name: "enterprise", Values: map[string]any{"replicas": 3.0, "persistence": map[string]any{"enabled": true, "size": "8Gi"}}},
		{Name: "micro", Values: map[string]any{"replicas": 1.0}, Schema: []byte(`{"type":"object","additionalProperties":false,"required":["password"],
			"properties":{"password":{"type":"string","pattern":"^[a-z]+$"},"size":{"$ref":"#/definitions/size"}},"definitions":{"size":{"type":"integer","maximum":9}}}`)},
	}}
}

func chart(version string) func() (fs.FS, error) {
	return func() (fs.FS, error) {
		return fstest.MapFS{
			"Chart.yaml":          {Data: []byte("apiVersion: v2\nname: redis\nversion: " + version + "\n")},
			"crds/crd.yaml":       {Data: []byte("kind: CustomResourceDefinition\n")},
			"templates/main.yaml": {Data: []byte("kind: ConfigMap\n")},
		}, nil
	}
}

func TestAModuleMadeFromAnAddonIsFoundSwitchedOff(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "addon-modules")
	if err := module.WriteAddonModules(root, []module.AddonModule{{Name: "redis", Addon: redis(), Chart: chart("1.0.0")}}); err != nil {
		t.Fatal(err)
	}
	image := tree(t, map[string]string{"010-web/values.yaml": ""})
	set, err := module.Scan([]string{image}, root, 1)
	if err != nil {
		t.Fatal(err)
	}
	m, found := set.Find("redis")
	if !found || m.Broken != nil || m.Addon == nil {
		t.Fatalf("found %v: %+v", found, m)
	}
	if version, err := os.Readlink(filepath.Join(root, "redis")); err != nil || m.Path != filepath.Join(root, version) {
		t.Errorf("path %s, link to %q: %v", m.Path, version, err)
	}
	if m.Chart != module.FullChart || m.ChartDir() != filepath.Join(m.Path, "chart") || m.CRDs != filepath.Join(m.ChartDir(), "crds") {
		t.Errorf("chart %q in %s with CRDs %s", m.Chart, m.ChartDir(), m.CRDs)
	}
	if len(m.Flags) != 1 || m.Flags[0].Enabled {
		t.Errorf("flags %+v, want one that switches the module off", m.Flags)
	}
	if why := module.Decide(m, nil, values.Config{}).String(); why != "disabled because nothing enables it" {
		t.Errorf("it is %q", why)
	}
	if len(set.Empty) != 0 {
		t.Errorf("empty: %v", set.Empty)
	}
}

func TestMessagesNameTheAddonAndTheFileNotTheDirectoryOfTheVersion(t *testing.T) {
	t.Parallel()
	addon := redis()
	m := module.Module{Name: "redis", Path: "/run/addon-modules/.redis.0123456789abcdef", Addon: &addon}
	cause := fs.ErrNotExist
	err := m.NameFiles(fmt.Errorf("%s/chart/crds/a.yaml: bad, %s/values.yaml: %w", m.Path, m.Path, cause))
	want := "addon redis 0.0.1, file crds/a.yaml: bad, addon redis 0.0.1, file values.yaml: " + cause.Error()
	if err.Error() != want || !errors.Is(err, cause) {
		t.Errorf("got %q, want %q", err, want)
	}
	if title := m.Title(); title != "addon redis 0.0.1 of module redis" {
		t.Errorf("title %q", title)
	}
	image := module.Module{Name: "web", Path: "/modules/010-web"}
	if err := image.NameFiles(errors.New("/modules/010-web/crds/a.yaml: bad")); err.Error() != "/modules/010-web/crds/a.yaml: bad" {
		t.Errorf("module of the image: %v", err)
	}
	if image.NameFiles(nil) != nil || m.NameFiles(nil) != nil {
		t.Error("NameFiles returns an error for nil")
	}
}

func TestAnImageModuleOfTheSameNamePrecedesTheAddon(t *testing.T) {
	t.Parallel()
	root, image := t.TempDir(), tree(t, map[string]string{"020-redis/values.yaml": ""})
	if err := module.WriteAddonModules(root, []module.AddonModule{{Name: "redis", Addon: redis(), Chart: chart("1.0.0")}}); err != nil {
		t.Fatal(err)
	}
	set, err := module.Scan([]string{image}, root, 1)
	if err != nil {
		t.Fatal(err)
	}
	if m, _ := set.Find("redis"); m.FromAddon || m.Addon != nil || len(set.Modules) != 1 {
		t.Errorf("modules %+v, want the one of the image alone", set.Modules)
	}
}

func TestAModuleWhoseAddonCannotBeReadIsStillMadeFromAnAddon(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"redis/.addon.json": "[", "cache": "-> nowhere"})
	set, err := module.Scan(nil, root, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"redis", "cache"} {
		if m, _ := set.Find(name); m.Broken == nil || !m.FromAddon || m.Addon != nil {
			t.Errorf("module %q is %+v", name, m)
		}
	}
}

func TestAnEmptyOrMissingDirectoryOfAddonsHidesNothing(t *testing.T) {
	t.Parallel()
	image := tree(t, map[string]string{"010-web/values.yaml": ""})
	for _, root := range []string{t.TempDir(), filepath.Join(t.TempDir(), "missing"), ""} {
		set, err := module.Scan([]string{image}, root, 1)
		if err != nil || len(set.Empty) != 0 || len(set.Modules) != 1 {
			t.Errorf("%q: %v, %+v", root, err, set)
		}
	}
}

func TestDirectoriesOfAddonsFollowTheModulesAskedFor(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	all := []module.AddonModule{{Name: "redis", Addon: redis(), Chart: chart("1.0.0")}, {Name: "acc", Addon: redis(), Chart: chart("1.0.0")}}
	if err := module.WriteAddonModules(root, all); err != nil {
		t.Fatal(err)
	}
	write(t, root, map[string]string{".next-redis/values.yaml": ""}) // as after a crash
	unread := func() (fs.FS, error) { return nil, errors.New("the chart was read again") }
	all[0].Chart = unread
	if err := module.WriteAddonModules(root, all[:1]); err != nil {
		t.Error(err)
	}
	if names := directories(t, root); names != "redis" {
		t.Errorf("directories %s, want redis", names)
	}
	all[0].Addon.Content, all[0].Chart = "bb", chart("2.0.0")
	if err := module.WriteAddonModules(root, all[:1]); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "redis", "chart", "Chart.yaml"))
	if err != nil || !strings.Contains(string(text), "2.0.0") {
		t.Errorf("chart %q, %v; want version 2.0.0", text, err)
	}
}

func TestAModuleThatCannotBeWrittenKeepsItsDirectoryAndStopsNoOther(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	before := module.AddonModule{Name: "redis", Addon: redis(), Chart: chart("1.0.0")}
	if err := module.WriteAddonModules(root, []module.AddonModule{before}); err != nil {
		t.Fatal(err)
	}
	next := before
	next.Addon.Version, next.Chart = "0.0.2", func() (fs.FS, error) { return nil, errors.New("chart bb is missing") }
	err := module.WriteAddonModules(root, []module.AddonModule{next, {Name: "acc", Addon: redis(), Chart: chart("1.0.0")}})
	if err == nil || !strings.Contains(err.Error(), "module redis from addon redis 0.0.2: chart bb is missing") {
		t.Errorf("error %v", err)
	}
	if names := directories(t, root); names != "acc redis" {
		t.Errorf("directories %s, want acc redis", names)
	}
}

func TestValuesOfAnAddonArePlanThenSection(t *testing.T) {
	t.Parallel()
	addon := redis()
	for _, c := range []struct {
		about   string
		section map[string]any
		want    string // a part of the error, or of the values as fmt.Sprint prints them
	}{
		{"the first plan", map[string]any{"persistence": map[string]any{"size": "1Gi"}}, "map[persistence:map[enabled:true size:1Gi] replicas:3]"},
		{"a named plan", map[string]any{"plan": "micro", "addonVersion": "0.0.1", "password": "secret"}, "map[password:secret replicas:1]"},
		{"an unknown plan", map[string]any{"plan": "tiny"}, `addon redis 0.0.1 has no plan "tiny": set plan to one of enterprise, micro`},
		{"a missing value", map[string]any{"plan": "micro"}, "missing property 'password'"},
		{"a value behind a reference", map[string]any{"plan": "micro", "password": "x", "size": 10.0}, "size: maximum: must be at most 9"},
		{"a value that must stay secret", map[string]any{"plan": "micro", "password": "S3CRET"}, "password: does not match the pattern ^[a-z]+$"},
	} {
		got, err := addon.HelmValues(c.section)
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, c.want) || strings.Contains(text, "S3CRET") {
			t.Errorf("%s: %s, want %s", c.about, text, c.want)
		}
	}
}

func TestPlanIsChosenByDefaultOnlyIfThereAreSeveral(t *testing.T) {
	t.Parallel()
	several, one := redis(), redis()
	one.Plans = one.Plans[1:]
	for _, c := range []struct {
		addon     module.Addon
		section   map[string]any
		want      string
		byDefault bool
	}{
		{several, nil, "enterprise", true},
		{several, map[string]any{"plan": "micro"}, "micro", false},
		{several, map[string]any{"plan": "tiny"}, "tiny", false}, // HelmValues returns the error
		{one, nil, "micro", false},
	} {
		if plan, byDefault := c.addon.Plan(c.section); plan != c.want || byDefault != c.byDefault {
			t.Errorf("%d plans, section %v: plan %s, by default %t", len(c.addon.Plans), c.section, plan, byDefault)
		}
	}
}

func TestSchemasOfAddonsReferToNoFileAndNoServer(t *testing.T) {
	t.Parallel()
	for _, ref := range []string{"file:///etc/passwd", "http://127.0.0.1:1/schema.json", "other.json"} {
		addon := redis()
		addon.Plans[0].Schema = []byte(`{"$ref":"` + ref + `"}`)
		_, err := addon.HelmValues(nil)
		if err == nil || !strings.Contains(err.Error(), "only references within the schema are supported") {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

// directories returns the names of the modules in root.
func directories(t *testing.T, root string) string {
	t.Helper()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if entry.Type() == fs.ModeSymlink {
			names = append(names, entry.Name())
		}
	}
	return strings.Join(names, " ")
}

func TestPlanSchemaWithAnExtremeNumberIsAnError(t *testing.T) {
	t.Parallel()
	addon := redis()
	addon.Plans[0].Schema = []byte(`{"multipleOf": 1e-9999999}`)
	if _, err := addon.HelmValues(nil); err == nil || !strings.Contains(err.Error(), "the schema cannot be used") {
		t.Errorf("error %v, want one that names the schema", err)
	}
}

func FuzzAddonSchema(f *testing.F) {
	f.Add(`{"type":"object"}`, `{"a":1}`)
	f.Add(`{"$ref":"#"}`, `{"a":{"b":[]}}`)
	f.Add(`{"multipleOf":1e-9999999}`, `{}`)
	f.Add(`{"pattern":"(a+)+$","items":{"$ref":"#/items"}}`, `{}`)
	f.Fuzz(func(_ *testing.T, schema, section string) {
		addon := redis()
		addon.Plans[0].Schema = []byte(schema)
		_, _ = addon.HelmValues(map[string]any{"text": section}) // must not panic, even if the schema is invalid
	})
}

func TestAddonsWhoseNameCannotBeThatOfAModuleAreRefused(t *testing.T) {
	t.Parallel()
	for addon, want := range map[string]string{
		"010-redis":              `would be read as the directory of module "redis"`, // otherwise it would replace module redis
		strings.Repeat("a", 54):  "the limit for Helm releases is 53",
		"global":                 "cannot be named",
		"../../etc":              "kebab-case",
		"":                       "kebab-case",
		strings.Repeat("../", 9): "kebab-case",
	} {
		if name, err := module.AddonModuleName(addon); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is module %q, error %v, want one with %q", addon, name, err, want)
		}
	}
	for addon, want := range map[string]string{"Redis Cache": "redis-cache", "redis": "redis", "3scale": "3scale", strings.Repeat("a", 53): strings.Repeat("a", 53)} {
		if name, err := module.AddonModuleName(addon); err != nil || name != want {
			t.Errorf("%q is module %q, error %v, want %q", addon, name, err, want)
		}
	}
}

func TestADirectoryThatLacksAPartIsWrittenAgain(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	modules := []module.AddonModule{{Name: "redis", Addon: redis(), Chart: chart("1.0.0")}}
	for _, part := range []string{"chart", "chart/Chart.yaml", "values.yaml", "openapi", ".addon.json"} {
		if err := module.WriteAddonModules(root, modules); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(root, "redis", part)); err != nil {
			t.Fatal(err)
		}
		if err := module.WriteAddonModules(root, modules); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(root, "redis", part)); err != nil {
			t.Error(err)
		}
		set, err := module.Scan([]string{tree(t, map[string]string{"010-web/values.yaml": ""})}, root, 1)
		if err != nil {
			t.Fatal(err)
		}
		if m, found := set.Find("redis"); !found || m.Broken != nil || m.Addon == nil {
			t.Errorf("without %s: found %v: %+v", part, found, m)
		}
	}
}
