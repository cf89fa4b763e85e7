package crd

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type m = map[string]any

// versionOf returns a version of a definition.
func versionOf(name string, served, storage bool) m {
	return m{"name": name, "served": served, "storage": storage, "schema": m{"openAPIV3Schema": m{"type": "object", "description": name}}}
}

// withVersions returns a definition of things.x.io with the versions.
func withVersions(versions ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: m{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": m{"name": "things.x.io"},
		"spec": m{"group": "x.io", "names": m{"kind": "Thing", "plural": "things"}, "versions": versions},
	}}
}

func TestVersionsThatAreStillStoredStayWithoutBeingServed(t *testing.T) {
	t.Parallel()
	before := withVersions(versionOf("v1", true, false), versionOf("v2", true, true), versionOf("v3", true, false))
	was, err := shapeOf(before)
	if err != nil {
		t.Fatal(err)
	}
	want := withVersions(versionOf("v4", true, true))
	got := keeping(want, was, []string{"v1", "v2"})
	wanted := withVersions(versionOf("v4", true, true), versionOf("v1", false, false), versionOf("v2", false, false))
	if diff := cmp.Diff(wanted.Object, got.Object); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(withVersions(versionOf("v4", true, true)).Object, want.Object); diff != "" {
		t.Errorf("the wanted definition has changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(withVersions(versionOf("v1", true, false), versionOf("v2", true, true), versionOf("v3", true, false)).Object, before.Object); diff != "" {
		t.Errorf("the definition before has changed (-want +got):\n%s", diff)
	}
}

func TestStoredVersionsAreReadFromTheStatus(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status any
		want   []string
	}{
		"no status":          {nil, nil},
		"null":               {m{"storedVersions": nil}, nil},
		"none":               {m{"storedVersions": []any{}}, nil},
		"two":                {m{"storedVersions": []any{"v1", "v2"}}, []string{"v1", "v2"}},
		"what is no version": {m{"storedVersions": []any{"v1", int64(2), nil}}, []string{"v1"}},
		"no list":            {m{"storedVersions": "v1"}, nil},
	} {
		o := withVersions()
		if test.status != nil {
			o.Object["status"] = test.status
		}
		if diff := cmp.Diff(test.want, storedVersions(o)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTheShapeOfADefinitionHasItsStorageAndServedVersions(t *testing.T) {
	t.Parallel()
	s, err := shapeOf(withVersions(versionOf("v1", false, false), versionOf("v2", true, false), versionOf("v3", true, true)))
	if err != nil {
		t.Fatal(err)
	}
	if s.group != "x.io" || s.kind != "Thing" || s.plural != "things" || s.storage != "v3" || s.served != "v2" || len(s.versions) != 3 {
		t.Errorf("got %+v", s)
	}
	if !s.has("v1") || s.has("v4") {
		t.Errorf("it has v1: %t, and v4: %t", s.has("v1"), s.has("v4"))
	}
}

func TestTheStorageHashIsThatOfTheAPIServer(t *testing.T) {
	t.Parallel()
	// An API server shows the hash 8aSe+NMegvE= for Deployments.
	if got, want := storageHash(shape{group: "apps", kind: "Deployment", storage: "v1"}), "8aSe+NMegvE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestADefinitionIsEstablishedWhenItsConditionSaysSo(t *testing.T) {
	t.Parallel()
	condition := func(kind, status string) any {
		return m{"type": kind, "status": status, "message": `"Thing" is already in use`}
	}
	for name, test := range map[string]struct {
		conditions any
		want       bool
		err        string
	}{
		"none":                            {nil, false, ""},
		"no list":                         {"x", false, ""},
		"established":                     {[]any{condition("NamesAccepted", "True"), condition("Established", "True")}, true, ""},
		"not yet":                         {[]any{condition("NamesAccepted", "True"), condition("Established", "False")}, false, ""},
		"unknown":                         {[]any{condition("Established", "Unknown"), "x", nil}, false, ""},
		"names of another":                {[]any{condition("NamesAccepted", "False")}, false, `another definition has its names: "Thing" is already in use; rename it, or remove the other definition`},
		"established with names it lacks": {[]any{condition("Established", "True"), condition("NamesAccepted", "False")}, false, "another definition has its names"},
	} {
		o := withVersions()
		o.Object["status"] = m{"conditions": test.conditions}
		got, err := isEstablished(o)
		if got != test.want || (err != nil) != (test.err != "") || err != nil && (!errors.Is(err, errNames) || !strings.HasPrefix(err.Error(), test.err)) {
			t.Errorf("%s: got %t, %v, want %t, %s", name, got, err, test.want, test.err)
		}
	}
}
