package kube_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"addon-operator/internal/kube"
)

// fakeServer is an API server without a network, so that a test in a bubble of testing/synctest can use it. It serves
// empty lists of the resource of example.org that is called things, and watches that send nothing.
type fakeServer struct {
	mu       sync.Mutex
	versions []string          // the versions of example.org, the preferred one first
	kinds    map[string]string // the kinds in a version, as JSON; if there is no text, the version is unavailable
	missing  map[string]bool   // the versions in which requests for objects get "not found"
}

const things = `{"name":"things","kind":"Thing","namespaced":true}`

func (f *fakeServer) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeServer) client(t *testing.T) *kube.Client {
	t.Helper()
	client, err := kube.NewClient(&rest.Config{Host: "http://fake", QPS: -1, Transport: f})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (f *fakeServer) RoundTrip(request *http.Request) (*http.Response, error) {
	code, text := f.answer(request.URL.Path)
	if code != http.StatusOK {
		text = fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d}`, code)
	}
	response := &http.Response{
		StatusCode: code, Request: request, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)),
	}
	if code == http.StatusOK && request.URL.Query().Get("watch") == "true" {
		response.Body, _ = io.Pipe()
	}
	return response, nil
}

func (f *fakeServer) answer(path string) (code int, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	versions := make([]string, len(f.versions))
	for i, version := range f.versions {
		versions[i] = fmt.Sprintf(`{"groupVersion":"example.org/%[1]s","version":"%[1]s"}`, version)
	}
	group := `{"kind":"APIGroup","name":"example.org","versions":[` + strings.Join(versions, ",") + `],"preferredVersion":` + versions[0] + `}`
	switch path {
	case "/api":
		return http.StatusOK, `{"kind":"APIVersions","versions":[]}`
	case "/apis":
		return http.StatusOK, `{"kind":"APIGroupList","groups":[` + group + `]}`
	case "/apis/example.org":
		return http.StatusOK, group
	}
	rest, found := strings.CutPrefix(path, "/apis/example.org/")
	version, resource, _ := strings.Cut(rest, "/")
	kinds, listed := f.kinds[version]
	switch {
	case !found || !listed:
		return http.StatusNotFound, ""
	case kinds == "":
		return http.StatusServiceUnavailable, ""
	case resource == "":
		return http.StatusOK, `{"kind":"APIResourceList","groupVersion":"example.org/` + version + `","resources":[` + kinds + `]}`
	case f.missing[version]:
		return http.StatusNotFound, ""
	}
	return http.StatusOK, `{"kind":"ThingList","metadata":{"resourceVersion":"10"},"items":[]}`
}

// In the first request of the group, the kind is missing.
func TestCallerThatWaitsForAKindEndsTheDelayOfItsGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{versions: []string{"v1"}, kinds: map[string]string{"v1": "{}"}}
		kinds := kube.NewKinds(server.client(t), kube.Observer{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go kinds.Run(ctx)
		if err := kinds.KnowGroup(ctx, "example.org", "v1"); err != nil {
			t.Fatal(err)
		}
		_, stop := kinds.Served("example.org/v1", "Thing")
		defer stop()
		synctest.Wait()
		server.change(func() { server.kinds["v1"] = things })
		served, stop := kinds.Served("example.org/v1", "Thing")
		defer stop()
		synctest.Wait()
		select {
		case <-served:
		default:
			t.Error("the caller does not get the kind before the delay has ended")
		}
	})
}

// startFake starts a Watches for the server in a bubble of testing/synctest.
func startFake(t *testing.T, server *fakeServer, k kube.Receiver) *run {
	t.Helper()
	return (&fixture{client: server.client(t)}).begin(t, k)
}

func TestAKindIsFollowedInAnotherVersionIfThePreferredOneStaysUnknown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		recovers time.Duration // when the preferred version is available; zero if never
		version  string
	}{
		"it stays unavailable":      {version: "v1"},
		"it is available meanwhile": {recovers: 30 * time.Second, version: "v2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &fakeServer{versions: []string{"v2", "v1"}, kinds: map[string]string{"v2": "", "v1": things}, missing: map[string]bool{}}
				watches := startFake(t, server, newDurableReceiver())
				defer watches.stop()
				began := time.Now()
				m, err := watches.Open(kube.Spec{Owner: "hook", Selection: kube.Selection{Kind: "Thing"}})
				if err != nil {
					t.Fatal(err)
				}
				recover := func() { server.change(func() { server.kinds["v2"] = things }) }
				if test.recovers > 0 {
					time.AfterFunc(test.recovers, recover)
				}
				wait(t, m)
				if views := m.Views(); len(views) != 1 || views[0].Version != test.version {
					t.Fatalf("the views are %v", views)
				}
				waited := time.Since(began)
				if waited < test.recovers || test.recovers == 0 && waited < time.Minute {
					t.Errorf("the monitor waited only for %v", waited)
				}

				// The monitor stays with its version, even if a list of its objects fails.
				recover()
				server.change(func() { server.missing[test.version] = true })
				late, err := watches.Open(kube.Spec{
					Owner: "late", Selection: kube.Selection{APIVersion: "example.org/" + test.version, Kind: "Thing"}, KeepFull: true,
				})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				server.change(func() { server.missing[test.version] = false })
				wait(t, late)
				wait(t, m)
				if views := m.Views(); len(views) != 1 || views[0].Version != test.version {
					t.Errorf("later the views are %v", views)
				}
			})
		})
	}
}
