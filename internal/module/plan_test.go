package module_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/module"
	"addon-operator/internal/schema"
	"addon-operator/internal/values"
)

func TestDirectoriesWithDamagedFilesOfAnAddonAreBrokenModules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(dir string) error
		want   string // a part of the error; the test replaces DIR by the directory of the module
	}{
		"the description is cut off": {
			func(dir string) error {
				return os.WriteFile(filepath.Join(dir, ".addon.json"), []byte(`{"id":`), 0o600)
			},
			"DIR/.addon.json is not the description of an addon: unexpected end of JSON input; remove the directory: the operator writes it again",
		},
		"the description is a directory": {
			func(dir string) error {
				path := filepath.Join(dir, ".addon.json")
				return errors.Join(os.Remove(path), os.Mkdir(path, 0o700))
			},
			"cannot read the addon of the module: read DIR/.addon.json: is a directory",
		},
		"the chart is missing": {
			func(dir string) error { return os.RemoveAll(filepath.Join(dir, "chart")) },
			"cannot read the module: open DIR/chart: no such file or directory",
		},
		"only templates are left of the chart": {
			func(dir string) error { return os.Remove(filepath.Join(dir, "chart", "Chart.yaml")) },
			"DIR contains no chart: remove the directory; the operator writes it again",
		},
	} {
		root := t.TempDir()
		if err := module.WriteAddonModules(root, []module.AddonModule{{Name: "redis", Addon: redis(), Chart: chart("1.0.0")}}); err != nil {
			t.Fatal(err)
		}
		dir, err := filepath.EvalSymlinks(filepath.Join(root, "redis"))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.damage(dir); err != nil {
			t.Fatal(err)
		}
		set, err := module.Scan([]string{tree(t, map[string]string{"web/": ""})}, root, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(broken(t, set, "redis"), dir, "DIR"); got != c.want {
			t.Errorf("%s: broken by %q, want %q", name, got, c.want)
		}
		if m := find(t, set, "web"); m.Broken != nil {
			t.Errorf("%s: the other module is broken, too: %v", name, m.Broken)
		}
	}
}

func TestSectionAndPlanAreUnchangedByTheValuesMadeFromThem(t *testing.T) {
	t.Parallel()
	addon, want := redis(), redis()
	section := map[string]any{"plan": "enterprise", "addonVersion": "0.0.1", "persistence": map[string]any{"size": "1Gi"}}
	got, err := addon.HelmValues(section)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"replicas": 3.0, "persistence": map[string]any{"enabled": true, "size": "1Gi"}}, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"plan": "enterprise", "addonVersion": "0.0.1", "persistence": map[string]any{"size": "1Gi"}}, section); diff != "" {
		t.Errorf("section (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, addon); diff != "" {
		t.Errorf("addon (-want +got):\n%s", diff)
	}
}

func TestAnAddonWithoutPlansHasNoValues(t *testing.T) {
	t.Parallel()
	addon := module.Addon{Name: "redis", Version: "0.0.1"}
	if _, err := addon.HelmValues(nil); err == nil || err.Error() != "addon redis 0.0.1 has no plans" {
		t.Errorf("error %v", err)
	}
	if names := addon.PlanNames(); len(names) != 0 {
		t.Errorf("plans %q", names)
	}
}

func TestAPlanThatIsNoTextDoesNotExist(t *testing.T) {
	t.Parallel()
	addon := redis()
	section := map[string]any{"plan": 5.0}
	if _, err := addon.HelmValues(section); err == nil || err.Error() != `addon redis 0.0.1 has no plan "5": set plan to one of enterprise, micro` {
		t.Errorf("error %v", err)
	}
	if name, byDefault := addon.Plan(section); name != "5" || byDefault {
		t.Errorf("plan %q, by default %t", name, byDefault)
	}
}

func TestValuesOfAPlanAreCheckedOnlyForValuesThatUsersCouldNotSet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema, values string
		want           []string
	}{
		"no schema":             {"", `{"size": "many"}`, nil},
		"accepted values":       {`{"properties": {"size": {"type": "integer"}}}`, `{"size": 1}`, nil},
		"no values":             {`{"required": ["size"]}`, `null`, nil},
		"a missing value":       {`{"required": ["size"]}`, `{}`, nil},
		"an unknown value":      {`{"additionalProperties": false}`, `{"fixed": true}`, nil},
		"too few values":        {`{"minProperties": 2}`, `{"a": 1}`, nil},
		"none of several forms": {`{"anyOf": [{"required": ["a"]}, {"properties": {"b": {"const": 1}}}]}`, `{"b": 2}`, nil},
		"a value of a wrong type": {
			`{"properties": {"size": {"type": "integer"}}}`, `{"size": "S3CRET"}`, []string{"size: got string, want integer"},
		},
		"a value in a list": {
			`{"properties": {"l": {"items": {"properties": {"n": {"maximum": 9}}}}}}`, `{"l": [{"n": 1}, {"n": 10}]}`, []string{"l.1.n: maximum: must be at most 9"},
		},
		"a value that does not match the pattern": {
			`{"properties": {"p": {"pattern": "^[a-z]+$"}}}`, `{"p": "S3CRET"}`, []string{"p: does not match the pattern ^[a-z]+$"},
		},
		"numbers beyond limits": {
			`{"additionalProperties": {"minimum": 8, "exclusiveMinimum": 7.5, "multipleOf": 2}, "properties": {"most": {"maximum": 1, "exclusiveMaximum": 2.5}}}`,
			`{"least": 7, "most": 31337}`,
			[]string{
				"least: exclusiveMinimum: must be more than 7.5", "least: minimum: must be at least 8", "least: multipleOf: must be a multiple of 2",
				"most: exclusiveMaximum: must be less than 2.5", "most: maximum: must be at most 1",
			},
		},
		"strings beyond limits": {
			`{"properties": {"pin": {"minLength": 3}, "word": {"maxLength": 1}}}`, `{"pin": "S3", "word": "S3CRET"}`,
			[]string{"pin: minLength: must have at least 3 characters", "word: maxLength: must have at most 1 character"},
		},
		"a wrong value beside a missing one": {
			`{"required": ["a"], "properties": {"b": {"type": "string"}}}`, `{"b": 1}`, []string{"b: got number, want string"},
		},
	} {
		plan := module.AddonPlan{Name: "micro"}
		if c.schema != "" {
			plan.Schema = json.RawMessage(c.schema)
		}
		if err := json.Unmarshal([]byte(c.values), &plan.Values); err != nil {
			t.Fatal(err)
		}
		refused, err := plan.CheckValues()
		slices.Sort(refused)
		if diff := cmp.Diff(c.want, refused); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestAPlanSchemaThatCannotBeUsedIsAnError(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"type": `:            "the schema is not JSON: unexpected EOF",
		`{"type": "thing"}`:    "the schema cannot be used: ",
		`{"pattern": "(a"}`:    "the schema cannot be used: ",
		`{"$ref": "#/none"}`:   "the schema cannot be used: ",
		`{"$schema": "a://b"}`: "reference to a://b: only references within the schema are supported",
	} {
		plan := module.AddonPlan{Schema: json.RawMessage(schema)}
		if refused, err := plan.CheckValues(); err == nil || !strings.Contains(err.Error(), want) || refused != nil {
			t.Errorf("%s: refused %q, error %v; want %q", schema, refused, err, want)
		}
	}
}

func TestSchemaOfTheSectionOfAnAddonKnowsThePlansOfItsVersion(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := module.WriteAddonModules(root, []module.AddonModule{{Name: "redis-cache", Addon: redis(), Chart: chart("1.0.0")}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "redis-cache", "openapi", "config-values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := schema.Parse(schema.File{Path: "config-values.yaml", Text: text}, schema.File{})
	if err != nil {
		t.Fatal(err)
	}
	const unknown = "plan must be one of enterprise, micro, the plans of addon redis 0.0.1"
	for section, want := range map[string]string{
		`{}`: "", `{"plan": "micro", "addonVersion": "0.0.1", "any": {"value": 1}}`: "",
		`{"plan": "tiny"}`:                          unknown,
		`{"plan": "tiny", "addonVersion": "0.0.1"}`: unknown,
		`{"plan": "tiny", "addonVersion": "2.0.0"}`: "", // it can be a plan of that version
		`{"plan": 1}`:                               "must be of type string, and is of type number",
		`{"addonVersion": ""}`:                      "should be at least 1 chars long",
		`{"addonVersion": 1.0}`:                     "must be of type string, and is of type number",
	} {
		var decoded any
		if err := json.Unmarshal([]byte(section), &decoded); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, v := range schemas.Config.Check("redisCache", decoded, nil) {
			got += v.Text
		}
		if got != want {
			t.Errorf("%s: %q; want %q", section, got, want)
		}
	}
	file, err := values.ReadFile(filepath.Join(root, "redis-cache", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]bool{"redisCacheEnabled": false}, file.Flags); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
}

// unreadable is a file system in which one file cannot be read.
type unreadable struct{ fstest.MapFS }

var errUnreadable = errors.New("the archive is cut off")

func (u unreadable) ReadFile(name string) ([]byte, error) {
	if name == "templates/main.yaml" {
		return nil, errUnreadable
	}
	return u.MapFS.ReadFile(name)
}

func TestAChartThatCannotBeReadLeavesNoFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	err := module.WriteAddonModules(root, []module.AddonModule{{Name: "redis", Addon: redis(), Chart: func() (fs.FS, error) {
		return unreadable{fstest.MapFS{"Chart.yaml": {Data: []byte("name: redis\n")}, "templates/main.yaml": {Data: []byte("kind: Pod\n")}}}, nil
	}}})
	if !errors.Is(err, errUnreadable) || err.Error() != "module redis from addon redis 0.0.1: the archive is cut off" {
		t.Errorf("error %v", err)
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 0 {
		t.Errorf("left are %v, %v", entries, err)
	}
}

func TestModulesOfAddonsNeedADirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(tree(t, map[string]string{"file": ""}), "file")
	err := module.WriteAddonModules(file, []module.AddonModule{{Name: "redis", Addon: redis(), Chart: chart("1.0.0")}})
	if want := "directory of modules made from addons: mkdir " + file + ": not a directory"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
