package operation_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"addon-operator/internal/kube"
	"addon-operator/internal/operation"
)

// crdServer returns an API server that serves the kind Backup with the subresource status. It serves only the version
// of the kind that is stored in version.
func crdServer(t *testing.T, version *atomic.Value) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, _ := version.Load().(string)
		group := metav1.GroupVersionForDiscovery{GroupVersion: "example.com/" + v, Version: v}
		answers := map[string]any{
			"/api":    metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
			"/api/v1": metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: "v1"},
			"/apis": metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList"}, Groups: []metav1.APIGroup{
				{Name: "example.com", Versions: []metav1.GroupVersionForDiscovery{group}, PreferredVersion: group},
			}},
			"/apis/" + group.GroupVersion: metav1.APIResourceList{
				TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: group.GroupVersion,
				APIResources: []metav1.APIResource{{Name: "backups", Kind: "Backup"}, {Name: "backups/status", Kind: "Backup"}},
			},
			"/apis/" + group.GroupVersion + "/backups/nightly/status": map[string]any{
				"apiVersion": group.GroupVersion, "kind": "Backup", "metadata": map[string]any{"name": "nightly", "resourceVersion": "7"},
			},
		}
		answer, served := answers[r.URL.Path]
		if !served {
			http.Error(w, "404 page not found", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestPatchOfASubresourceFindsTheNewVersionOfItsKind(t *testing.T) {
	t.Parallel()
	var version atomic.Value
	version.Store("v1alpha1")
	client, err := kube.NewClient(&rest.Config{Host: crdServer(t, &version).URL})
	if err != nil {
		t.Fatal(err)
	}
	executor, err := operation.NewExecutor(client, kube.NewKinds(client, kube.Observer{}), operation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	operations, err := operation.Parse([]byte(
		`{"operation":"MergePatch","kind":"Backup","name":"nightly","subresource":"status","mergePatch":{"status":{"phase":"Done"}}}`,
	))
	if err != nil {
		t.Fatal(err)
	}
	try := func() error { return executor.Do(t.Context(), operations[0], operation.Attempt{Since: time.Now()}) }
	if err := try(); err != nil {
		t.Fatal(err)
	}
	version.Store("v1")
	if err := try(); !operation.IsRefused(err) || err.Error() != "Backup has no subresource status" {
		t.Errorf("the first patch after the change: %v", err)
	}
	if err := try(); err != nil {
		t.Errorf("the second patch after the change: %v", err)
	}
}
