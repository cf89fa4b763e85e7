package schema_test

import (
	"encoding/json"
	"testing"

	"addon-operator/internal/schema"
)

// rich is a schema that uses all supported features.
const rich = `
type: object
required: [name]
definitions:
  port: {type: integer, minimum: 1, maximum: 65535, default: 80}
x-required-for-helm: [cert]
x-deckhouse-validations:
- expression: "!has(oldSelf.name) || self.name == oldSelf.name"
  message: the name stays
properties:
  name: {type: string, pattern: "^[a-z]+$", minLength: 1, maxLength: 9}
  cert: {type: string, nullable: true, format: date-time}
  ports: {type: array, uniqueItems: true, maxItems: 5, items: {$ref: "#/definitions/port"}}
  nested:
    type: object
    default: {}
    additionalProperties: {type: object, properties: {port: {$ref: "#/definitions/port"}}}
    patternProperties: {"^x-": {type: [string, "null"]}}
  either: {oneOf: [{type: integer, multipleOf: 3}, {type: string, enum: [a, 1, null]}], not: {type: boolean}}
  sum:
    type: array
    items: {type: number}
    x-deckhouse-validations:
    - {expression: "self.all(a, self.exists(b, a <= b))", message: m}
`

// FuzzSchemaFiles checks that Parse does not panic or hang for any text of schema files, and that
// accepted schemas can fill in defaults and validate values.
func FuzzSchemaFiles(f *testing.F) {
	f.Add([]byte(rich), []byte("x-extend: {schema: config-values.yaml}\nproperties: {own: {$ref: '#/definitions/port'}}"))
	f.Add([]byte("type: object\nproperties: {a: &a {type: string}, b: *a}"), []byte("allOf: [{$ref: '#/allOf/0'}]"))
	f.Add([]byte("items: [{type: string}]\nadditionalItems: false"), []byte("dependencies: {a: [b], c: {required: [d]}}"))
	f.Add([]byte("x-deckhouse-validations: [{expression: 'self.matches(\"(a+)+$\")', message: m}]"), []byte("multipleOf: 0\nmaximum: -1e400"))
	f.Add([]byte("type: [object, array]\nformat: int64\nenum: [[], {}]"), []byte("\"\""))
	sections := []any{
		nil, "text", true, int64(5), 0.5,
		[]any{},
		[]any{"a", int64(1), nil, []any{}},
		map[string]any{"a": "x", "name": "n", "ports": []any{int64(1)}, "nested": map[string]any{"x-a": nil}},
	}
	f.Fuzz(func(_ *testing.T, config, values []byte) {
		set, err := schema.Parse(schema.File{Path: "c", Text: config}, schema.File{Path: "v", Text: values})
		if err != nil {
			_ = err.Error()
			return
		}
		for _, s := range []*schema.Schema{set.Config, set.Values, set.Helm} {
			for _, section := range sections {
				_ = s.Check("mod", s.Default(section), section).Err()
			}
		}
	})
}

// FuzzValuesAgainstSchema checks that Check does not panic for any values, and that filling in
// defaults a second time changes nothing.
func FuzzValuesAgainstSchema(f *testing.F) {
	f.Add([]byte(`{"name":"abc","ports":[1,2],"nested":{"x-a":null,"b":{}},"either":3,"sum":[1,2]}`), []byte(`{"name":"abd"}`))
	f.Add([]byte(`{"ports":[1,1,"x",null],"either":true,"cert":"no date","sum":[[]]}`), []byte(`[]`))
	f.Add([]byte(`[]`), []byte(`null`))
	f.Add([]byte(`"text"`), []byte(`5`))
	set, err := schema.Parse(schema.File{Path: "c", Text: []byte(rich)}, schema.File{Path: "v", Text: []byte(rich)})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, values, before []byte) {
		var section, old any
		if json.Unmarshal(values, &section) != nil || json.Unmarshal(before, &old) != nil {
			return
		}
		once := set.Config.Default(section)
		_ = set.Config.Check("mod", once, old).Err()
		twice, err := json.Marshal(set.Config.Default(once))
		if err != nil {
			t.Fatal(err)
		}
		if first, _ := json.Marshal(once); string(first) != string(twice) {
			t.Errorf("defaults filled in twice differ:\n%s\n%s", first, twice)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	set, err := schema.Parse(schema.File{Path: "c", Text: []byte(rich)}, schema.File{})
	if err != nil {
		b.Fatal(err)
	}
	section := map[string]any{"name": "abc", "ports": []any{int64(1), int64(2)}, "either": int64(3), "sum": []any{int64(1)}}
	for b.Loop() {
		if found := set.Config.Check("mod", section, section); len(found) > 0 {
			b.Fatal(found)
		}
	}
}
