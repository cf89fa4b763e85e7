package operation

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// fieldsIn returns the map with this JSON.
func fieldsIn(t *testing.T, text string) map[string]any {
	t.Helper()
	return objectOf(t, `{"kind":"A",`+strings.TrimPrefix(text, "{")).Object
}

func TestADifferenceIsInTheObjectsThatContainAllChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after string
		in, notIn     []string // the state before must never contain the difference, so it is not listed
	}{
		"a field is added": {
			`{"d":{"k":"v"}}`, `{"d":{"k":"v","a":"1"}}`,
			[]string{`{"d":{"a":"1"}}`, `{"d":{"k":"w","a":"1","b":"2"}}`},
			[]string{`{"d":{"k":"v","b":"1"}}`, `{"d":{"k":"v","a":"2"}}`, `{"d":"a"}`, `{"x":1}`},
		},
		"a field is changed": {`{"n":1}`, `{"n":2}`, []string{`{"n":2,"m":1}`}, []string{`{"n":1,"m":1}`, `{"n":3}`}},
		"a field is removed": {`{"d":{"a":"1","k":"v"}}`, `{"d":{"k":"v"}}`, []string{`{"d":{"k":"w"}}`, `{"x":1}`}, []string{`{"d":{"a":"1","b":"2"}}`}},
		"a field becomes empty": {
			`{"a":true,"d":{"k":"v"}}`, `{"a":false,"d":{}}`,
			[]string{`{"b":1}`, `{"a":false,"d":{}}`},
			[]string{`{"a":true}`, `{"d":{"k":"v"}}`},
		},
		"a field has another type": {`{"a":"1"}`, `{"a":{"b":"1"}}`, []string{`{"a":{"b":"1","c":"2"}}`}, []string{`{"a":"1","c":1}`}},
		"two fields are changed":   {`{"a":"1","b":"1"}`, `{"a":"2","b":"2"}`, []string{`{"a":"2","b":"2","c":1}`}, []string{`{"a":"2","b":"1"}`}},
		"an item is appended":      {`{"l":["a"]}`, `{"l":["a","b"]}`, []string{`{"l":["a","b","c"]}`, `{"l":["b"]}`}, []string{`{"l":["a","c"]}`, `{"x":1}`}},
		"an item is removed":       {`{"l":["a","b"]}`, `{"l":["a"]}`, []string{`{"l":["a","c"]}`, `{"x":1}`}, []string{`{"l":["c","a","b"]}`}},
		"all items are removed":    {`{"l":["a"]}`, `{"l":[]}`, []string{`{"x":1}`}, []string{`{"l":["a","b"]}`}},
		"an item without a name is appended, and the server sets fields of it": {
			`{"l":[{"a":["x"]}]}`, `{"l":[{"a":["x"]},{"a":["y"],"z":""}]}`,
			[]string{`{"l":[{"a":["x"]},{"a":["y","v"],"default":1},{"a":["w"]}]}`},
			[]string{`{"l":[{"a":["x"]},{"a":["w"]}]}`},
		},
		"an item with a name is appended": {
			`{"l":[{"name":"a","p":1}]}`, `{"l":[{"name":"a","p":1},{"name":"b","p":2}]}`,
			[]string{`{"l":[{"name":"c"},{"name":"b","p":2,"q":3}]}`},
			[]string{`{"l":[{"name":"a","p":1},{"name":"c","p":2}]}`, `{"l":[{"name":"b","p":3}]}`},
		},
		"an item with a name is changed": {
			`{"l":[{"name":"a","p":1},{"name":"b"}]}`, `{"l":[{"name":"a","p":2},{"name":"b"}]}`,
			[]string{`{"l":[{"name":"b"},{"name":"a","p":2}]}`},
			[]string{`{"l":[{"name":"a","p":1,"q":2},{"name":"b","p":2}]}`},
		},
		"an item with a name is removed": {
			`{"l":[{"name":"a"},{"name":"b","p":1}]}`, `{"l":[{"name":"a"}]}`,
			[]string{`{"l":[{"name":"a"},{"name":"c"}]}`},
			[]string{`{"l":[{"name":"a"},{"name":"b","p":2}]}`},
		},
		"the server stores a quantity in another form": {`{"cpu":"2"}`, `{"cpu":"1000m"}`, []string{`{"cpu":"1","x":1}`}, []string{`{"cpu":"2","x":1}`}},
		"only the form of a number is changed":         {`{"v":"1.1"}`, `{"v":"1.10"}`, []string{`{"v":"1.10","x":1}`}, []string{`{"v":"1.1","x":1}`}},
	} {
		before := fieldsIn(t, c.before)
		text, err := json.Marshal(differenceOf(before, fieldsIn(t, c.after)))
		if err != nil {
			t.Fatal(err)
		}
		var d *difference
		if err := json.Unmarshal(text, &d); err != nil || d == nil {
			t.Errorf("%s: no difference, %v", name, err)
			continue
		}
		for _, in := range append(c.in, c.after) {
			if !d.isIn(fieldsIn(t, in)) {
				t.Errorf("%s: not in %s: %s", name, in, text)
			}
		}
		for _, notIn := range append(c.notIn, c.before) {
			if d.isIn(fieldsIn(t, notIn)) {
				t.Errorf("%s: in %s: %s", name, notIn, text)
			}
		}
	}
}

func TestAChangeThatCannotBeRecognizedHasNoDifference(t *testing.T) {
	t.Parallel()
	for name, c := range map[string][2]string{
		"nothing":                      {`{"a":1}`, `{"a":1}`},
		"an empty field is added":      {`{"a":1}`, `{"a":1,"d":{},"l":[],"n":null,"s":"","z":0}`},
		"items are in another order":   {`{"l":["a","b"]}`, `{"l":["b","a"]}`},
		"an item is repeated":          {`{"l":["a"]}`, `{"l":["a","a"]}`},
		"an item is like another item": {`{"l":[{"a":"1","b":"2"}]}`, `{"l":[{"a":"1","b":"2"},{"a":"1"}]}`},
	} {
		if d := differenceOf(fieldsIn(t, c[0]), fieldsIn(t, c[1])); d != nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestADifferenceIsSmallAndHasNoValues(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	after := map[string]any{}
	for i := range 1000 {
		after[fmt.Sprintf("key-%04d", i)] = []any{map[string]any{"a": secret, "b": secret}}
	}
	d := differenceOf(map[string]any{"kind": "A"}, after)
	text, err := json.Marshal(d)
	if err != nil || d == nil || len(text) > maxDifference || strings.Contains(string(text), secret) {
		t.Errorf("%d bytes, %v: %.1000s", len(text), err, text)
	}
	if !d.isIn(after) {
		t.Error("the difference is not in the changed object")
	}
	after = map[string]any{strings.Repeat("k", maxDifference): secret}
	if d := differenceOf(map[string]any{"kind": "A"}, after); d != nil {
		t.Error("the difference is too large")
	}
}
