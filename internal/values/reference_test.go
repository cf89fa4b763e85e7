package values_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"addon-operator/internal/schema"
	"addon-operator/internal/values"
)

// TestHooksAddBelowTheParentThatWritingHooksDeclares follows the instructions of the page for authors of hooks: before a
// hook adds a value, the parent of the value must be declared in values.yaml, or in openapi/values.yaml if the module has
// schemas. The test checks that the hook can add the value. It also checks that schemas reject a parent that is declared
// only in values.yaml.
func TestHooksAddBelowTheParentThatWritingHooksDeclares(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/writing-hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	ops, err := values.ParsePatch([]byte(`{"op": "add", "path": "/web/internal/installed", "value": true}`))
	if err != nil {
		t.Fatal(err)
	}
	withParent := doc(t, jsonOf(t, block(t, string(text), "modules/010-web/values.yaml")))
	config := schema.File{Path: "config-values.yaml", Text: []byte("type: object\nproperties: {replicas: {type: integer, default: 1}}")}
	schemas := func(files ...schema.File) map[string]*schema.Set {
		set, err := schema.Parse(files[0], files[1])
		if err != nil {
			t.Fatal(err)
		}
		return map[string]*schema.Set{"web": set}
	}
	for name, l := range map[string]values.Layers{
		"values.yaml": {Static: withParent},
		"openapi/values.yaml": {Schemas: schemas(config,
			schema.File{Path: "values.yaml", Text: block(t, string(text), "modules/010-web/openapi/values.yaml")})},
	} {
		if err := l.CheckFiles("web"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		before, _ := l.Section("web")
		if _, err := values.Apply(values.Values{"web": before}, ops); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		l.Saved = map[string][]values.Saved{"web": values.MergePatches(nil, ops, "hook")}
		if err := checkMerged(l, "web"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := l.Section("web"); !strings.Contains(canonical(t, after), `"internal":{"installed":true}`) {
			t.Errorf("%s: the values are %s", name, canonical(t, after))
		}
	}
	refused := values.Layers{Static: withParent, Schemas: schemas(config, schema.File{Path: "values.yaml"})}
	if err := refused.CheckFiles("web"); err == nil || !strings.Contains(err.Error(), "internal") {
		t.Errorf("values.yaml beside openapi/config-values.yaml: %v", err)
	}
}

func TestTheConfigMapOfWritingModulesIsValid(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/writing-modules.md")
	if err != nil {
		t.Fatal(err)
	}
	var object struct{ Data map[string]string }
	_, rest, _ := strings.Cut(string(text), "```yaml\ndata:\n")
	code, _, found := strings.Cut(rest, "```")
	if err := yaml.Unmarshal([]byte("data:\n"+code), &object); err != nil || !found {
		t.Fatal(err)
	}
	c, err := values.ParseConfig(object.Data)
	if err != nil || len(c.Sections) != 2 || len(c.Flags) != 1 {
		t.Errorf("%v, %v", c, err)
	}
}

// page is the reference page about values and schemas.
const page = "../../docs/reference/values-and-schemas.md"

// block returns a code block of a page. The first line of the block is a comment with the given name.
func block(t *testing.T, text, name string) []byte {
	t.Helper()
	_, rest, found := strings.Cut(text, " "+name+"\n")
	code, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatalf("the page has no block %q", name)
	}
	return []byte(code)
}

// jsonOf returns YAML as JSON.
func jsonOf(t *testing.T, text []byte) string {
	t.Helper()
	out, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestTheReferencePageSaysWhatLayersAndSchemasDo(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	get := func(name string) []byte { return block(t, string(text), name) }
	set, err := schema.Parse(
		schema.File{Path: "config-values.yaml", Text: get("openapi/config-values.yaml")},
		schema.File{Path: "values.yaml", Text: get("openapi/values.yaml")},
	)
	if err != nil {
		t.Fatal(err)
	}
	ops, err := values.ParsePatch(get("$VALUES_JSON_PATCH_PATH"))
	if err != nil {
		t.Fatal(err)
	}
	l := values.Layers{
		Static:  doc(t, jsonOf(t, get("modules/values.yaml"))),
		Config:  config(t, map[string]string{"web": string(get("web in the ConfigMap"))}),
		Saved:   map[string][]values.Saved{"web": values.MergePatches(nil, ops, "hook")},
		Schemas: map[string]*schema.Set{"web": set},
	}
	got, _ := l.Section("web")
	want := doc(t, `{"web":`+string(get("$VALUES_PATH, section web"))+`}`)["web"]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the example's values: -want +got\n%s", diff)
	}
	l = values.Layers{Schemas: l.Schemas}
	rows := regexp.MustCompile("(?m)^\\| `(\\{.*\\})` \\| `(web.*)` \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 6 {
		t.Errorf("found %d errors on the page", len(rows))
	}
	for _, row := range rows {
		section := doc(t, `{"web":`+jsonOf(t, []byte(row[1]))+`}`)["web"]
		if err := l.CheckConfig("web", section); err == nil || !strings.HasSuffix(err.Error(), ": "+row[2]) {
			t.Errorf("%s: got %v, want %s", row[1], err, row[2])
		}
	}
	helm := regexp.MustCompile("(?m)^Before Helm, for `\\{\\}`: `(.*)`\\.$").FindStringSubmatch(string(text))
	if err := l.CheckHelm("web"); err == nil || helm == nil || !strings.HasSuffix(err.Error(), ": "+helm[1]) {
		t.Errorf("got %v, want %s", err, helm)
	}
}
