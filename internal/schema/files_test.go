package schema_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/schema"
)

// schemaDir returns a directory with the given files.
func schemaDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAnUnusableSchemaFileIsNamed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"config-values.yaml", "values.yaml"} {
		for what, test := range map[string]struct {
			make func(path string) error
			want string
		}{
			"a directory":           {func(path string) error { return os.Mkdir(path, 0o700) }, "is not a regular file: replace or remove it"},
			"a link to a directory": {func(path string) error { return os.Symlink(t.TempDir(), path) }, "is not a regular file: replace or remove it"},
			"a large file": {
				func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("#", 1<<20+1)), 0o600) },
				"has more than 1048576 bytes: split the module into several modules",
			},
		} {
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			if err := test.make(path); err != nil {
				t.Fatal(err)
			}
			set, err := new(schema.Cache).Load(dir)
			if want := "cannot read a schema: " + path + " " + test.want; set != nil || err == nil || err.Error() != want {
				t.Errorf("%s is %s: %v, want %s", name, what, err, want)
			}
		}
	}
}

func TestASchemaFileOfTheMaximumSizeIsRead(t *testing.T) {
	t.Parallel()
	dir := schemaDir(t, map[string]string{"values.yaml": "type: object #" + strings.Repeat("x", 1<<20-len("type: object #"))})
	set, err := new(schema.Cache).Load(dir)
	if err != nil || set.Values == nil {
		t.Errorf("%v, %v", set, err)
	}
}

func TestALinkedSchemaFileIsRead(t *testing.T) {
	t.Parallel()
	target := schemaDir(t, map[string]string{"schema": "type: object"})
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(target, "schema"), filepath.Join(dir, "config-values.yaml")); err != nil {
		t.Fatal(err)
	}
	set, err := new(schema.Cache).Load(dir)
	if err != nil || set.Config == nil || set.Values != nil || set.Helm != nil {
		t.Errorf("%+v, %v", set, err)
	}
}

func TestACacheKeepsDirectoriesApart(t *testing.T) {
	t.Parallel()
	var cache schema.Cache
	open := schemaDir(t, map[string]string{"config-values.yaml": "additionalProperties: true"})
	closed := schemaDir(t, map[string]string{"config-values.yaml": "type: object"})
	for range 2 {
		for dir, want := range map[string]int{open: 0, closed: 1} {
			set, err := cache.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if found := set.Config.Check("web", map[string]any{"a": true}, nil); len(found) != want {
				t.Errorf("%d violations: %v", len(found), found)
			}
		}
	}
}

func TestAFileWithoutASchemaIsNoSchema(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "null", "~"} {
		set, err := schema.Parse(schema.File{Path: "c", Text: []byte(text)}, schema.File{Path: "v", Text: []byte(text)})
		if err != nil || set.Config != nil || set.Values != nil || set.Helm != nil {
			t.Errorf("%q: %+v, %v", text, set, err)
		}
	}
	set, err := schema.Parse(schema.File{Path: "c", Text: []byte("{}")}, schema.File{})
	if err != nil || set.Config == nil {
		t.Errorf("of an empty map: %+v, %v", set, err)
	}
	if set.Config.File() != "c" || set.Values.File() != "" {
		t.Errorf("the schemas are from %q and %q", set.Config.File(), set.Values.File())
	}
}

func TestASchemaMayBeNestedUpToALimit(t *testing.T) {
	t.Parallel()
	nested := func(levels int) string {
		return strings.Repeat("{items: ", levels) + "{}" + strings.Repeat("}", levels)
	}
	for levels, ok := range map[int]bool{64: true, 128: true, 129: false, 300: false} {
		_, err := schema.Parse(schema.File{Path: "c", Text: []byte(nested(levels))}, schema.File{})
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "nested too deeply") {
			t.Errorf("%d levels: %v", levels, err)
		}
	}
	brackets := `description: '` + strings.Repeat(`[{\"`, 500) + `'`
	if _, err := schema.Parse(schema.File{Path: "c", Text: []byte(brackets)}, schema.File{}); err != nil {
		t.Errorf("brackets in a text: %v", err)
	}
	wide := "anyOf: [" + strings.Repeat("{not: {}},", 300) + "]"
	if _, err := schema.Parse(schema.File{Path: "c", Text: []byte(wide)}, schema.File{}); err != nil {
		t.Errorf("many schemas side by side: %v", err)
	}
}

func TestASchemaThatExtendsAnotherHasItsPartsUnlessItSetsThem(t *testing.T) {
	t.Parallel()
	const config = `
title: config
required: [a]
properties: {a: {type: string}, b: {type: string}}
patternProperties: {^x: {type: string}}
definitions: {d: {type: boolean}}
x-deckhouse-validations: [{expression: "self.a != 'bad'", message: a is bad}]
`
	set := parse(t, config, `
x-extend: {schema: config-values.yaml}
required: [c]
properties: {b: {type: boolean}, c: {$ref: '#/definitions/d'}}
`)
	for text, want := range map[string][]string{
		"{a: x, b: true, c: true, x1: z}": nil,
		"{b: x, c: x}":                    {"web.a is missing and must be set (required)", "web.b must be of type boolean, and is of type string (type)", "web.c must be of type boolean, and is of type string (type)"},
		"{a: x, x1: 1}":                   {"web.c is missing and must be set (required)", "web.x1 must be of type string, and is of type number (type)"},
		"{a: bad, c: true}":               {"web: a is bad (x-deckhouse-validations)"},
	} {
		if diff := cmp.Diff(want, lines(set.Values.Check("web", section(t, text), nil))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	for _, text := range []string{"x-extend: text", "x-extend: {file: config-values.yaml}", "properties: {c: {type: boolean}}"} {
		set := parse(t, config, text)
		if found := lines(set.Values.Check("web", map[string]any{}, nil)); len(found) > 0 {
			t.Errorf("%s extends the other schema: %v", text, found)
		}
	}
}

func TestARuleWithThePreviousValueIsSkippedWithoutOne(t *testing.T) {
	t.Parallel()
	set := parse(t, `
properties:
  size: {type: integer, x-deckhouse-validations: [{expression: self >= oldSelf, message: it must not shrink}]}
  list: {type: array, items: {type: integer, x-deckhouse-validations: [{expression: self >= oldSelf, message: it must not shrink}, {expression: self > 0.0, message: it must be positive}]}}
additionalProperties: {type: integer, x-deckhouse-validations: [{expression: self == oldSelf, message: it must not change}]}
`, "")
	for _, test := range []struct {
		name string
		now  any
		old  any
		want []string
	}{
		{"no previous section", map[string]any{"size": int64(1), "x": int64(1)}, nil, nil},
		{"no previous value", map[string]any{"size": int64(1), "x": int64(1)}, map[string]any{"y": int64(2)}, nil},
		{"a smaller value", map[string]any{"size": int64(1)}, map[string]any{"size": int64(2)}, []string{"web.size: it must not shrink (x-deckhouse-validations)"}},
		{"an equal value", map[string]any{"size": int64(2), "x": int64(1)}, map[string]any{"size": int64(2), "x": int64(1)}, nil},
		{"a changed value of another key", map[string]any{"x": int64(1)}, map[string]any{"x": int64(2)}, []string{"web.x: it must not change (x-deckhouse-validations)"}},
		{"elements have no previous value", map[string]any{"list": []any{int64(1), int64(-1)}}, map[string]any{"list": []any{int64(5), int64(5)}}, []string{"web.list[1]: it must be positive (x-deckhouse-validations)"}},
	} {
		if diff := cmp.Diff(test.want, lines(set.Config.Check("web", test.now, test.old))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestARuleThatCannotBeEvaluatedSaysWhyWithoutValues(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		"self.a + self.text == 1.0":    `an operator or a function does not accept values of these types; all numbers are doubles, and int() converts them to integers`,
		"self.text > 1.0":              `an operator or a function does not accept values of these types; all numbers are doubles, and int() converts them to integers`,
		"int(self.text) > 1":           `a function in it fails on these values`,
		"self.text.matches('[')":       `a function in it fails on these values`,
		"self.text":                    `it is neither true nor false`,
		"self.list[7] == 1.0":          `a function in it fails on these values`,
		"self.missing == 'x'":          "",
		"has(self.missing)":            "must hold",
		"int(self.a) + 1 == 2":         "",
		"self.list.exists(x, x > 1.0)": "",
	} {
		set, err := schema.Parse(schema.File{Path: "c", Text: []byte("additionalProperties: true\nx-deckhouse-validations: [{expression: \"" + rule + "\", message: must hold}]")}, schema.File{})
		if err != nil {
			t.Errorf("%s: %v", rule, err)
			continue
		}
		found := lines(set.Config.Check("web", map[string]any{"a": int64(1), "text": "hunter2", "list": []any{int64(1), int64(2)}}, nil))
		switch {
		case want == "" && len(found) > 0:
			t.Errorf("%s: %v", rule, found)
		case want == "":
		case len(found) != 1 || !strings.Contains(found[0], want) || strings.Contains(found[0], "hunter2"):
			t.Errorf("%s: %v, want %s", rule, found, want)
		}
	}
}
