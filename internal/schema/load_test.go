package schema_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"addon-operator/internal/schema"
)

func TestBrokenFilesSayWhichAndWhere(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("properties: {a: {", 70) + strings.Repeat("}}", 70)
	laughs := "definitions:\n  a0: {type: string}\n"
	for i := range 20 {
		laughs += fmt.Sprintf("  a%d: {allOf: [{$ref: '#/definitions/a%d'}, {$ref: '#/definitions/a%d'}]}\n", i+1, i, i)
	}
	for _, c := range []struct{ text, want string }{
		{"type: [", "values.yaml is not valid YAML: line 1"},
		{"- type: object", "values.yaml is not an OpenAPI schema: it must be a map"},
		{"text", "it must be a map"},
		{"properties: {a: {required: true}}", "/properties/a/required: a boolean is not permitted here"},
		{"properties: {a: {type: strng}}", `values.yaml: /properties/a: there is no type "strng"`},
		{"properties: {a: {pattern: '(?!x)'}}", "/properties/a: pattern: not a regular expression"},
		{"properties: {a: {patternProperties: {'(': {}}}}", "/properties/a: patternProperties: not a regular expression"},
		{"properties: {a: {$ref: '#/definitions/b'}}", `/properties/a: $ref "#/definitions/b" has no target`},
		{"properties: {a: {$ref: 'other.yaml#/a'}}", "leads to another file"},
		{"properties: {a: {$ref: '#a'}}", `/properties/a: $ref "#a" is not a path: write it like "#/definitions/name"`},
		{"definitions: {a: {properties: {b: {$ref: '#/definitions/a'}}}}\nproperties: {c: {$ref: '#/definitions/a'}}", "refers to itself: replace it by a schema"},
		{laughs + "properties: {a: {$ref: '#/definitions/a20'}}", "more than 50000 parts"},
		{deep, "nested too deep"},
		{"x-required-for-helm: {a: b}", "values.yaml: /x-required-for-helm must be the name"},
		{"properties: {a: {x-required-for-helm: [1]}}", "/properties/a/x-required-for-helm must be the name"},
		{"x-deckhouse-validations: text", "values.yaml: /x-deckhouse-validations must be a list"},
		{"properties: {a: {x-deckhouse-validations: [{expression: 'true'}]}}", "/properties/a/x-deckhouse-validations/0 must have an expression and a message"},
		{"x-deckhouse-validations: [{expression: 'self.', message: m}]", "/x-deckhouse-validations/0/expression: not valid CEL at line 1, column 6: "},
		{"x-deckhouse-validations: [{expression: '1 + 1', message: m}]", "must be true or false"},
		{"x-deckhouse-validations: [{expression: 'other.a', message: m}]", "undeclared reference to 'other'"},
		{"x-deckhouse-validations: [{expression: '" + strings.Repeat("true && ", 3000) + "true', message: m}]", "longer than"},
		{"a: " + strings.Repeat("x", 1<<20), "more than 1048576 bytes"},
	} {
		_, err := schema.Parse(schema.File{}, schema.File{Path: "openapi/values.yaml", Text: []byte(c.text)})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "openapi/values.yaml") {
			t.Errorf("%.80s: got %v, want %q", c.text, err, c.want)
		}
	}
}

func TestCacheSeesFilesThatChange(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "openapi")
	var cache schema.Cache
	load := func() (*schema.Set, error) { return cache.Load(dir) }
	set, err := load()
	if err != nil || set.Config != nil || set.Values != nil {
		t.Fatalf("without a directory: %v, %v", set, err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("config-values.yaml", "type: object")
	first, err := load()
	if err != nil || first.Config == nil || first.Config.File() != filepath.Join(dir, "config-values.yaml") {
		t.Fatalf("got %v, %v", first, err)
	}
	if again, _ := load(); again != first {
		t.Error("an unchanged file was parsed again")
	}
	write("values.yaml", "type: [")
	if _, err := load(); err == nil {
		t.Error("a broken file is not reported")
	}
	if _, err := load(); err == nil {
		t.Error("a broken file is not reported a second time")
	}
	write("values.yaml", "type: object")
	if second, err := load(); err != nil || second.Helm == nil {
		t.Errorf("a corrected file is not read: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "values.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "values.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := load(); err == nil {
		t.Error("a dangling symlink is treated as no file")
	}
}
