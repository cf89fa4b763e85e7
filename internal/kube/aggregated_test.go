package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/internal/kube"
)

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// extend runs an extension API server for group and registers it in the cluster. The extension API server serves one
// kind with one object. In its lists, the metadata come after the items.
func (s *fixture) extend(t *testing.T, group string) {
	t.Helper()
	root := "/apis/" + group + "/v1"
	mux := http.NewServeMux()
	mux.HandleFunc(root, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: group + "/v1",
			APIResources: []metav1.APIResource{{Name: "moons", Kind: "Moon", ShortNames: []string{"mo"}, Verbs: metav1.Verbs{"list", "watch"}}},
		})
	})
	mux.HandleFunc(root+"/moons", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "true" {
			_ = http.NewResponseController(w).Flush() // sends the header now, because the client waits for it
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, `{"kind":"MoonList","items":[{"metadata":{"name":"io","uid":"1","resourceVersion":"6"}}],"metadata":{"resourceVersion":"7"}}`)
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.CloseClientConnections)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseInt(address.Port(), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.api.CoreV1().Services(s.namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "moons"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	name := "v1." + group
	_, err = s.client.Dynamic().Resource(apiServices).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"group": group, "version": "v1", "insecureSkipTLSVerify": true, "groupPriorityMinimum": int64(100), "versionPriority": int64(10),
			"service": map[string]any{"namespace": s.namespace, "name": "moons", "port": port},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.client.Dynamic().Resource(apiServices).Delete(context.Background(), name, metav1.DeleteOptions{})
	})
}

func TestAKindOfAnExtensionServerIsFollowedWhenThatAppears(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	watches := s.begin(t, k)
	m := watches.open(t, kube.Spec{Owner: "early", Selection: kube.Selection{Kind: "mo"}, KeepFull: true})
	s.extend(t, s.namespace+".example.org")
	k.untilDelivered(t, "early", "Added io")
	want := fmt.Sprintf(`{"kind":"Moon","apiVersion":"%s.example.org/v1","metadata":{"name":"io","uid":"1","resourceVersion":"6"}}`, s.namespace)
	if got := string(m.Snapshot()[0].Raw); got != want {
		t.Errorf("it is %s, want %s", got, want)
	}
	late := watches.open(t, kube.Spec{Owner: "late", Selection: kube.Selection{APIVersion: s.namespace + ".example.org/v1", Kind: "Moon"}})
	if got := fmt.Sprint(shown(late)); got != "[io]" {
		t.Errorf("the snapshot shows %s", got)
	}
}
