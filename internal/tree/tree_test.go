package tree_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	goyaml "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"

	"addon-operator/internal/tree"
)

func TestATextIsAStreamOfJSONOrElseYAML(t *testing.T) {
	t.Parallel()
	one, two := map[string]any{"a": json.Number("1")}, map[string]any{"b": "x"}
	for text, want := range map[string][]any{
		"":                                 nil,
		"null":                             nil,
		"# nothing\n---\n":                 nil,
		`{"a":1}{"b":"x"}`:                 {one, two},
		"\ufeff{\"a\":1}\n\n{\"b\":\"x\"}": {one, two},
		"a: 1\n---\nb: x\n":                {one, two},
		"---\na: 1\n---\n---\nb: x\n...":   {one, two},
		"{a: 1,}\n---\n{b: 'x'}":           {one, two},
		"[1.50, 1e3, 12345678901234567890123]": {
			[]any{json.Number("1.50"), json.Number("1e3"), json.Number("12345678901234567890123")},
		},
		"a: !!binary 0000": {map[string]any{"a": "\ufffdM4"}},
		"a: &x {b: [y, on, 0x10]}\nc: {<<: *x, 5: ~}": {map[string]any{
			"a": map[string]any{"b": []any{true, true, json.Number("16")}},
			"c": map[string]any{"b": []any{true, true, json.Number("16")}, "5": nil},
		}},
	} {
		got, err := tree.Documents([]byte(text))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	}
}

func TestOnlyTrueAndFalseAreBooleansInStrictDocuments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		"a: [y, N, yes, No, on, OFF]":              map[string]any{"a": []any{"y", "N", "yes", "No", "on", "OFF"}},
		"a: [true, False, TRUE, 'true', !!str no]": map[string]any{"a": []any{true, false, true, "true", "no"}},
		"{on: 1, true: 2, 0x1: 3, 1.50: 4, yes: {no: []}}": map[string]any{
			"on": json.Number("1"), "true": json.Number("2"), "1": json.Number("3"), "1.5": json.Number("4"),
			"yes": map[string]any{"no": []any{}},
		},
		"a: [1.50, 0x10, 017, ~, null, {}, 2026-01-02, !!binary YQ==]": map[string]any{
			"a": []any{json.Number("1.5"), json.Number("16"), json.Number("15"), nil, nil, map[string]any{}, "2026-01-02", "a"},
		},
		"a: &x {b: on}\nc: {<<: *x, d: *x}": map[string]any{
			"a": map[string]any{"b": "on"}, "c": map[string]any{"b": "on", "d": map[string]any{"b": "on"}},
		},
		"a: 1\na: no": map[string]any{"a": "no"},
		"yes":         "yes",
		`{"a": true}`: map[string]any{"a": true},
	} {
		got, err := tree.StrictDocuments([]byte(text))
		if diff := cmp.Diff([]any{want}, got); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"{? [hunter2] : 1}", "a: {? {b: hunter2} : 1}", "a: *hunter2", "a: !!int hunter2", "a: .inf"} {
		got, err := tree.StrictDocuments([]byte(text))
		_, wanted := tree.Documents([]byte(text))
		if err == nil || got != nil || err.Error() != wanted.Error() {
			t.Errorf("%q is read as %v, %v, want %v", text, got, err, wanted)
		}
	}
}

func TestErrorsSayWhereAndQuoteNothing(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a":1}{"b":`:             "neither JSON, document 2 ends in the middle, nor YAML, document 2: did not find expected <document start>",
		`{"a":1}{"b":hunter2`:      "neither JSON, document 2 is not valid JSON near byte 7, nor YAML, document 2: did not find expected <document start>",
		"a: 1\n---\na: [hunter2\n": "not valid YAML, document 2: line 3: did not find expected ',' or ']'",
		"a: *hunter2":              "not valid YAML, document 1: unknown anchor it referenced",
		"a: !!int hunter2":         "not valid YAML, document 1: cannot decode !!str it as a !!int",
		"{? [hunter2] : 1}":        "neither JSON, document 1 is not valid JSON near byte 0, nor YAML, document 1: a key of a map must be a plain word, not a list, a map or null",
		"~: hunter2":               "not valid YAML, document 1: a key of a map must be a plain word, not a list, a map or null",
		"a: .inf":                  "not valid YAML, document 1: .nan and .inf are no JSON numbers; quote them or leave them out",
	} {
		got, err := tree.Documents([]byte(text))
		if err == nil || got != nil {
			t.Errorf("%q is read as %v", text, got)
		} else if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestTheLineOfASyntaxErrorIsKnownWhereTheParserKnowsIt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]tree.SyntaxError{
		"a: 1\nb: [\n": {Line: 2, Why: "did not find expected node content"},
		"a: b: c":      {Why: "mapping values are not allowed in this context"},
	} {
		_, err := tree.FirstYAML([]byte(text))
		if got, ok := errors.AsType[*tree.SyntaxError](err); !ok {
			t.Errorf("%q: %v", text, err)
		} else if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestAliasesThatStandForTooMuchAreRefused(t *testing.T) {
	t.Parallel()
	text := "a: &a " + strings.Repeat("x", 1<<20) + "\nlist:\n" + strings.Repeat("- *a\n", 40)
	for name, read := range map[string]func([]byte) error{
		"all":   func(text []byte) error { _, err := tree.Documents(text); return err },
		"first": func(text []byte) error { _, err := tree.FirstYAML(text); return err },
	} {
		if err := read([]byte(text)); err == nil || err.Error() != "expands to more than the limit of 16 MiB" &&
			!strings.HasSuffix(err.Error(), ": expands to more than the limit of 16 MiB") {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

func TestYAMLThatIsTooLongIsRefusedAndJSONIsNot(t *testing.T) {
	t.Parallel()
	filler := `"` + strings.Repeat("x", 5<<20) + `"`
	for text, want := range map[string]string{
		"a: " + filler:             "document 1: is larger than 4 MiB, the limit for YAML; JSON can be larger",
		`{"a": ` + filler + `, b}`: "neither JSON, document 1 is not valid JSON near byte ",
		`{"a": ` + filler + `}`:    "",
	} {
		_, err := tree.Documents([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.10s…: %v, want %q", text, err, want)
		}
	}
}

func TestPartsOfAYAMLTextKnowWhereTheyStand(t *testing.T) {
	t.Parallel()
	type part struct {
		Text         string
		Number, Line int
	}
	for text, want := range map[string][]part{
		"":                               {{"", 1, 1}},
		"a: 1\n":                         {{"a: 1\n", 1, 1}},
		"# x\n---\na: 1\n--- # y\nb":     {{"# x\n", 1, 1}, {"a: 1\n", 2, 3}, {"# y\nb", 3, 4}},
		"\n---\r\na: 1\r\n---\r\n":       {{"a: 1\r\n", 1, 3}, {"", 2, 5}},
		"---\na: |\n  ---\n----\nb: 1":   {{"a: |\n  ---\n----\nb: 1", 1, 2}},
		"--- {a: 1}\n---\n\n---\tb: 2\n": {{"{a: 1}\n", 1, 1}, {"\n", 2, 3}, {"b: 2\n", 3, 4}},
	} {
		var got []part
		for _, p := range tree.Split([]byte(text)) {
			got = append(got, part{string(p.Text), p.Number, p.Line})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// ambiguous reports whether value contains a map with two keys that are the same text, such as 0 and "0".
func ambiguous(value any) bool {
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, ambiguous)
	case map[any]any:
		names := map[string]bool{}
		for key, under := range v {
			names[fmt.Sprint(key)] = true
			if ambiguous(under) {
				return true
			}
		}
		return len(names) < len(v)
	default:
		return false
	}
}

// FuzzFirstYAML checks that FirstYAML returns the same value that Kubernetes reads from the text.
func FuzzFirstYAML(f *testing.F) {
	for _, text := range []string{
		"a: 1", "a: [y, 1.5, 1e3, 0o7, 07, ~, 2001-01-01]\n1: 2\n1.5: x\non: off", "a: &a {b: 1}\nc: {<<: *a}", "---\n- x\n---\n- y",
		"a: !!binary aGVsbG8=", "a: !!timestamp 2001-01-01", "{\"a\": \"\\ud800\"}", "a: .inf", "? [a]\n: b", "a: *b", "\x00",
		"{10000000000000000000}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<12 || strings.Contains(text, "*") && strings.Count(text, "*") > 3 {
			return // with many aliases, the text can expand to more than the limit
		}
		var parsed any
		if goyaml.Unmarshal([]byte(text), &parsed) == nil && ambiguous(parsed) {
			return
		}
		want, wantErr := yaml.YAMLToJSON([]byte(text))
		read, err := tree.FirstYAML([]byte(text))
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%v, but %v", err, wantErr)
		}
		if err != nil {
			return
		}
		var wanted any
		if err := json.Unmarshal(want, &wanted); err != nil {
			t.Fatal(err)
		}
		written, err := json.Marshal(read)
		if err != nil {
			t.Fatal(err)
		}
		var got any
		if err := json.Unmarshal(written, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Error(diff)
		}
	})
}
