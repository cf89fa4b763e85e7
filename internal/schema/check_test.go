package schema_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// secret is a value in the tests. No error may quote this value.
const secret = "s3cr3t"

func TestViolationsSayWhereAndByWhichRuleAndQuoteNoValue(t *testing.T) {
	t.Parallel()
	set := parse(t, `
type: object
minProperties: 1
properties:
  int: {type: integer, minimum: 2, maximum: 4, multipleOf: 2}
  open: {type: number, minimum: 2, exclusiveMinimum: true}
  text: {type: string, minLength: 7, maxLength: 8, pattern: "^a+$"}
  word: {type: string, enum: [one, two]}
  address: {type: string, format: ipv4}
  list: {type: array, minItems: 2, maxItems: 3, uniqueItems: true, items: {type: string}}
  few: {type: object, maxProperties: 1, additionalProperties: true}
  either: {oneOf: [{type: integer}, {type: boolean}]}
  any: {anyOf: [{type: integer}, {type: boolean}]}
  never: {not: {type: string}}
  nullable: {type: string, nullable: true}
  deep: {type: array, items: {type: array, items: {type: object, required: [name], properties: {name: {type: string}}}}}
`, "")
	for _, c := range []struct{ values, path, rule, text string }{
		{"{}", "mod", "minProperties", "at least 1"},
		{"int: " + secret, "mod.int", "type", "must be of type integer, and is of type string"},
		{"int: 2.5", "mod.int", "type", "integer"},
		{"int: 1", "mod.int", "minimum", "greater than or equal to 2"},
		{"int: 6", "mod.int", "maximum", "less than or equal to 4"},
		{"int: 3", "mod.int", "multipleOf", "2"},
		{"open: 2", "mod.open", "minimum", "greater than 2"},
		{"text: " + secret + "t", "mod.text", "pattern", "^a+$"},
		{"text: " + secret, "mod.text", "minLength", "7"},
		{"text: aaaaaaaaa", "mod.text", "maxLength", "8"},
		{"text: null", "mod.text", "type", "must be of type string, and is of type null"},
		{"word: " + secret, "mod.word", "enum", "[one two]"},
		{"address: " + secret, "mod.address", "format", "ipv4"},
		{"list: [a]", "mod.list", "minItems", "2"},
		{"list: [a, b, c, d]", "mod.list", "maxItems", "3"},
		{"list: [" + secret + "," + secret + "]", "mod.list", "uniqueItems", "duplicates"},
		{"list: [a, 1]", "mod.list[1]", "type", "string"},
		{"few: {a: 1, b: 2}", "mod.few", "maxProperties", "1"},
		{"either: " + secret, "mod.either", "oneOf", "one of"},
		{"any: " + secret, "mod.any", "anyOf", "one of"},
		{"never: " + secret, "mod.never", "not", "must not"},
		{"deep: [[], [{name: a}, {}]]", "mod.deep[1][1].name", "required", "is missing"},
		{"other: " + secret, "mod.other", "additionalProperties", "not known"},
		{"[" + secret + "]", "mod", "type", "object"},
	} {
		found := set.Config.Check("mod", section(t, c.values), nil)
		hit := false
		for _, v := range found {
			hit = hit || v.Path == c.path && v.Rule == c.rule && strings.Contains(v.Text, c.text)
		}
		if !hit {
			t.Errorf("%s: got %q, want %s %s (%s)", c.values, lines(found), c.path, c.text, c.rule)
		}
		if err := found.Err(); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: there is no error, or it quotes the value: %v", c.values, err)
		}
	}
	if found := set.Config.Check("mod", section(t, "{nullable: null, int: 2.0, open: 3}"), nil); len(found) > 0 {
		t.Errorf("got %v", found)
	}
}

// An identifier such as 1098765432109876543 is an integer, although a float64 cannot represent it exactly.
func TestALargeIntegerIsAnInteger(t *testing.T) {
	t.Parallel()
	set := parse(t, `
type: object
properties:
  int: {type: integer, format: int64, minimum: 1}
  small: {type: integer, maximum: 9007199254740992}
  number: {type: number, maximum: 1.0e+300}
  text: {type: string}
  either: {oneOf: [{type: integer}, {type: boolean}]}
x-deckhouse-validations:
- {expression: "!has(self.int) || self.int > 2.0", message: too small}
`, "")
	const large = 1098765432109876543
	for _, c := range []struct {
		key, want string
		value     any
	}{
		{"int", "", int64(large)},
		{"int", "", []any{int64(1<<53 - 1), int64(1 << 53), int64(1<<53 + 1), int64(math.MaxInt64)}},
		{"int", "minimum", []any{int64(-large), int64(math.MinInt64)}},
		{"small", "type", []any{1e300, 2.5}},
		{"small", "maximum", int64(large)},
		{"number", "", int64(large)},
		{"text", "type", int64(large)},
		{"either", "", int64(large)},
	} {
		all, isList := c.value.([]any)
		if !isList {
			all = []any{c.value}
		}
		for _, value := range all {
			rule := ""
			for _, v := range set.Config.Check("mod", map[string]any{c.key: value}, nil) {
				rule = v.Rule
			}
			if rule != c.want {
				t.Errorf("%s: %v: the violated rule is %q, want %q", c.key, value, rule, c.want)
			}
		}
	}
}

func TestMisspelledKeyIsRefusedWithTheKeyThatIsLikelyMeant(t *testing.T) {
	t.Parallel()
	set := parse(t, `
type: object
properties:
  replicas: {type: integer}
  ports:
    type: array
    items: {type: object, properties: {protocol: {type: string}}}
  resources: {type: object, properties: {limits: {type: string}}}
`, "")
	for values, want := range map[string]string{
		"replcias: 1":                `mod.replcias is not known to the schema: remove it, or correct its name; did you mean "replicas"? (additionalProperties)`,
		"resources: {limit: a}":      `mod.resources.limit is not known to the schema: remove it, or correct its name; did you mean "limits"? (additionalProperties)`,
		"ports: [{}, {protokol: x}]": `mod.ports[1].protokol is not known to the schema: remove it, or correct its name; did you mean "protocol"? (additionalProperties)`,
		"colour: red":                `mod.colour is not known to the schema: remove it, or correct its name (additionalProperties)`,
	} {
		if got := set.Config.Check("mod", section(t, values), nil).Err(); got == nil || got.Error() != want {
			t.Errorf("%s: %v, want %s", values, got, want)
		}
	}
}

func TestALongListOfViolationsIsCut(t *testing.T) {
	t.Parallel()
	set := parse(t, "type: object", "")
	values := map[string]any{}
	for i := range 25 {
		values[fmt.Sprintf("key%02d", i)] = int64(i)
	}
	found := set.Config.Check("mod", values, nil)
	if len(found) != 25 {
		t.Fatalf("got %d violations", len(found))
	}
	if text := found.Err().Error(); !strings.HasSuffix(text, "; and 15 more") || strings.Count(text, "is not known") != 10 {
		t.Errorf("got %s", text)
	}
}

func TestRulesHoldWhereTheyStand(t *testing.T) {
	t.Parallel()
	set := parse(t, `
type: object
properties:
  min: {type: integer}
  max: {type: integer}
  mode: {type: string}
  nested:
    type: object
    properties: {mode: {type: string}, text: {type: string}}
    x-deckhouse-validations:
    - expression: self.mode == oldSelf.mode
      message: nested mode stays
    - expression: int(self.text) > 0
      message: text is positive
  list:
    type: array
    items:
      type: object
      properties: {even: {type: integer}}
      x-deckhouse-validations:
      - expression: int(self.even) % 2 == 0
        message: even is even
  named:
    type: object
    additionalProperties:
      type: integer
      x-deckhouse-validations:
      - expression: self < 10
        message: below ten
x-deckhouse-validations:
- expression: self.min <= self.max
  message: min is above max
- expression: "!has(oldSelf.mode) || self.mode == oldSelf.mode"
  message: mode stays
`, "")
	for _, c := range []struct {
		values, old string
		want        []string
	}{
		{"{min: 1, max: 2}", "", nil},
		{"{min: 3, max: 2}", "", []string{"mod: min is above max (x-deckhouse-validations)"}},
		{"{min: 3}", "", nil}, // the key max is missing, so the rule does not apply
		{"{mode: a}", "", nil},
		{"{mode: a}", "{mode: b}", []string{"mod: mode stays (x-deckhouse-validations)"}},
		{"{mode: a}", "{}", nil},
		{"{nested: {mode: a}}", "{}", nil},
		{"{nested: {mode: a}}", "{nested: {mode: b}}", []string{"mod.nested: nested mode stays (x-deckhouse-validations)"}},
		{"{list: [{even: 2}, {even: 3}]}", "", []string{"mod.list[1]: even is even (x-deckhouse-validations)"}},
		{"{named: {a: 9, b: 10}}", "", []string{"mod.named.b: below ten (x-deckhouse-validations)"}},
		{"{nested: {text: " + secret + "}}", "", []string{`mod.nested: rule "int(self.text) > 0" cannot be evaluated: a function in it fails on these values (x-deckhouse-validations)`}},
		{"{min: 3, max: x}", "", []string{"mod.max must be of type integer, and is of type string (type)"}},
	} {
		var old any
		if c.old != "" {
			old = section(t, c.old)
		}
		if diff := cmp.Diff(c.want, lines(set.Config.Check("mod", section(t, c.values), old))); diff != "" {
			t.Errorf("%s after %s: -want +got\n%s", c.values, c.old, diff)
		}
	}
}

func TestARuleThatCostsTooMuchDoesNotHold(t *testing.T) {
	t.Parallel()
	set := parse(t, `
type: object
properties: {list: {type: array, items: {type: integer}}}
x-deckhouse-validations:
- expression: self.list.all(a, self.list.all(b, self.list.all(c, a + b + c >= 0.0)))
  message: sums are positive
`, "")
	list := make([]any, 200)
	for i := range list {
		list[i] = int64(i)
	}
	found := set.Config.Check("mod", map[string]any{"list": list}, nil)
	if len(found) != 1 || !strings.Contains(found[0].Text, "costs more than") {
		t.Errorf("got %v", found)
	}
}

func TestSchemaSaysWhichPropertiesItNames(t *testing.T) {
	t.Parallel()
	set := parse(t, "properties: {a: {type: object, properties: {b: {type: string}}}}", "")
	for path, want := range map[string]bool{"mod.a": true, "mod.a.b": true, "mod.b": false, "mod.a.b.c": false} {
		if got := set.Config.Names(path); got != want {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
	if set.Values.Names("mod.a") {
		t.Error("a missing schema has a property")
	}
}
