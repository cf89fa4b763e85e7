package schema_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/schema"
)

func TestReferencesLeadToEachKindOfPart(t *testing.T) {
	t.Parallel()
	const parts = `
properties:
  items: {type: array, items: {type: boolean}}
  map: {type: object, additionalProperties: {type: boolean}}
  pattern: {type: object, patternProperties: {^a: {type: boolean}}}
  negated: {not: {type: boolean}}
  all: {allOf: [{}, {type: boolean}]}
  any: {anyOf: [{}, {type: boolean}]}
  one: {oneOf: [{type: boolean}, {type: string}]}
  "a/b~c": {type: boolean}
  nested: {properties: {deep: {items: {type: boolean}}}}
definitions:
  flag: {type: boolean}
  of a$name: {type: boolean}
  other: {$ref: '#/definitions/flag'}
`
	for _, ref := range []string{
		"properties/items/items", "properties/map/additionalProperties", "properties/pattern/patternProperties/^a", "properties/negated/not", "properties/all/allOf/1", "definitions/of a$name",
		"properties/any/anyOf/1", "properties/one/oneOf/0", "properties/a~1b~0c", "properties/nested/properties/deep/items", "definitions/flag", "definitions/other",
	} {
		set, err := schema.Parse(schema.File{Path: "c", Text: []byte(parts + "additionalProperties: {$ref: '#/" + ref + "'}")}, schema.File{})
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		valid, invalid := set.Config.Check("web", map[string]any{"x": true}, nil), set.Config.Check("web", map[string]any{"x": "text"}, nil)
		if diff := cmp.Diff([]string{"web.x must be of type boolean, and is of type string (type)"}, lines(invalid)); diff != "" || len(valid) > 0 {
			t.Errorf("%s: %v (-want +got):\n%s", ref, valid, diff)
		}
	}
	for _, ref := range []string{
		"properties/none", "properties", "definitions/flag/items", "properties/items/not", "properties/all/allOf/2", "properties/all/allOf/-1", "properties/all/allOf/x", "none/x", "properties/map/items", "items",
	} {
		_, err := schema.Parse(schema.File{Path: "c", Text: []byte(parts + "additionalProperties: {$ref: '#/" + ref + "'}")}, schema.File{})
		if err == nil || !strings.Contains(err.Error(), `has no target: add the target under definitions`) {
			t.Errorf("%s: %v", ref, err)
		}
	}
}
