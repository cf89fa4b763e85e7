package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/internal/kube"
)

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// extension is an extension API server. It serves one kind with one object, and lists the kinds that are passed to its
// method add.
type extension struct {
	frames chan string // the frames of the next watches

	mu      sync.Mutex
	kinds   []metav1.APIResource
	items   string // the objects in the list of the kind, in JSON
	version string // the resource version of this list
}

func (e *extension) setList(items, version string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.items, e.version = items, version
}

// list answers a request for the list of the kind.
func (e *extension) list(w http.ResponseWriter, kind string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fmt.Fprint(w, `{"kind":"`+kind+`List","items":[`+e.items+`],"metadata":{"resourceVersion":"`+e.version+`"}}`)
}

// watch answers a request for a watch with the frames of e until the request ends.
func (e *extension) watch(w http.ResponseWriter, r *http.Request) {
	for {
		_ = http.NewResponseController(w).Flush() // first sends the header, because the client waits for it
		select {
		case <-r.Context().Done():
			return
		case frame := <-e.frames:
			fmt.Fprintln(w, frame)
		}
	}
}

func (e *extension) add(plural, kind string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kinds = append(e.kinds, metav1.APIResource{Name: plural, Kind: kind, ShortNames: []string{plural[:2]}, Verbs: metav1.Verbs{"list", "watch"}})
}

func (e *extension) listed() []metav1.APIResource {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.kinds)
}

// extend runs an extension API server that serves the given kind in the given group, and registers the server in the
// cluster. In the lists of this server, the metadata come after the items.
func (s *fixture) extend(t *testing.T, group, kind string) *extension {
	t.Helper()
	e, plural := &extension{frames: make(chan string)}, strings.ToLower(kind)+"s"
	e.setList(`{"metadata":{"name":"io","uid":"1","resourceVersion":"6"}}`, "7")
	e.add(plural, kind)
	root := "/apis/" + group + "/v1"
	mux := http.NewServeMux()
	mux.HandleFunc(root, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: group + "/v1",
			APIResources: e.listed(),
		})
	})
	mux.HandleFunc(root+"/"+plural, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "true" {
			e.watch(w, r)
			return
		}
		e.list(w, kind)
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
	service, err := s.api.CoreV1().Services(s.namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: plural + "-"},
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
			"service": map[string]any{"namespace": s.namespace, "name": service.Name, "port": port},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.client.Dynamic().Resource(apiServices).Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	return e
}

func TestAKindOfAnExtensionServerIsFollowedWhenThatAppears(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	watches := s.begin(t, k)
	m := watches.open(t, kube.Spec{Owner: "early", Selection: kube.Selection{Kind: "mo"}, KeepFull: true})
	s.extend(t, s.namespace+".example.org", "Moon")
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

func TestChangesWithVersionsThatCannotBeComparedAreDelivered(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	group := s.namespace + ".example.org"
	e := s.extend(t, group, "Ring") // a kind of its own, because other tests search all groups for a short name
	e.setList(`{"metadata":{"name":"io","uid":"1","resourceVersion":"6"}}`, "b")
	s.awaitKind(t, group+"/v1", "Ring")
	m := s.begin(t, k).open(t, kube.Spec{Owner: "hook", Selection: kube.Selection{APIVersion: group + "/v1", Kind: "Ring"}, Period: 50 * time.Millisecond})
	e.frames <- `{"type":"ADDED","object":{"kind":"Ring","metadata":{"name":"triton","uid":"2","resourceVersion":"a"}}}`
	k.untilDelivered(t, "hook", "Added triton", "Deleted triton") // deleted, because the periodic lists do not contain triton
	e.setList(`{"metadata":{"name":"io","uid":"1","resourceVersion":"c","labels":{"of":"jupiter"}}}`, "c")
	k.untilDelivered(t, "hook", "Added triton", "Deleted triton", "Modified io")
	if got := fmt.Sprint(shown(m)); got != "[io]" {
		t.Errorf("after the periodic lists, the snapshot is %s", got)
	}
}

// kinds starts a Kinds. Its requests for the kinds in apiVersion get the status that the given function returns. If the
// function returns 0, the API server answers.
func (s *fixture) kinds(t *testing.T, apiVersion string, status func() int) (kinds *kube.Kinds, stop func()) {
	t.Helper()
	config := answering(s.config, func(path string) int {
		if path == "/apis/"+apiVersion {
			return status()
		}
		return 0
	})
	kinds = kube.NewKinds(fixtureOf(t, config, s.namespace).client, kube.Observer{})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { kinds.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return kinds, stop
}

// watching waits until kinds notices new kinds: it adds a kind in a new group, and waits until kinds reports it.
func (s *fixture) watching(t *testing.T, kinds *kube.Kinds) {
	t.Helper()
	known := s.namespace + ".known.example.org"
	s.extend(t, known, "Planet")
	served, stop := kinds.Served(known+"/v1", "Planet")
	defer stop()
	receive(t, served)
}

func receive(t *testing.T, served <-chan kube.Kind) kube.Kind {
	t.Helper()
	select {
	case kind := <-served:
		return kind
	case <-time.After(90 * time.Second):
		t.Fatal("the caller does not get the kind")
		return kube.Kind{}
	}
}

func TestNewGroupIsReachedThoughItsFirstRequestFails(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusNotFound, http.StatusForbidden} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			group := s.namespace + ".example.org"
			var requested atomic.Int64
			kinds, _ := s.kinds(t, group+"/v1", func() int {
				if requested.Add(1) == 1 {
					return status
				}
				return 0
			})
			s.watching(t, kinds)
			served, stop := kinds.Served(group+"/v1", "Comet")
			defer stop()
			s.extend(t, group, "Comet")
			if kind := receive(t, served); kind.Group != group || kind.Resource != "comets" {
				t.Errorf("the kind is %+v", kind)
			}
		})
	}
}

func TestKindsOfAGroupAreRequestedByOneGoroutine(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	group := s.namespace + ".example.org"
	var current, most atomic.Int64
	release := make(chan struct{})
	kinds, stop := s.kinds(t, group+"/v1", func() int {
		most.Store(max(most.Load(), current.Add(1)))
		<-release
		current.Add(-1)
		return http.StatusServiceUnavailable
	})
	answer := sync.OnceFunc(func() { close(release) })
	t.Cleanup(answer)
	s.watching(t, kinds)
	s.extend(t, group, "Comet")
	_, end := kinds.Served(group+"/v1", "Comet")
	defer end()
	eventually(t, "a request", func() bool { return current.Load() > 0 })
	for range 50 {
		_, end := kinds.Served(group+"/v1", "Comet")
		defer end()
	}
	time.Sleep(100 * time.Millisecond) // in this time, further requests would arrive
	answer()
	stop()
	if most.Load() != 1 {
		t.Errorf("%d goroutines requested the kinds of the group at the same time", most.Load())
	}
}

func TestKindsOfAGroupAreNotRequestedWhenNobodyWaits(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	group := s.namespace + ".example.org"
	var requested atomic.Int64
	kinds, _ := s.kinds(t, group+"/v1", func() int { requested.Add(1); return http.StatusServiceUnavailable })
	s.watching(t, kinds)
	s.extend(t, group, "Comet")
	_, stop := kinds.Served(group+"/v1", "Comet")
	eventually(t, "two requests", func() bool { return requested.Load() > 1 && kinds.Reached() > 0 })
	stop()
	eventually(t, "the end of the requests", func() bool { return kinds.Reached() == 0 })
}

func TestNewKindOfAnExtensionServerIsFoundWhileACallerWaits(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	group := s.namespace + ".example.org"
	var requested atomic.Int64
	kinds, _ := s.kinds(t, group+"/v1", func() int { requested.Add(1); return 0 })
	kinds.RequestEvery(time.Millisecond)
	extension := s.extend(t, group, "Comet")
	first, stop := kinds.Served(group+"/v1", "Comet")
	receive(t, first)
	stop()
	before := requested.Load()
	served, stop := kinds.Served(group+"/v1", "Nova")
	defer stop()
	eventually(t, "two requests", func() bool { return requested.Load() > before+2 })
	extension.add("novas", "Nova")
	if kind := receive(t, served); kind.Resource != "novas" {
		t.Errorf("the kind is %+v", kind)
	}
}

func TestCallerThatWaitsForAKindEndsTheDelayOfItsGroup(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	group := s.namespace + ".example.org"
	kinds, _ := s.kinds(t, group+"/v1", func() int { return 0 })
	kinds.RequestEvery(time.Hour)
	s.watching(t, kinds)
	_, stop := kinds.Served(group+"/v1", "Nova")
	defer stop()
	comet, stop := kinds.Served(group+"/v1", "Comet")
	defer stop()
	extension := s.extend(t, group, "Comet")
	receive(t, comet)
	extension.add("novas", "Nova")
	served, stop := kinds.Served(group+"/v1", "Nova")
	defer stop()
	receive(t, served)
}

func TestGroupInTheFirstListIsReachedThoughRequestsFail(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	group := s.namespace + ".example.org"
	s.extend(t, group, "Quasar")
	s.awaitKind(t, group+"/v1", "Quasar")
	var requested atomic.Int64
	kinds, _ := s.kinds(t, group+"/v1", func() int {
		if requested.Add(1) <= 4 {
			return http.StatusServiceUnavailable
		}
		return 0
	})
	served, stop := kinds.Served("", "Quasar")
	defer stop()
	receive(t, served)
}
