package kube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"addon-operator/internal/kube"
)

// backedUp is an API server with ConfigMaps whose etcd can be restored from a backup. All its lists are empty.
type backedUp struct {
	mu       sync.Mutex
	version  int
	upgraded bool // whether the API server has the kind Gadget
	watches  []*io.PipeWriter
}

// RoundTrip answers request without a connection.
func (s *backedUp) RoundTrip(request *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var content any = metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(s.version)}}
	switch request.URL.Path {
	case "/api":
		content = metav1.APIVersions{Versions: []string{"v1"}}
	case "/apis":
		content = metav1.APIGroupList{}
	case "/api/v1":
		kinds := []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}}
		if s.upgraded {
			kinds = append(kinds, metav1.APIResource{Name: "gadgets", Kind: "Gadget"})
		}
		content = metav1.APIResourceList{GroupVersion: "v1", APIResources: kinds}
	}
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}}
	if request.URL.Query().Get("watch") != "" {
		body, frames := io.Pipe()
		context.AfterFunc(request.Context(), func() { _ = frames.CloseWithError(request.Context().Err()) })
		s.watches = append(s.watches, frames)
		response.Body = body
		return response, nil
	}
	text, err := json.Marshal(content)
	response.Body = io.NopCloser(bytes.NewReader(text))
	return response, err
}

// upgrade adds the kind Gadget. It ends no watch, as if the watches were connected to another instance of the API server.
func (s *backedUp) upgrade() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upgraded = true
}

// restore sets the version back and ends all watches.
func (s *backedUp) restore(version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
	for _, w := range s.watches {
		_ = w.Close()
	}
	s.watches = nil
}

// add sends a frame with a new ConfigMap to the open watches.
func (s *backedUp) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	for _, w := range s.watches {
		_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":"ConfigMap","metadata":{"namespace":"ns","name":%q,"uid":%q,"resourceVersion":"%d"}}}`+"\n", name, name, s.version)
	}
}

func TestAnOwnerThatJoinedLaterGetsTheChangesAfterARestoreOfEtcd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, k := &backedUp{version: 100}, newDurableReceiver()
		s := fixtureOf(t, &rest.Config{Host: "http://cluster", QPS: -1, Transport: server}, "ns")
		watches := s.begin(t, k)
		watches.open(t, kube.Spec{Owner: "first", Selection: s.configMaps()})
		watches.open(t, kube.Spec{Owner: "later", Selection: s.configMaps()})
		synctest.Wait()
		server.restore(50)
		k.until(t, "the gap", func(k *durableReceiver) bool { return k.lists[len(k.lists)-1].Cause == kube.Gap })
		time.Sleep(time.Minute) // until the next watch is open
		server.add("one")
		synctest.Wait()
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.events) != 2 || k.events[0].owner == k.events[1].owner {
			t.Errorf("got the events %+v, want one for each owner", k.events)
		}
	})
}

func TestAKindThatAppearsWithAnUpgradeOfTheAPIServerIsFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, k := &backedUp{version: 100}, newDurableReceiver()
		s := fixtureOf(t, &rest.Config{Host: "http://cluster", QPS: -1, Transport: server}, "ns")
		watches := s.begin(t, k)
		gadgets := watches.open(t, kube.Spec{Owner: "hook", Selection: kube.Selection{Kind: "Gadget"}})
		synctest.Wait()
		if views := gadgets.Views(); len(views) > 0 {
			t.Fatalf("before the upgrade, the monitor has the views %v", views)
		}
		server.upgrade()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if views := gadgets.Views(); len(views) != 1 {
			t.Errorf("after the upgrade, the monitor has the views %v", views)
		}
	})
}
