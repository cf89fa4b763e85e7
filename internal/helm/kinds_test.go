package helm_test

import (
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"addon-operator/internal/helm"
)

// group returns an API group that only this test uses. All tests share a cluster, so they need different CRDs.
func (b fixture) group() string { return b.namespace + ".example.com" }

func (b fixture) crds(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(b.config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
}

// define creates a CRD for the kind Gadget in the API group of the test, and waits until the API server serves the
// kind.
func (b fixture) define(t *testing.T) {
	t.Helper()
	crd := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "gadgets." + b.group()},
		"spec": map[string]any{
			"group": b.group(), "scope": "Namespaced",
			"names": map[string]any{"kind": "Gadget", "plural": "gadgets"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}
	if _, err := b.crds(t).Create(t.Context(), &unstructured.Unstructured{Object: crd}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.untilServed(t, schema.GroupVersion{Group: b.group(), Version: "v1"}, true)
}

// forget deletes the CRD of the kind Gadget, and waits until the API server no longer lists its API group.
func (b fixture) forget(t *testing.T) {
	t.Helper()
	// If no object of the kind was requested before, the API server may stop processing the deletion of the CRD, see
	// cluster.DeletionRepeater. So list the objects first: the client repeats the request until the API server can
	// answer it.
	client, err := dynamic.NewForConfig(b.config)
	if err != nil {
		t.Fatal(err)
	}
	gadgets := schema.GroupVersionResource{Group: b.group(), Version: "v1", Resource: "gadgets"}
	if _, err := client.Resource(gadgets).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := b.crds(t).Delete(t.Context(), "gadgets."+b.group(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.untilServed(t, schema.GroupVersion{Group: b.group(), Version: "v1"}, false)
}

// gadgets returns the names of the objects of the kind Gadget.
func (b fixture) gadgets(t *testing.T) (names []string) {
	t.Helper()
	client, err := dynamic.NewForConfig(b.config)
	if err != nil {
		t.Fatal(err)
	}
	gadgets := schema.GroupVersionResource{Group: b.group(), Version: "v1", Resource: "gadgets"}
	list, err := client.Resource(gadgets).Namespace(b.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		names = append(names, o.GetName())
	}
	return names
}

// serve adds a version to the kind Gadget, and waits until the API server serves it. If want is false, serve makes the
// API server stop serving the version, and waits until it does.
func (b fixture) serve(t *testing.T, version string, want bool) {
	t.Helper()
	crd, err := b.crds(t).Get(t.Context(), "gadgets."+b.group(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	first, ok := versions[0].(map[string]any)
	if !ok {
		t.Fatalf("the first version of the CRD is %v", versions[0])
	}
	other := maps.Clone(first)
	other["name"], other["served"], other["storage"] = version, want, false
	if err := unstructured.SetNestedSlice(crd.Object, []any{versions[0], other}, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.crds(t).Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.untilServed(t, schema.GroupVersion{Group: b.group(), Version: version}, want)
}

// untilServed waits until the API server lists a version of an API group or, if want is false, does not list it. It
// polls, because discovery cannot be watched.
func (b fixture) untilServed(t *testing.T, version schema.GroupVersion, want bool) {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(b.config)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(90 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		groups, err := client.ServerGroups()
		if err != nil {
			t.Fatal(err)
		}
		served := slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool {
			return slices.Contains(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: version.String(), Version: version.Version})
		})
		if served == want {
			return
		}
	}
	t.Fatalf("%s: after 90 s, it is still not true that served = %t", version, want)
}

// gadget returns a release whose chart has a ConfigMap and an object of the kind Gadget.
func (b fixture) gadget(t *testing.T, name string) helm.Release {
	t.Helper()
	return b.versioned(t, name, "v1")
}

// oldGadget is like gadget, but the object of the kind Gadget has the API version v1beta1.
func (b fixture) oldGadget(t *testing.T, name string) helm.Release {
	t.Helper()
	return b.versioned(t, name, "v1beta1")
}

func (b fixture) versioned(t *testing.T, name, version string) helm.Release {
	t.Helper()
	return module(t, name, files{
		"Chart.yaml":       chartYAML,
		"templates/a.yaml": configMap(name),
		"templates/gadget.yaml": "apiVersion: " + b.group() + "/" + version + "\nkind: Gadget\nmetadata:\n  name: " + name +
			"\nspec:\n  size: {{ .Values.size | default \"none\" | quote }}\n",
	})
}

func TestKindIsKnownAsSoonAsItIsServed(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := b.gadget(t, "early")
	_, err := b.Render(t.Context(), r)
	wantError(t, err, `render release "early"`, "template any-name/templates/gadget.yaml: Gadget early",
		"the cluster does not serve kind Gadget of "+b.group()+"/v1: install its CRD first")
	object := []helm.Object{{APIVersion: b.group() + "/v1", Kind: "Gadget", Namespace: b.namespace, Name: "early"}}
	if missing, err := b.Missing(t.Context(), object); err != nil || !cmp.Equal(missing, object) {
		t.Errorf("missing is %v (error %v), want the object of the unknown kind", missing, err)
	}

	b.define(t)
	m, _ := b.apply(t, r)
	if missing, err := b.Missing(t.Context(), m.Objects); err != nil || len(missing) > 0 {
		t.Errorf("%v are missing (error %v)", missing, err)
	}
	// Upgrade the custom resource, too, because Helm patches custom resources differently from objects of built-in
	// kinds.
	m, _ = b.apply(t, with(r, "size", "2"))
	b.state(t, "early", helm.State{Status: helm.Deployed, Revision: 2, Checksum: m.Checksum})
}

func TestTemplatesSeeNewKindsAtOnce(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := module(t, "maybe", files{
		"Chart.yaml": chartYAML,
		"templates/a.yaml": `{{ if .Capabilities.APIVersions.Has "` + b.group() + `/v1/Gadget" }}` + "\n" +
			configMap("with-gadgets") + "{{ else }}\n" + configMap("without-gadgets") + "{{ end }}",
	})
	name := func() string { return b.render(t, r).Objects[0].Name }
	if got := name(); got != "without-gadgets" {
		t.Errorf("before the CRD is there, the chart has %s", got)
	}
	b.define(t)
	if got := name(); got != "with-gadgets" {
		t.Errorf("when the CRD is there, the chart has %s", got)
	}
	b.forget(t)
	if got := name(); got != "without-gadgets" {
		t.Errorf("when the CRD is gone, the chart has %s", got)
	}
}

// TestKindIsFoundOnServerWithoutETags uses a server that sends no ETag in discovery, like API servers before Kubernetes
// 1.27. The client must find a new kind nevertheless.
func TestKindIsFoundOnServerWithoutETags(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.Client = b.client(t, func(o *helm.Options) {
		o.Config = rest.CopyConfig(o.Config)
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return tripper(func(r *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if err == nil {
					resp.Header.Del("ETag")
				}
				return resp, err
			})
		})
	})
	r := b.gadget(t, "blind")
	if _, err := b.Render(t.Context(), r); err == nil {
		t.Fatal("an object of an unknown kind renders")
	}
	b.define(t)
	b.apply(t, r)
}

func TestReleaseOutlivesItsKinds(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.define(t)
	r := b.gadget(t, "outlive")
	b.apply(t, r)
	other := b.gadget(t, "outlive-too")
	b.apply(t, other)
	b.forget(t)

	without := module(t, "outlive", files{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("outlive")})
	if _, revision := b.apply(t, without); revision != 2 {
		t.Errorf("the upgrade is revision %d, want 2", revision)
	}
	if _, err := b.Uninstall(t.Context(), "outlive-too"); err != nil {
		t.Fatal(err)
	}
	if _, ok := b.configMap(t, "outlive-too"); ok {
		t.Error("the other object of the release is left")
	}
	b.state(t, "outlive-too", helm.State{Status: helm.Absent})
}

// Helm compares the next chart with the deployed revision, although a newer revision has failed.
func TestReleaseWhoseLastUpgradeFailedOutlivesTheKindsOfItsDeployedRevision(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.define(t)
	b.apply(t, b.gadget(t, "outlive"))
	refused := module(t, "outlive", files{
		"Chart.yaml": chartYAML, "templates/a.yaml": configMap("outlive"),
		"templates/bad.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: bad}\nspec: {ports: [{port: -1}]}\n",
	})
	_, err := b.Upgrade(t.Context(), refused, b.render(t, refused))
	wantError(t, err, `upgrade release "outlive"`, "spec.ports[0].port")
	b.state(t, "outlive", helm.State{Status: helm.Failed, Revision: 2})
	b.forget(t)

	without := module(t, "outlive", files{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("outlive")})
	if _, revision := b.apply(t, without); revision != 3 {
		t.Errorf("the upgrade is revision %d, want 3", revision)
	}
}

// TestUnchangedLookIsFewRequests is not parallel: if another test creates a CRD, the client sends
// more requests.
func TestUnchangedLookIsFewRequests(t *testing.T) {
	var n atomic.Int32
	b := start(t, each(func(*http.Request) { n.Add(1) }))
	b.KeepReads(time.Hour)
	r := small(t, "web")
	m, _ := b.apply(t, r)
	n.Store(0)
	b.render(t, r)
	b.state(t, "web", helm.State{Status: helm.Deployed, Revision: 1, Checksum: m.Checksum})
	if _, err := b.Missing(t.Context(), m.Objects); err != nil {
		t.Fatal(err)
	}
	if got := n.Load(); got != 5 {
		t.Errorf("looking at an unchanged release of 3 objects took %d requests, want one for the kinds, one for the state, and one for each object", got)
	}
	n.Store(0)
	b.apply(t, with(r, "size", "2"))
	if got := n.Load(); got > 20 {
		t.Errorf("an upgrade with one of 3 objects changed took %d requests", got)
	}
}

// The API server stops serving an API version after the client has read the kinds. It then answers a request for an
// object of this version with the code 404, as if the object did not exist.
func TestObjectsAreDeletedIfTheirAPIVersionIsNotServedSinceTheLastRendering(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.define(t)
	b.serve(t, "v1beta1", true)
	b.apply(t, b.oldGadget(t, "uninstalled"))
	b.apply(t, b.oldGadget(t, "upgraded"))
	without := module(t, "upgraded", files{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("upgraded")})
	second := b.client(t) // the first one reads the kinds again for its uninstall
	m, err := second.Render(t.Context(), without)
	if err != nil {
		t.Fatal(err)
	}
	b.serve(t, "v1beta1", false)

	for release, act := range map[string]func() error{
		"uninstalled": func() error { _, err := b.Uninstall(t.Context(), "uninstalled"); return err },
		"upgraded":    func() error { _, err := second.Upgrade(t.Context(), without, m); return err },
	} {
		if err := act(); err != nil {
			t.Errorf("%s: %v", release, err)
		}
	}
	if left := b.gadgets(t); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// Only the failed upgrade has created the object, so no manifest with which Helm works has it.
func TestObjectsThatAFailedUpgradeHasCreatedAreDeletedAfterTheirAPIVersion(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.define(t)
	b.serve(t, "v1beta1", true)
	first := module(t, "failed", files{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("failed")})
	b.apply(t, first)
	refused := module(t, "failed", files{
		"Chart.yaml":         chartYAML,
		"templates/a.yaml":   "apiVersion: " + b.group() + "/v1beta1\nkind: Gadget\nmetadata: {name: created}\n",
		"templates/bad.yaml": "apiVersion: " + b.group() + "/v1\nkind: Gadget\nmetadata: {name: zz_bad}\n",
	})
	_, err := b.Upgrade(t.Context(), refused, b.render(t, refused))
	wantError(t, err, `upgrade release "failed"`, "zz_bad")
	if left := b.gadgets(t); !slices.Equal(left, []string{"created"}) {
		t.Fatalf("after the failed upgrade, there are %v", left)
	}
	b.serve(t, "v1beta1", false)

	b.apply(t, first)
	if left := b.gadgets(t); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func TestReleaseIsUninstalledAlthoughTheAPIVersionOfItsHelmHookIsNotServed(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.define(t)
	b.serve(t, "v1beta1", true)
	hook := "apiVersion: " + b.group() + "/v1beta1\nkind: Gadget\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-delete}}\n"
	b.apply(t, module(t, "hooked", files{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("hooked"), "templates/hook.yaml": hook}))
	b.serve(t, "v1beta1", false)

	if _, err := b.Uninstall(t.Context(), "hooked"); err != nil {
		t.Fatal(err)
	}
	b.state(t, "hooked", helm.State{Status: helm.Absent})
	if made := b.gadgets(t); !slices.Equal(made, []string{"hook"}) {
		t.Errorf("the hook has created %v", made)
	}
}
