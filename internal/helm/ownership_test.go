package helm_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"addon-operator/internal/helm"
)

// sharing returns a release whose chart has a ConfigMap of its own. If the value "shared" is true, the chart also has
// the ConfigMap called shared. The returned release sets this value to true.
func sharing(t testing.TB, name string) helm.Release {
	t.Helper()
	return with(module(t, name, files{
		"Chart.yaml":            chartYAML,
		"templates/own.yaml":    configMap(name),
		"templates/shared.yaml": "{{ if .Values.shared }}\n" + configMap("shared") + "{{ end }}\n",
	}), "shared", true)
}

// uid returns the UID of a ConfigMap, which must exist.
func (b fixture) uid(t testing.TB, name string) types.UID {
	t.Helper()
	object, ok := b.configMap(t, name)
	if !ok {
		t.Fatalf("there is no ConfigMap %s", name)
	}
	return object.UID
}

// belongs annotates the ConfigMap called shared, so that it belongs to the given release.
func (b fixture) belongs(t testing.TB, namespace, release string) {
	t.Helper()
	patch := `{"metadata":{"annotations":{"meta.helm.sh/release-name":"` + release + `","meta.helm.sh/release-namespace":"` + namespace + `"}}}`
	if _, err := b.kube.CoreV1().ConfigMaps(b.namespace).Patch(t.Context(), "shared", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}

// shared returns the kept objects that a test expects: only the ConfigMap called shared. The argument owner is the
// release to which this ConfigMap belongs.
func (b fixture) shared(owner string) []helm.Kept {
	return []helm.Kept{{Object: helm.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: b.namespace, Name: "shared"}, Owner: owner}}
}

func TestUninstallKeepsObjectsThatBelongToAnotherRelease(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(t, sharing(t, "old"))
	uid := b.uid(t, "shared")
	b.apply(t, sharing(t, "new"))
	kept, err := b.Uninstall(t.Context(), "old")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.shared("new"), kept); diff != "" {
		t.Errorf("kept objects (-want +got):\n%s", diff)
	}
	if got := b.uid(t, "shared"); got != uid {
		t.Errorf("the object has uid %s, before it had %s", got, uid)
	}
	if _, ok := b.configMap(t, "old"); ok {
		t.Error("the old release's own object is still there")
	}
	b.state(t, "old", helm.State{Status: helm.Absent})
	if kept, err = b.Uninstall(t.Context(), "new"); err != nil || len(kept) > 0 {
		t.Errorf("the owner kept %v (error %v)", kept, err)
	}
	if _, ok := b.configMap(t, "shared"); ok {
		t.Error("the owner has not deleted its object")
	}
}

func TestUninstallKeepsObjectsThatBelongToTheSameNameInAnotherNamespace(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(t, sharing(t, "old"))
	b.belongs(t, "elsewhere", "old")
	kept, err := b.Uninstall(t.Context(), "old")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.shared("elsewhere/old"), kept); diff != "" {
		t.Errorf("kept objects (-want +got):\n%s", diff)
	}
	b.uid(t, "shared")
}

func TestUpgradeThatDropsAnObjectKeepsItForTheReleaseItBelongsTo(t *testing.T) {
	t.Parallel()
	b := start(t)
	old := sharing(t, "old")
	b.apply(t, old)
	uid := b.uid(t, "shared")
	b.apply(t, sharing(t, "new"))
	dropping := with(old, "shared", false)
	done, err := b.Upgrade(t.Context(), dropping, b.render(t, dropping))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.shared("new"), done.Kept); diff != "" {
		t.Errorf("kept objects (-want +got):\n%s", diff)
	}
	if got := b.uid(t, "shared"); got != uid {
		t.Errorf("the object has uid %s, before it had %s", got, uid)
	}
}

// sharingGadget returns a release whose chart has a ConfigMap of its own. If the value "size" is set, the chart also
// has the Gadget called shared, with this size.
func (b fixture) sharingGadget(t testing.TB, name string) helm.Release {
	t.Helper()
	return module(t, name, files{
		"Chart.yaml":         chartYAML,
		"templates/own.yaml": configMap(name),
		"templates/shared.yaml": "{{ if .Values.size }}\napiVersion: " + b.group() + "/v1\nkind: Gadget\n" +
			"metadata: {name: shared}\nspec: {size: {{ .Values.size | quote }}}\n{{ end }}\n",
	})
}

// gadgetIs checks that the Gadget called shared belongs to the given release and has this size. It returns the UID of
// the Gadget.
func (b fixture) gadgetIs(t *testing.T, release, size string) types.UID {
	t.Helper()
	client, err := dynamic.NewForConfig(b.config)
	if err != nil {
		t.Fatal(err)
	}
	gadgets := client.Resource(schema.GroupVersionResource{Group: b.group(), Version: "v1", Resource: "gadgets"})
	gadget, err := gadgets.Namespace(b.namespace).Get(t.Context(), "shared", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owner := gadget.GetAnnotations()["meta.helm.sh/release-name"]
	got, _, err := unstructured.NestedString(gadget.Object, "spec", "size")
	if err != nil || owner != release || got != size {
		t.Errorf("the Gadget belongs to %s and has size %s (error %v), want %s and %s", owner, got, err, release, size)
	}
	return gadget.GetUID()
}

// TestUpgradeTakesOverACustomResource lets the deployed release new take over a Gadget of the release old. Then the
// chart of old drops the Gadget.
func TestUpgradeTakesOverACustomResource(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.define(t)
	before, after := b.sharingGadget(t, "old"), b.sharingGadget(t, "new")
	b.apply(t, with(before, "size", 1))
	b.apply(t, after)
	uid := b.gadgetIs(t, "old", "1")
	b.apply(t, with(after, "size", 2))
	b.gadgetIs(t, "new", "2")

	done, err := b.Upgrade(t.Context(), before, b.render(t, before))
	if err != nil {
		t.Fatal(err)
	}
	kept := []helm.Kept{{
		Object: helm.Object{APIVersion: b.group() + "/v1", Kind: "Gadget", Namespace: b.namespace, Name: "shared"}, Owner: "new",
	}}
	if diff := cmp.Diff(kept, done.Kept); diff != "" {
		t.Errorf("kept objects (-want +got):\n%s", diff)
	}
	if got := b.gadgetIs(t, "new", "2"); got != uid {
		t.Errorf("the Gadget has UID %s, before it had %s", got, uid)
	}
}

func TestUpgradeDeletesWhatItDropsUnlessItSaysToKeepIt(t *testing.T) {
	t.Parallel()
	b := start(t)
	r := sharing(t, "mod")
	b.apply(t, r)
	b.apply(t, with(r, "shared", false))
	if _, ok := b.configMap(t, "shared"); ok {
		t.Error("the dropped object is still there")
	}
	b.apply(t, r)
	uid := b.uid(t, "shared")
	patch := []byte(`{"metadata":{"annotations":{"helm.sh/resource-policy":"keep"}}}`)
	if _, err := b.kube.CoreV1().ConfigMaps(b.namespace).Patch(t.Context(), "shared", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	b.apply(t, with(r, "shared", false))
	if got := b.uid(t, "shared"); got != uid {
		t.Errorf("the object has uid %s, before it had %s", got, uid)
	}
}

func TestUpgradeThatCannotDeleteADroppedObjectFails(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(t, wide(t, "mod", 3))
	fewer := wide(t, "mod", 1)
	m := b.render(t, fewer)
	b.Client = b.client(t, failingOnce(http.MethodDelete, "/configmaps/mod-1", http.StatusServiceUnavailable, "overloaded"))
	_, err := b.Upgrade(t.Context(), fewer, m)
	wantError(t, err, `upgrade release "mod": delete ConfigMap `+b.namespace+"/mod-1: overloaded")
	b.state(t, "mod", helm.State{Status: helm.Failed, Revision: 2})
	for name, want := range map[string]bool{"mod-0": true, "mod-1": true, "mod-2": false} {
		if _, got := b.configMap(t, name); got != want {
			t.Errorf("after the failed upgrade, ConfigMap %s exists: %t, want %t", name, got, want)
		}
	}
	b.apply(t, fewer)
	if n := b.count(t, ""); n != 1 {
		t.Errorf("%d objects are there after another upgrade, want 1", n)
	}
}

// TestUninstallKeepsAnObjectThatIsTakenOverMeanwhile lets another release take over an object after the uninstall has
// read it, and before the uninstall deletes it. The uninstall must not delete the object.
func TestUninstallKeepsAnObjectThatIsTakenOverMeanwhile(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(t, sharing(t, "old"))
	uid := b.uid(t, "shared")
	var once sync.Once
	c := b.client(t, each(func(r *http.Request) {
		if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/configmaps/shared") {
			once.Do(func() { b.belongs(t, b.namespace, "new") })
		}
	}))
	kept, err := c.Uninstall(t.Context(), "old")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.shared("new"), kept); diff != "" {
		t.Errorf("kept objects (-want +got):\n%s", diff)
	}
	if got := b.uid(t, "shared"); got != uid {
		t.Errorf("the object has uid %s, before it had %s", got, uid)
	}
}
