package operation

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAnObjectContainsWhatWasAskedForInTheServersForm(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	cases := map[string]struct {
		live, asked m
		want        bool
	}{
		"equal":                         {m{"a": "1", "b": int64(2)}, m{"a": "1", "b": int64(2)}, true},
		"more fields":                   {m{"a": m{"x": "1", "y": "2"}}, m{"a": m{"x": "1"}}, true},
		"another value":                 {m{"a": "1"}, m{"a": "2"}, false},
		"a field less":                  {m{"a": "1"}, m{"a": "1", "b": "2"}, false},
		"defaults in items":             {m{"l": []any{m{"n": "a", "p": "TCP"}}}, m{"l": []any{m{"n": "a"}}}, true},
		"more items":                    {m{"l": []any{"x", "a", "y", "b", "z"}}, m{"l": []any{"a", "b"}}, true},
		"more items in an item":         {m{"l": []any{m{"n": "x"}, m{"n": "a", "m": []any{"1", "2"}}}}, m{"l": []any{m{"n": "a", "m": []any{"1"}}}}, true},
		"an item less":                  {m{"l": []any{"a"}}, m{"l": []any{"a", "b"}}, false},
		"an item once instead of twice": {m{"l": []any{"a", "b"}}, m{"l": []any{"a", "a"}}, false},
		"another item":                  {m{"l": []any{m{"n": "a"}, m{"n": "b"}}}, m{"l": []any{m{"n": "a"}, m{"n": "c"}}}, false},
		"items in another order":        {m{"l": []any{"b", "a"}}, m{"l": []any{"a", "b"}}, false},
		"no list":                       {m{"l": "a"}, m{"l": []any{"a"}}, false},
		"null, empty and zero left out": {m{}, m{"a": nil, "b": m{}, "c": []any{}, "d": "", "e": false, "f": int64(0)}, true},
		"quantities":                    {m{"cpu": "1", "mem": "1Gi"}, m{"cpu": "1000m", "mem": "1024Mi"}, true},
		"a number for a quantity":       {m{"cpu": "2"}, m{"cpu": int64(2)}, true},
		"other quantities":              {m{"cpu": "1"}, m{"cpu": "1001m"}, false},
		"text in a secret": {
			m{"kind": "Secret", "data": m{"p": "cQ==", "r": "cw=="}}, m{"kind": "Secret", "stringData": m{"p": "q"}, "data": m{"r": "cw=="}}, true,
		},
		"other text in a secret": {m{"kind": "Secret", "data": m{"p": "cQ=="}}, m{"kind": "Secret", "stringData": m{"p": "x"}}, false},
		"what only the server sets": {
			m{"metadata": m{"name": "a", "uid": "1"}}, m{"metadata": m{"name": "a", "uid": "2", "resourceVersion": "7", "creationTimestamp": nil}, "status": m{"phase": "x"}}, true,
		},
	}
	for name, c := range cases {
		if got := contains(c.live, inServerForm(&unstructured.Unstructured{Object: c.asked})); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
