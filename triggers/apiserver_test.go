package triggers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
)

// allPods is the view of all pods without a filter.
var allPods = kube.View{Source: kube.Source{Version: "v1", Resource: "pods", Kind: "Pod"}}

// An apiServer serves pods and ConfigMaps. All lists are empty.
type apiServer struct {
	mu      sync.Mutex
	version int
	denied  map[string]bool           // resources to which the operator has no access
	watches map[*io.PipeWriter]string // the open watches of pods, with the paths of their requests
}

// RoundTrip answers request without a connection.
func (s *apiServer) RoundTrip(request *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := path.Base(request.URL.Path)
	if s.denied[resource] {
		return answer(http.StatusForbidden, metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden})
	}
	switch request.URL.Path {
	case "/api":
		return answer(http.StatusOK, metav1.APIVersions{Versions: []string{"v1"}})
	case "/apis":
		return answer(http.StatusOK, metav1.APIGroupList{})
	case "/api/v1":
		return answer(http.StatusOK, metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", Kind: "Pod", Namespaced: true}, {Name: "configmaps", Kind: "ConfigMap", Namespaced: true},
		}})
	}
	if request.URL.Query().Get("watch") == "" {
		return answer(http.StatusOK, metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(s.version)}})
	}
	body, frames := io.Pipe()
	context.AfterFunc(request.Context(), func() { _ = frames.CloseWithError(request.Context().Err()) })
	if resource == "pods" {
		s.watches[frames] = request.URL.Path
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
}

func answer(code int, content any) (*http.Response, error) {
	text, err := json.Marshal(content)
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)),
	}, err
}

// allow gives the operator access to the resource.
func (s *apiServer) allow(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.denied, resource)
}

// add sends a frame with a new pod to the open watches that select its namespace.
func (s *apiServer) add(namespace, name string) {
	s.mu.Lock()
	s.version++
	frame := fmt.Sprintf(`{"type":"ADDED","object":{"kind":"Pod","metadata":{"namespace":%q,"name":%q,"uid":%q,"resourceVersion":"%d"}}}`+"\n", namespace, name, "uid-"+name, s.version)
	watches := maps.Clone(s.watches)
	s.mu.Unlock()
	for w, at := range watches {
		if at == "/api/v1/pods" || at == "/api/v1/namespaces/"+namespace+"/pods" {
			_, _ = io.WriteString(w, frame) // a closed watch gets no frame
		}
	}
}

// A followedCluster is a Kube that follows the bindings in its store in a cluster with the given API server. The
// followedCluster collects the names of the objects in raised events.
type followedCluster struct {
	*Kube
	t      *testing.T
	server *apiServer

	mu     sync.Mutex
	raised []string
}

// followCluster creates a Kube, calls the function before to change the store, and starts the Kube. The Kube runs until
// the test ends. The API server denies access to the given resources.
func followCluster(t *testing.T, before func(*store.Tx) error, denied ...string) *followedCluster {
	t.Helper()
	c := &followedCluster{t: t, server: &apiServer{version: 10, denied: map[string]bool{}, watches: map[*io.PipeWriter]string{}}}
	for _, resource := range denied {
		c.server.denied[resource] = true
	}
	client, err := kube.NewClient(&rest.Config{Host: "http://cluster", QPS: -1, Transport: c.server})
	if err != nil {
		t.Fatal(err)
	}
	engine := raiserFunc(func(_ *store.Tx, events ...workflow.Event) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := range events {
			c.raised = append(c.raised, events[i].Subject.Module+": "+events[i].Object.Event+" "+events[i].Object.Name)
		}
		return nil
	})
	c.Kube = NewKube(storetest.Memory(t), engine, client, kube.NewKinds(client, kube.Observer{}), kube.Observer{}, zerolog.Nop())
	c.update(before)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *followedCluster) update(change func(*store.Tx) error) {
	c.t.Helper()
	if err := c.db.Update(change); err != nil {
		c.t.Fatal(err)
	}
}

// ready waits until the snapshots of the bindings of the hook h in the module are complete.
func (c *followedCluster) ready(module string) {
	c.t.Helper()
	if err := c.Ready(c.t.Context(), module, "h"); err != nil {
		c.t.Fatal(err)
	}
}

// owners returns the owners in the mark of the cursor of all pods with the given filter.
func (c *followedCluster) owners(filter string) (owners map[string]uint64) {
	c.t.Helper()
	if err := c.db.View(func(tx *store.Tx) error {
		m, _, err := store.Load[mark](tx, markKey(cursorKey(kube.View{Source: allPods.Source, Filter: filter})))
		owners = m.Owners
		return err
	}); err != nil {
		c.t.Fatal(err)
	}
	return owners
}
