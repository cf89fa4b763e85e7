package crashtest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// TestARequestThatTheControlPlaneHasDeletedIsNotCreatedAgain restores a cluster from which a ConfigMap and a
// CertificateSigningRequest have disappeared, and in which a new CertificateSigningRequest exists.
func TestARequestThatTheControlPlaneHasDeletedIsNotCreatedAgain(t *testing.T) {
	t.Parallel()
	const requests, maps = "/apis/certificates.k8s.io/v1/certificatesigningrequests", "/api/v1/configmaps"
	answers := map[string]string{
		"/api":                         `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/api/v1":                      `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": true, "verbs": ["list", "create", "delete"]}]}`,
		"/apis":                        `{"kind": "APIGroupList", "groups": [{"name": "certificates.k8s.io", "versions": [{"groupVersion": "certificates.k8s.io/v1", "version": "v1"}], "preferredVersion": {"groupVersion": "certificates.k8s.io/v1", "version": "v1"}}]}`,
		"/apis/certificates.k8s.io/v1": `{"kind": "APIResourceList", "groupVersion": "certificates.k8s.io/v1", "resources": [{"name": "certificatesigningrequests", "kind": "CertificateSigningRequest", "verbs": ["list", "create", "delete"]}]}`,
		maps:                           `{"kind": "ConfigMapList", "apiVersion": "v1", "items": []}`,
		requests:                       `{"kind": "CertificateSigningRequestList", "apiVersion": "certificates.k8s.io/v1", "items": [{"kind": "CertificateSigningRequest", "apiVersion": "certificates.k8s.io/v1", "metadata": {"name": "new"}}]}`,
	}
	var writes []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method != http.MethodGet {
			writes = append(writes, r.Method+" "+r.URL.Path)
			_, _ = w.Write([]byte(`{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "kept"}}`))
			return
		}
		_, _ = w.Write([]byte(answers[r.URL.Path]))
	}))
	defer server.Close()
	g := &givenCluster{before: map[thing]kept{}}
	var err error
	if g.client, err = newClient(&rest.Config{Host: server.URL}); err != nil {
		t.Fatal(err)
	}
	for text, r := range map[string]resource{
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, namespace: default}}":                  {schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap", true},
		"{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: csr-1}}": {schema.GroupVersionResource{Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests"}, "CertificateSigningRequest", false},
	} {
		o := object(t, text)
		g.before[g.identify(r, o)] = kept{r, o}
	}
	left, err := g.restore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"DELETE " + requests + "/new", "POST /api/v1/namespaces/default/configmaps"}, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"certificatesigningrequests.certificates.k8s.io new", "configmaps default/kept"}, left); diff != "" {
		t.Errorf("objects that still differ (-want +got):\n%s", diff)
	}
}
