package dryrun

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type m = map[string]any

func TestContentOmitsTheFieldsThatTheServerSets(t *testing.T) {
	t.Parallel()
	o := m{
		"kind": "Pod", "status": m{"phase": "Running"}, "spec": m{"status": "stays"},
		"metadata": m{
			"name": "a", "labels": m{"x": "y"}, "uid": "1", "resourceVersion": "7", "generation": int64(2), "creationTimestamp": "t",
			"selfLink": "/x", "managedFields": []any{m{}}, "deletionTimestamp": "t",
		},
	}
	want := m{"kind": "Pod", "spec": m{"status": "stays"}, "metadata": m{"name": "a", "labels": m{"x": "y"}, "deletionTimestamp": "t"}}
	if diff := cmp.Diff(want, Content(o)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(o) != 4 || len(o["metadata"].(m)) != 9 { //nolint:forcetypeassert // written above
		t.Errorf("the object became %v", o)
	}
	if Content(nil) != nil {
		t.Error("no object has a content")
	}
}

func TestObjectsWithEqualContentAreTheSame(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		a, b m
		want bool
	}{
		"none":                   {nil, nil, true},
		"none and empty":         {nil, m{}, false},
		"status":                 {m{"a": "1", "status": m{"x": "1"}}, m{"a": "1"}, true},
		"version":                {m{"metadata": m{"resourceVersion": "1"}}, m{"metadata": m{"resourceVersion": "2"}}, true},
		"label":                  {m{"metadata": m{"labels": m{"a": "1"}}}, m{"metadata": m{}}, false},
		"other value":            {m{"a": "1"}, m{"a": "2"}, false},
		"number and its text":    {m{"a": int64(1)}, m{"a": "1"}, false},
		"metadata that is a map": {m{"metadata": "x"}, m{"metadata": "y"}, false},
	} {
		if got := same(test.a, test.b); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}

func TestAPatchIsAppliedByItsContentType(t *testing.T) {
	t.Parallel()
	pod := m{"apiVersion": "v1", "kind": "Pod", "spec": m{"containers": []any{m{"name": "a", "image": "1"}, m{"name": "b", "image": "1"}}}}
	thing := m{"apiVersion": "x.io/v1", "kind": "Thing", "spec": m{"list": []any{"a", "b"}, "gone": "x"}}
	const merge, strategic = "application/merge-patch+json", "application/strategic-merge-patch+json"
	for name, test := range map[string]struct {
		object      m
		patch, kind string
		want        m
		err         string
	}{
		"merge patch replaces lists": {thing, `{"spec":{"list":["c"],"gone":null}}`, merge, m{"apiVersion": "x.io/v1", "kind": "Thing", "spec": m{"list": []any{"c"}}}, ""},
		"strategic patch merges them": {
			pod, `{"spec":{"containers":[{"name":"b","image":"2"}]}}`, strategic,
			m{"apiVersion": "v1", "kind": "Pod", "spec": m{"containers": []any{m{"name": "a", "image": "1"}, m{"name": "b", "image": "2"}}}},
			"",
		},
		"empty patch":                          {thing, `{}`, merge, thing, ""},
		"strategic patch of a custom resource": {thing, `{}`, strategic, nil, "no kind \"Thing\" is registered"},
		"JSON patch":                           {thing, `[]`, "application/json-patch+json", nil, "content type application/json-patch+json is not supported"},
		"damaged patch":                        {thing, `{`, merge, nil, "Invalid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := patched(test.object, []byte(test.patch), test.kind)
			if test.err != "" {
				if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(test.err)) {
					t.Errorf("got %v, want %s", err, test.err)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}
