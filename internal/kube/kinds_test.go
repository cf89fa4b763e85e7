package kube_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/internal/kube"
)

var definitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// define creates a CustomResourceDefinition that defines kind in a group that only this test uses, and returns the
// resource of the kind.
func (s *fixture) define(t testing.TB, kind string) schema.GroupVersionResource {
	t.Helper()
	group, plural := s.group(), strings.ToLower(kind)+"s"
	open := map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
	_, err := s.client.Dynamic().Resource(definitions).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{
				"kind": kind, "plural": plural, "singular": strings.ToLower(kind), "shortNames": []any{strings.ToLower(kind[:3])},
			},
			"versions": []any{
				map[string]any{"name": "v1beta1", "served": true, "storage": false, "schema": open},
				map[string]any{"name": "v1", "served": true, "storage": true, "schema": open},
			},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.undefine(kind) })
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
}

// awaitKind waits until the API server serves the kind.
func (s *fixture) awaitKind(t testing.TB, apiVersion, kind string) {
	t.Helper()
	eventually(t, "the kind to be served", func() bool {
		_, err := s.client.Resolve(t.Context(), apiVersion, kind)
		return err == nil
	})
}

// awaitServed waits until the API server serves the kind of a custom resource in both versions, also to clients without
// aggregated discovery. The API server publishes the versions of a custom resource separately in each kind of discovery.
func (s *fixture) awaitServed(t testing.TB, group, kind string) {
	t.Helper()
	legacy := fixtureOf(t, answering(s.config, func(string) int { return 0 }), s.namespace)
	for _, version := range []string{"v1", "v1beta1"} {
		s.awaitKind(t, group+"/"+version, kind)
		legacy.awaitKind(t, group+"/"+version, kind)
	}
}

func (s *fixture) group() string { return s.namespace + ".example.com" }

func (s *fixture) undefine(kind string) error {
	name := strings.ToLower(kind) + "s." + s.group()
	return s.client.Dynamic().Resource(definitions).Delete(context.Background(), name, metav1.DeleteOptions{})
}

// put creates an object of a custom resource. It repeats the request until the API server accepts it.
func (s *fixture) put(t testing.TB, resource schema.GroupVersionResource, kind, name string) {
	t.Helper()
	objects := s.client.Dynamic().Resource(resource).Namespace(s.namespace)
	var created *unstructured.Unstructured
	eventually(t, "a custom object to be created", func() bool {
		var err error
		created, err = objects.Create(t.Context(), &unstructured.Unstructured{
			Object: map[string]any{
				"apiVersion": resource.GroupVersion().String(), "kind": kind,
				"metadata": map[string]any{"name": name}, "spec": map[string]any{"big": int64(9007199254740993)},
			},
		}, metav1.CreateOptions{})
		return err == nil
	})
	// Wait for the cache of the API server, like awaitCache.
	if _, err := objects.List(t.Context(), metav1.ListOptions{
		ResourceVersion: created.GetResourceVersion(), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}); err != nil {
		t.Fatal(err)
	}
}

func (s *fixture) drop(t testing.TB, resource schema.GroupVersionResource, name string) {
	t.Helper()
	err := s.client.Dynamic().Resource(resource).Namespace(s.namespace).Delete(t.Context(), name, metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestKindIsNotTakenFromAVersionThatIsAnnouncedBeforeItsDefinition(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	resource := s.define(t, "Doodad")
	if err := s.client.AwaitResource(t.Context(), resource.Group+"/v1beta1", resource.Resource, nil); err != nil {
		t.Fatal(err)
	}
	for _, known := range []bool{false, true} {
		kinds := kube.NewKinds(s.client, kube.Observer{})
		if known {
			if err := kinds.KnowDefinitions(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		served, stop := kinds.Served("", "Doodad")
		kinds.Reach(t.Context(), resource.Group, "v1beta1")
		stop()
		select {
		case kind := <-served:
			if known {
				t.Errorf("with known definitions, the kind is %+v", kind)
			}
		default:
			if !known {
				t.Error("without known definitions, the kind is not found")
			}
		}
	}
}

func TestKindsAreFoundByAnyOfTheirNames(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	for name, want := range map[string]string{
		"Deployment": "deployments", "deployment": "deployments", "DEPLOYMENTS": "deployments", "deploy": "deployments",
		"po": "pods", "Node": "nodes", "crd": "customresourcedefinitions", "event": "events",
	} {
		kind, err := s.client.Resolve(t.Context(), "", name)
		if err != nil || kind.Resource != want || kind.Namespaced != (want == "deployments" || want == "pods" || want == "events") {
			t.Errorf("%s is %+v, %v", name, kind, err)
		}
	}
	kind, err := s.client.Resolve(t.Context(), "", "Event")
	if err != nil || kind.Group != "" {
		t.Errorf("the preferred Event is %+v, %v", kind, err)
	}
	kind, err = s.client.Resolve(t.Context(), "events.k8s.io/v1", "ev")
	if err != nil || kind.GroupVersionKind != (schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}) {
		t.Errorf("the Event of events.k8s.io/v1 is %+v, %v", kind, err)
	}
	for _, missing := range []struct{ apiVersion, name string }{
		{"", "Nothing"}, {"v1", "Deployment"}, {"no.such/v1", "Deployment"}, {"", "pods/status"},
	} {
		var notServed *kube.NotServedError
		_, err := s.client.Resolve(t.Context(), missing.apiVersion, missing.name)
		if !errors.Is(err, kube.ErrNotServed) || !errors.As(err, &notServed) || notServed.Kind != missing.name {
			t.Errorf("%s of %q: %v", missing.name, missing.apiVersion, err)
		}
	}
	if _, err := s.client.Resolve(t.Context(), "a/b/c", "Pod"); err == nil || errors.Is(err, kube.ErrNotServed) {
		t.Errorf("apiVersion a/b/c: %v", err)
	}
}

func TestAKindIsNotFoundInAnotherVersionWhileThePreferredOneIsUnknown(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	resource := s.define(t, "Doohickey")
	s.awaitServed(t, resource.Group, "Doohickey")
	for name, test := range map[string]struct {
		status   int
		requests int64  // number of requests for the kinds of v1 that get the status
		version  string // found version; empty if there is an error
	}{
		"it is unavailable":         {http.StatusServiceUnavailable, math.MaxInt64, ""},
		"it is not served":          {http.StatusNotFound, math.MaxInt64, "v1beta1"},
		"it is available meanwhile": {http.StatusServiceUnavailable, 1, "v1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requested atomic.Int64
			client := fixtureOf(t, answering(s.config, func(path string) int {
				if path == "/apis/"+resource.GroupVersion().String() && requested.Add(1) <= test.requests {
					return test.status
				}
				return 0
			}), s.namespace).client
			kind, err := client.Resolve(t.Context(), "", "Doohickey")
			if kind.Version != test.version || (err != nil) != (test.version == "") || errors.Is(err, kube.ErrNotServed) {
				t.Errorf("the kind is %+v (%v)", kind, err)
			}
		})
	}
}

func TestAKindIsFollowedInAnotherVersionIfThePreferredOneStaysUnknown(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	resource := s.define(t, "Contraption")
	s.put(t, resource, "Contraption", "one")
	s.awaitServed(t, resource.Group, "Contraption")
	for name, test := range map[string]struct {
		within  time.Duration
		refused int64 // number of requests for the kinds of v1 that are answered "unavailable" before v1 recovers
		version string
		settled []string
	}{
		"it stays unavailable":      {300 * time.Millisecond, math.MaxInt64, "v1beta1", []string{"hook: v1beta1"}},
		"it is available meanwhile": {time.Hour, 3, "v1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			followed := "/apis/" + resource.Group + "/" + test.version
			var requested, looked atomic.Int64
			var recovered, missing atomic.Bool
			config := answering(s.config, func(path string) int {
				switch {
				case path == "/apis/"+resource.Group+"/v1" && !recovered.Load() && requested.Add(1) <= test.refused:
					return http.StatusServiceUnavailable
				case path == followed:
					looked.Add(1)
				case strings.HasPrefix(path, followed+"/") && missing.Load():
					return http.StatusNotFound
				}
				return 0
			})
			watches := fixtureOf(t, config, s.namespace).begin(t, newDurableReceiver())
			watches.DecideWithin(test.within)
			began := time.Now()
			spec := kube.Spec{Owner: "hook", Selection: kube.Selection{Kind: "Contraption", Namespaces: []string{s.namespace}}}
			m := watches.open(t, spec)
			if test.settled != nil && time.Since(began) < test.within {
				t.Errorf("the monitor waited only for %v", time.Since(began))
			}
			if got := watches.logs.settled; !slices.Equal(got, test.settled) {
				t.Errorf("the observer was told %q", got)
			}
			if views := m.Views(); len(views) != 1 || views[0].Version != test.version {
				t.Fatalf("the views are %v", views)
			}

			// The monitor stays with its version, even if a list of its objects fails.
			recovered.Store(true)
			missing.Store(true)
			before := looked.Load()
			spec.Owner, spec.Selection.APIVersion, spec.KeepFull = "late", resource.Group+"/"+test.version, true
			late, err := watches.Open(spec)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "further lookups of the kind", func() bool { return looked.Load() >= before+6 })
			missing.Store(false)
			wait(t, late)
			wait(t, m)
			if views := m.Views(); len(views) != 1 || views[0].Version != test.version || fmt.Sprint(shown(m)) != "[one]" {
				t.Errorf("later the views are %v, and the snapshot shows %v", views, shown(m))
			}
		})
	}
}

func TestAKindThatAppearsIsFollowedFromThenOn(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	watches := s.begin(t, k)
	selection := kube.Selection{Kind: "wid", Namespaces: []string{s.namespace}}
	early := watches.open(t, kube.Spec{Owner: "early", Selection: selection, Filter: filter(t, ".spec.big")})
	if got := early.Snapshot(); len(got) != 0 {
		t.Fatalf("the snapshot shows %v", got)
	}
	defined := time.Now()
	resource := s.define(t, "Widget")
	s.put(t, resource, "Widget", "one")
	k.untilDelivered(t, "early", "Added one")
	t.Logf("delivered %v after the definition", time.Since(defined))
	if got := string(early.Snapshot()[0].FilterResult); got != "9007199254740993" {
		t.Errorf("a big number became %s", got)
	}
	if views := early.Views(); len(views) != 1 || views[0].APIVersion() != s.group()+"/v1" {
		t.Errorf("the views are %v", views)
	}

	// If the definition of a kind is deleted, its objects are deleted too. Later the kind can be defined again.
	if err := s.undefine("Widget"); err != nil {
		t.Fatal(err)
	}
	k.untilDelivered(t, "early", "Added one", "Deleted one")
	eventually(t, "the kind to be gone", func() bool { return len(early.Views()) == 0 })
	wait(t, early)
	s.define(t, "Widget")
	s.put(t, resource, "Widget", "two")
	k.untilDelivered(t, "early", "Added one", "Deleted one", "Added two")
}

func TestOfAKindThatAppearedWhileAwayAllIsAdded(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	spec := kube.Spec{Owner: "hook", Selection: kube.Selection{Kind: "Gadget", Namespaces: []string{s.namespace}}}
	first := s.begin(t, k)
	first.open(t, spec)
	first.stop()
	resource := s.define(t, "Gadget")
	s.put(t, resource, "Gadget", "one")
	spec.Resume = true
	s.begin(t, k).open(t, spec)
	k.untilDelivered(t, "hook", "Added one")
}

func TestAppearedKindThatWasNotDeliveredIsDeliveredInTheNextProcess(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	spec := kube.Spec{Owner: "told", Selection: kube.Selection{Kind: "Gizmo", Namespaces: []string{s.namespace}}}
	first := s.begin(t, k)
	first.open(t, spec)
	resource := s.define(t, "Gizmo")
	s.put(t, resource, "Gizmo", "one")
	k.untilDelivered(t, "told", "Added one")
	first.stop() // the first process ends before it delivers the kind to other owners

	spec.Resume = true
	second := s.begin(t, k)
	second.open(t, spec)
	spec.Owner, spec.Delivered = "late", func(v kube.View) bool { return v.Kind != "Gizmo" }
	second.open(t, spec)
	k.untilDelivered(t, "late", "Added one")
	s.put(t, resource, "Gizmo", "two")
	k.untilDelivered(t, "late", "Added one", "Added two")
	k.untilDelivered(t, "told", "Added one", "Added two")
}

// In the first process, the preferred version v1 is not published yet.
func TestAKindIsFollowedInTheVersionOfTheEarlierProcess(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	resource := s.define(t, "Bauble")
	resource.Version = "v1beta1" // put waits for the cache of this version, which answers the first list
	s.put(t, resource, "Bauble", "goes")
	s.awaitServed(t, s.group(), "Bauble")
	preferred := "/apis/" + s.group() + "/v1"
	early := fixtureOf(t, answering(s.config, func(path string) int {
		if path == preferred {
			return http.StatusNotFound
		}
		return 0
	}), s.namespace)
	spec := kube.Spec{Owner: "hook", Selection: kube.Selection{Kind: "Bauble", Namespaces: []string{s.namespace}}}
	first := early.begin(t, k)
	earlier := first.open(t, spec).Views()
	if len(earlier) != 1 || earlier[0].Version != "v1beta1" {
		t.Fatalf("the first process follows %v", earlier)
	}
	first.stop()
	s.drop(t, resource, "goes")

	spec.Resume, spec.Earlier = true, func() []kube.View { return earlier }
	if views := s.begin(t, k).open(t, spec).Views(); !slices.Equal(views, earlier) {
		t.Errorf("the second process follows %v", views)
	}
	k.untilDelivered(t, "hook", "Deleted goes")
}

func TestAForgottenVersionIsToldAsAGap(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	resource := s.define(t, "Trinket")
	resource.Version = "v1beta1" // put waits for the cache of this version, which answers the first list
	s.put(t, resource, "Trinket", "goes")
	spec := kube.Spec{Owner: "hook", Selection: kube.Selection{
		APIVersion: s.group() + "/v1beta1", Kind: "trinkets", Namespaces: []string{s.namespace},
	}}
	first := s.begin(t, k)
	s.awaitKind(t, spec.Selection.APIVersion, spec.Selection.Kind)
	view := first.open(t, spec).Views()[0]
	first.stop()
	s.drop(t, resource, "goes")
	s.put(t, resource, "Trinket", "comes")
	k.mu.Lock()
	k.versions[view] = "1" // a version from before the kind was defined
	k.mu.Unlock()

	spec.Resume = true
	second := s.begin(t, k)
	m := second.open(t, spec)
	k.untilDelivered(t, "hook", "Added comes", "Deleted goes")
	if got := second.logs.refused; !slices.Equal(got, []string{"1"}) {
		t.Errorf("refused versions: %q", got)
	}
	s.put(t, resource, "Trinket", "later")
	k.untilDelivered(t, "hook", "Added comes", "Deleted goes", "Added later")
	if got := fmt.Sprint(shown(m)); got != "[comes later]" {
		t.Errorf("the snapshot shows %s", got)
	}
}
