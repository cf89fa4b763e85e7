package kube_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/jq"
	"addon-operator/internal/kube"
)

func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }

// fixture has the clients of a test for a cluster, and a namespace in the cluster.
type fixture struct {
	config    *rest.Config
	client    *kube.Client
	api       kubernetes.Interface
	namespace string
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	c := cluster.Start(t)
	return fixtureOf(t, c.Config(), c.Namespace(t))
}

func fixtureOf(t testing.TB, config *rest.Config, namespace string) *fixture {
	t.Helper()
	client, err := kube.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{config, client, api, namespace}
}

// run is a running Watches. It represents one process of the operator.
type run struct {
	*kube.Watches
	stop func()
	logs *logs
}

// logs contains the calls of an observer.
type logs struct {
	mu      sync.Mutex
	refused []string
	filter  []string
	failed  []error
	settled []string
}

func (l *logs) observer() kube.Observer {
	return kube.Observer{
		VersionRefused: func(_ kube.Source, version string, _ error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.refused = append(l.refused, version)
		},
		FilterFailed: func(_ kube.View, _ []string, o *kube.Object, err *jq.FilterError) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.filter = append(l.filter, o.Name+": "+err.Error())
		},
		SourceFailed: func(_ kube.Source, err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.failed = append(l.failed, err)
		},
		KindSettled: func(owner string, found kube.Kind, _ error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.settled = append(l.settled, owner+": "+found.Version)
		},
	}
}

// begin starts a Watches that delivers to k. It runs until the test stops it or ends.
func (s *fixture) begin(t testing.TB, k kube.Receiver) *run {
	t.Helper()
	l := &logs{}
	kinds := kube.NewKinds(s.client, l.observer())
	watches := kube.NewWatches(s.client, kinds, k, l.observer())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { kinds.Run(ctx) })
	running.Go(func() { watches.Run(ctx) })
	stop := sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return &run{watches, stop, l}
}

// open opens a monitor and waits until its snapshot is complete.
func (l *run) open(t testing.TB, spec kube.Spec) *kube.Monitor {
	t.Helper()
	m, err := l.Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, m)
	return m
}

func wait(t testing.TB, m *kube.Monitor) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	if err := m.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

// configMaps returns a selection of the ConfigMaps in the namespace of the test, without kube-root-ca.crt, which every
// namespace has.
func (s *fixture) configMaps() kube.Selection {
	return kube.Selection{
		APIVersion: "v1", Kind: "ConfigMap", Namespaces: []string{s.namespace},
		Fields: []kube.FieldMatch{{Field: "metadata.name", Operator: "!=", Value: "kube-root-ca.crt"}},
	}
}

func (s *fixture) create(t testing.TB, name string, data ...string) *corev1.ConfigMap {
	t.Helper()
	return s.createIn(t, s.namespace, name, data...)
}

func (s *fixture) createIn(t testing.TB, namespace, name string, data ...string) *corev1.ConfigMap {
	t.Helper()
	made, err := s.api.CoreV1().ConfigMaps(namespace).Create(context.Background(), configMap(name, data...), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.awaitCache(t, made)
	return made
}

// awaitCache waits until the cache of the API server contains a ConfigMap that the test has just created. The API
// server answers first lists from this cache.
func (s *fixture) awaitCache(t testing.TB, made *corev1.ConfigMap) {
	t.Helper()
	_, err := s.api.CoreV1().ConfigMaps(made.Namespace).List(context.Background(), metav1.ListOptions{
		ResourceVersion: made.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func configMap(name string, data ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"made": "yes"}}, Data: map[string]string{}}
	for i := 0; i < len(data); i += 2 {
		cm.Data[data[i]] = data[i+1]
	}
	return cm
}

func (s *fixture) update(t testing.TB, name string, data ...string) *corev1.ConfigMap {
	t.Helper()
	made, err := s.api.CoreV1().ConfigMaps(s.namespace).Update(context.Background(), configMap(name, data...), metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.awaitCache(t, made)
	return made
}

func (s *fixture) delete(t testing.TB, name string) {
	t.Helper()
	if err := s.api.CoreV1().ConfigMaps(s.namespace).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func filter(t testing.TB, text string) *jq.Filter {
	t.Helper()
	f, err := jq.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func objectName(i int) string { return fmt.Sprintf("object-%04d", i) }

func shown(m *kube.Monitor) []string {
	found := []string{}
	for _, o := range m.Snapshot() {
		found = append(found, o.Name)
	}
	return found
}

// eventually calls the given function again and again until it returns true. It is for states that are not delivered to
// a receiver. If the wait takes too long, the test fails.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(90 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

func (s *fixture) label(t testing.TB, namespace string, labels map[string]string) {
	t.Helper()
	object, err := s.api.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delete(object.Labels, "team")
	maps.Copy(object.Labels, labels)
	if object, err = s.api.CoreV1().Namespaces().Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Wait for the cache of the API server, like awaitCache.
	if _, err := s.api.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{
		ResourceVersion: object.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}); err != nil {
		t.Fatal(err)
	}
}
