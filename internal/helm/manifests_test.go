package helm

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/release"
)

// kindsOf returns the API version, the kind and the name of each object in the manifest.
func kindsOf(t *testing.T, manifest string) (kinds []string) {
	t.Helper()
	nodes, err := read(manifest)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		kinds = append(kinds, n.GetApiVersion()+" "+named(n).String())
	}
	return kinds
}

// versionOf returns an API version in which an API server serves a kind, or "" if there is none. This API server has
// removed the kind Gadget, and an old API version of PodDisruptionBudget.
func versionOf(apiVersion, kind string) string {
	switch kind {
	case "Gadget":
		return ""
	case "PodDisruptionBudget":
		return "policy/v1"
	default:
		return apiVersion
	}
}

// Without the object, an uninstall would leave it in the cluster.
func TestObjectsOfARemovedAPIVersionGetAnotherVersion(t *testing.T) {
	t.Parallel()
	got, err := asServed(`apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {name: old, annotations: {helm.sh/resource-policy: keep}}
spec: {minAvailable: 1}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: new}
---
apiVersion: example.com/v1
kind: Gadget
metadata: {name: gone}
`, versionOf)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"policy/v1 PodDisruptionBudget old", "policy/v1 PodDisruptionBudget new"}
	if diff := cmp.Diff(want, kindsOf(t, got.manifest)); diff != "" || got.changed != 1 || got.removed != 1 {
		t.Errorf("%d changed, %d removed (-want +got):\n%s", got.changed, got.removed, diff)
	}
	if !strings.Contains(got.manifest, "helm.sh/resource-policy: keep") || !strings.Contains(got.manifest, "minAvailable: 1") {
		t.Errorf("the changed object is not complete:\n%s", got.manifest)
	}
}

// Helm cannot process a list with an item of an unserved kind.
func TestItemsOfAListStayIfTheirKindIsServed(t *testing.T) {
	t.Parallel()
	got, err := asServed(`apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Secret, metadata: {name: a}}
- {apiVersion: example.com/v1, kind: Gadget, metadata: {name: gone}}
---
apiVersion: v1
kind: ConfigMapList
items:
- metadata: {name: b}
---
apiVersion: v1
kind: Service
metadata: {name: c}
`, versionOf)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"v1 Secret a", "v1 ConfigMap b", "v1 Service c"}
	if diff := cmp.Diff(want, kindsOf(t, got.manifest)); diff != "" || got.changed != 0 || got.removed != 1 {
		t.Errorf("%d changed, %d removed (-want +got):\n%s", got.changed, got.removed, diff)
	}
}

// A deletion must not skip a hook whose kind is not served.
func TestHooksGetAnotherVersionButAreNotRemoved(t *testing.T) {
	t.Parallel()
	hooks := []*release.Hook{
		{Manifest: "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: old}\n"},
		{Manifest: "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: gone}\n"},
		{Manifest: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: served}\n"},
	}
	changed, err := hooksAsServed(hooks, versionOf)
	if err != nil || changed != 1 {
		t.Errorf("%d changed, error %v", changed, err)
	}
	want := []string{"policy/v1 PodDisruptionBudget old", "example.com/v1 Gadget gone", "batch/v1 Job served"}
	for i, h := range hooks {
		if got := kindsOf(t, h.Manifest); !slices.Equal(got, want[i:i+1]) {
			t.Errorf("got %v, want %s", got, want[i])
		}
	}
}
