package tree_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/internal/tree"
)

func TestWordsOfYAMLStayTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		"on": "on", "No": "No", "'y'": "y", "true": true, "FALSE": false, "~": nil, "Null": nil, "": nil, "{}": map[string]any{}, "[]": []any{},
		"'null'": "null", `"~"`: "~", "''": "", "!!str null": "null", "['null', '~', '']": []any{"null", "~", ""},
		"{'null': x, '~': 'null', '': '~'}":  map[string]any{"null": "x", "~": "null", "": "~"},
		"{mode: on, sep: '~'}":               map[string]any{"mode": "on", "sep": "~"},
		"[yes, ~, {n: off}]":                 []any{"yes", nil, map[string]any{"n": "off"}},
		"on: x":                              map[string]any{"on": "x"},
		"True: x":                            map[string]any{"true": "x"},
		"a: &a {y: yes}\nb: {<<: *a, c: *a}": map[string]any{"a": map[string]any{"y": "yes"}, "b": map[string]any{"y": "yes", "c": map[string]any{"y": "yes"}}},
		"a: yes\n---\nb: 1":                  map[string]any{"a": "yes"},
		"2024-01-01":                         "2024-01-01",
	} {
		got, err := tree.FirstStrictYAML([]byte(text))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for text, want := range map[string]string{
		"~: x": "a key of a map must be a plain word", "? {a: b}\n: x": "a key of a map must be a plain word", "? [a]\n: x": "a key of a map must be a plain word",
		"a: &a [*a]": "contains itself", "a: [": "line 1", "a: .nan": "no JSON numbers",
	} {
		if got, err := tree.FirstStrictYAML([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
	}
}

func TestOnlyWordsDistinguishTheTwoFormsOfYAML(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("abtrue1.0~<&*! :-?#\n\"'{}[],"))).Draw(t, "text")
		want, wantErr := tree.FirstYAML([]byte(text))
		got, err := tree.FirstStrictYAML([]byte(text))
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, %v (-1.1 +words):\n%s", text, wantErr, err, diff)
		}
	})
}
