package schema_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"addon-operator/internal/schema"
)

// parse returns the schemas of a section, from the texts of config-values.yaml and values.yaml.
func parse(t *testing.T, config, values string) *schema.Set {
	t.Helper()
	set, err := schema.Parse(schema.File{Path: "config-values.yaml", Text: []byte(config)}, schema.File{Path: "values.yaml", Text: []byte(values)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// section decodes the values of a section. Integers are int64.
func section(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return withIntegers(v)
}

func withIntegers(v any) any {
	switch v := v.(type) {
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case []any:
		for i := range v {
			v[i] = withIntegers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = withIntegers(v[key])
		}
	}
	return v
}

// lines returns the texts of the violations.
func lines(found schema.Violations) []string {
	var out []string
	for _, v := range found {
		out = append(out, v.String())
	}
	return out
}

func TestKeysThatTheSchemaDoesNotNameAreRefusedUnlessItIsOpen(t *testing.T) {
	t.Parallel()
	set := parse(t, `
type: object
properties:
  nested:
    type: object
    properties:
      known: {type: string}
  list:
    type: array
    items:
      type: object
      properties:
        known: {type: string}
  open:
    type: object
    additionalProperties: true
    properties:
      below:
        type: object
        properties: {known: {type: string}}
  labels:
    type: object
    additionalProperties: {type: string}
  either:
    oneOf:
    - type: object
      properties: {a: {type: string}}
`, "")
	for _, c := range []struct{ values, want string }{
		{"other: 1", "mod.other is not known"},
		{"nested: {known: a, other: 1}", "mod.nested.other is not known"},
		{"list: [{known: a}, {other: 1}]", "mod.list[1].other is not known"},
		{"open: {other: 1, below: {other: 1}}", ""},
		{"labels: {any: text}", ""},
		{"labels: {any: 1}", "mod.labels.any must be of type string"},
		{"either: {a: b, other: 1}", "mod.either.a is not known"},
	} {
		got := strings.Join(lines(set.Config.Check("mod", section(t, c.values), nil)), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.values, got, c.want)
		}
	}
}

func TestAnOpenRootIsClosedBelow(t *testing.T) {
	t.Parallel()
	set := parse(t, "type: object\nadditionalProperties: true\nproperties: {nested: {type: object}}", "")
	if found := set.Config.Check("mod", section(t, "other: 1"), nil); len(found) > 0 {
		t.Errorf("an open root rejects: %v", found)
	}
	if found := set.Config.Check("mod", section(t, "nested: {other: 1}"), nil); len(found) == 0 {
		t.Error("a value below an open root accepts any key")
	}
}

func TestDefaultsFillWhatIsMissing(t *testing.T) {
	t.Parallel()
	set := parse(t, `
type: object
properties:
  size: {type: integer, default: 5}
  ratio: {type: number, default: 0.5}
  off: {type: boolean, default: false}
  with:
    type: object
    default: {}
    properties:
      below: {type: string, default: x}
  without:
    type: object
    properties:
      below: {type: string, default: x}
  list:
    type: array
    items:
      type: object
      properties:
        port: {type: integer, default: 80}
  labels:
    type: object
    additionalProperties:
      type: object
      properties:
        port: {type: integer, default: 80}
`, "")
	for _, c := range []struct{ values, want string }{
		{"{}", "{size: 5, ratio: 0.5, off: false, with: {below: x}}"},
		{"{size: 7, ratio: 1, off: true, with: {below: y}}", "{size: 7, ratio: 1, off: true, with: {below: y}}"},
		{"{size: null, with: null}", "{size: null, ratio: 0.5, off: false, with: null}"},
		{"{without: {}}", "{size: 5, ratio: 0.5, off: false, with: {below: x}, without: {below: x}}"},
		{"{list: [{}, {port: 1}]}", "{size: 5, ratio: 0.5, off: false, with: {below: x}, list: [{port: 80}, {port: 1}]}"},
		{"{labels: {a: {}}}", "{size: 5, ratio: 0.5, off: false, with: {below: x}, labels: {a: {}}}"},
		{"text", "text"},
	} {
		values := section(t, c.values)
		if diff := cmp.Diff(section(t, c.want), set.Config.Default(values)); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.values, diff)
		}
		if diff := cmp.Diff(section(t, c.values), values); diff != "" {
			t.Errorf("%s was changed:\n%s", c.values, diff)
		}
	}
}

func TestDefaultsAreNotSharedBetweenSections(t *testing.T) {
	t.Parallel()
	set := parse(t, "properties: {a: {type: array, default: [1]}}", "")
	first, _ := set.Config.Default(map[string]any{}).(map[string]any)
	list, _ := first["a"].([]any)
	list[0] = "mine"
	if diff := cmp.Diff(section(t, "a: [1]"), set.Config.Default(map[string]any{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestValuesExtendConfigValues(t *testing.T) {
	t.Parallel()
	config := `
type: object
title: of config
required: [domain]
definitions:
  port: {type: integer, maximum: 99}
properties:
  domain: {type: string}
  size: {type: integer, default: 1}
patternProperties:
  "^x": {type: string}
x-deckhouse-validations:
- expression: self.size < 10
  message: too big
`
	values := `
x-extend: {schema: config-values.yaml}
type: object
required: [own]
properties:
  own: {$ref: "#/definitions/port"}
  size: {type: integer, default: 2}
`
	set := parse(t, config, values)
	for _, c := range []struct {
		values string
		want   []string
	}{
		{"{domain: a, own: 1, xyz: a, size: 3}", nil},
		{"{}", []string{"mod.domain is missing and must be set (required)", "mod.own is missing and must be set (required)"}},
		{"{domain: a, own: 100}", []string{"mod.own should be less than or equal to 99 (maximum)"}},
		{"{domain: a, own: 1, size: 10}", []string{"mod: too big (x-deckhouse-validations)"}},
		{"{domain: a, own: 1, xyz: 1}", []string{"mod.xyz must be of type string, and is of type number (type)"}},
	} {
		if diff := cmp.Diff(c.want, lines(set.Values.Check("mod", section(t, c.values), nil))); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.values, diff)
		}
	}
	if diff := cmp.Diff(section(t, "size: 2"), set.Values.Default(map[string]any{})); diff != "" {
		t.Errorf("the default of the extending schema has no precedence: -want +got\n%s", diff)
	}
	if diff := cmp.Diff(section(t, "size: 1"), set.Config.Default(map[string]any{})); diff != "" {
		t.Errorf("the extended schema was changed: -want +got\n%s", diff)
	}
	apart := parse(t, config, "type: object\nproperties: {own: {type: integer}}")
	if found := apart.Values.Check("mod", section(t, "domain: a"), nil); len(found) != 1 {
		t.Errorf("values without x-extend accept keys of config-values: %v", found)
	}
}

func TestWhatHelmNeedsIsRequiredBeforeHelmOnly(t *testing.T) {
	t.Parallel()
	set := parse(t, "", `
type: object
x-required-for-helm: cert
required: [always]
properties:
  always: {type: string}
  cert: {type: string}
  nested:
    type: object
    x-required-for-helm: [a, b]
    properties: {a: {type: string}, b: {type: string}}
  list:
    type: array
    items:
      type: object
      x-required-for-helm: c
      properties: {c: {type: string}}
`)
	values := section(t, "{always: x, nested: {a: z}, list: [{}]}")
	if found := set.Values.Check("mod", values, nil); len(found) > 0 {
		t.Errorf("a name of x-required-for-helm is always required: %v", found)
	}
	want := []string{"mod.cert is missing and must be set (required)", "mod.nested.b is missing and must be set (required)"}
	if diff := cmp.Diff(want, lines(set.Helm.Check("mod", values, nil))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if found := set.Helm.Check("mod", section(t, "{cert: x}"), nil); len(found) != 1 || found[0].Path != "mod.always" {
		t.Errorf("got %v, want one violation at mod.always", found)
	}
}

func TestAnchorsAndForeignKeysAreTaken(t *testing.T) {
	t.Parallel()
	set := parse(t, `
type: object
x-doc-search: [a]
x-examples: [{a: {kind: small, size: 1}}]
properties:
  a: &size
    type: object
    x-kubernetes-preserve-unknown-fields: true
    properties:
      kind: {type: string}
      size: {type: integer, x-doc-example: 5, example: 7}
  b:
    <<: *size
    description: the same
  c:
    x-kubernetes-int-or-string: true
`, "")
	if found := set.Config.Check("mod", section(t, "{a: {size: 1}, b: {size: 2, kind: x}, c: 5}"), nil); len(found) > 0 {
		t.Errorf("got %v", found)
	}
	if found := set.Config.Check("mod", section(t, "{b: {size: x}}"), nil); len(found) != 1 {
		t.Errorf("the value of an anchor is not checked: %v", found)
	}
}

func TestReferencesStandForWhatTheyName(t *testing.T) {
	t.Parallel()
	set := parse(t, `
definitions:
  name: {type: string, minLength: 2}
  pair:
    type: object
    properties: {first: {$ref: "#/definitions/name"}, port: {type: integer, default: 80}}
type: object
properties:
  one: {$ref: "#/definitions/pair"}
  all: {type: array, items: {$ref: "#/definitions/pair"}}
  like: {$ref: "#/properties/all/items"}
  a/b: {type: boolean}
  slash: {$ref: "#/properties/a~1b"}
`, "")
	want := []string{
		"mod.all[0].first should be at least 2 chars long (minLength)",
		"mod.like.other is not known to the schema: remove it, or correct its name (additionalProperties)",
		"mod.slash must be of type boolean, and is of type string (type)",
	}
	got := lines(set.Config.Check("mod", section(t, "{one: {first: ab}, all: [{first: a}], like: {other: 1}, slash: x}"), nil))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff(section(t, "one: {port: 80}"), set.Config.Default(section(t, "one: {}"))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestNothingIsAskedWhereThereIsNoSchema(t *testing.T) {
	t.Parallel()
	for _, set := range []*schema.Set{parse(t, "", ""), parse(t, "# nothing yet\n", "---\n")} {
		for _, s := range []*schema.Schema{set.Config, set.Values, set.Helm} {
			if found := s.Check("mod", section(t, "any: thing"), nil); len(found) > 0 {
				t.Errorf("got %v", found)
			}
			if diff := cmp.Diff(section(t, "any: thing"), s.Default(section(t, "any: thing"))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		}
	}
}
