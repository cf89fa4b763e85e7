package crd_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/crd"
	"addon-operator/internal/kube"
)

func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }

// fixture has an installer, a client of a cluster, and a namespace and an API group that only one test uses.
type fixture struct {
	*crd.Installer
	client    *kube.Client
	group     string
	namespace string
}

func start(t *testing.T, labels map[string]string) fixture {
	t.Helper()
	c := cluster.Start(t)
	client, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	namespace := c.Namespace(t)
	return fixture{crd.NewInstaller(client, labels), client, namespace + ".example.com", namespace}
}

// version is a version of the definition in a test. The field stored says whether it is the storage version.
type version struct {
	name   string
	stored bool
}

// text returns the YAML text of a definition of the resource "things" in the API group of the fixture b, with these
// versions. The first argument is further YAML text for the spec.
func (b fixture) text(more string, versions ...version) string {
	text := fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.%[1]s
  labels: {own: "1"}
spec:
  group: %[1]s
  scope: Namespaced
  names: {plural: things, kind: Thing}
%[2]s  versions:
`, b.group, more)
	for _, v := range versions {
		text += fmt.Sprintf("  - name: %s\n    served: true\n    storage: %t\n    schema: {openAPIV3Schema: {type: object, x-doc-example: 1, x-kubernetes-preserve-unknown-fields: true}}\n", v.name, v.stored)
	}
	return text
}

func (b fixture) ensure(t *testing.T, text string) crd.Result {
	t.Helper()
	definitions, err := crd.Parse("things.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	result, err := b.Ensure(t.Context(), definitions)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func (b fixture) read(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	o, err := b.crds().Get(t.Context(), "things."+b.group, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (b fixture) crds() interface {
	Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*unstructured.Unstructured, error)
} {
	return b.client.Dynamic().Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
}

func (b fixture) things(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: b.group, Version: version, Resource: "things"}
}

func (b fixture) make(t *testing.T, version, name string) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"n": int64(1)}}}
	o.SetAPIVersion(b.group + "/" + version)
	o.SetKind("Thing")
	o.SetName(name)
	if _, err := b.client.Dynamic().Resource(b.things(version)).Namespace(b.namespace).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestDefinitionIsInstalledOnceAndItsKindIsThereWhenThatReturns(t *testing.T) {
	t.Parallel()
	b := start(t, map[string]string{"heritage": "addon-operator", "own": "2"})
	text := b.text("", version{"v1", true})
	result := b.ensure(t, text)
	b.make(t, "v1", "at-once")
	if diff := cmp.Diff(crd.Result{Written: []string{"things." + b.group}}, result); diff != "" {
		t.Errorf("first (-want +got):\n%s", diff)
	}
	if _, err := b.client.Resolve(t.Context(), b.group+"/v1", "thing"); err != nil {
		t.Error(err)
	}
	if got := b.read(t).GetLabels(); got["heritage"] != "addon-operator" || got["own"] != "2" {
		t.Errorf("labels are %v", got)
	}
	if result := b.ensure(t, text); len(result.Written) > 0 {
		t.Errorf("an unchanged definition was written: %v", result.Written)
	}
}

func TestWhatOthersAddedToADefinitionStays(t *testing.T) {
	t.Parallel()
	b := start(t, map[string]string{"heritage": "addon-operator"})
	b.ensure(t, b.text("", version{"v1", true}))
	foreign := `{"metadata": {"labels": {"foreign": "1"}, "annotations": {"foreign": "2"}},
		"spec": {"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://localhost/convert"}}}}}`
	if _, err := b.crds().Patch(t.Context(), "things."+b.group, types.MergePatchType, []byte(foreign), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	b.ensure(t, b.text("  conversion: {strategy: None}\n", version{"v1", true}, version{"v2", false}))
	got := b.read(t)
	if got.GetLabels()["foreign"] != "1" || got.GetAnnotations()["foreign"] != "2" {
		t.Errorf("labels %v, annotations %v", got.GetLabels(), got.GetAnnotations())
	}
	if url, _, _ := unstructured.NestedString(got.Object, "spec", "conversion", "webhook", "clientConfig", "url"); url != "https://localhost/convert" {
		t.Errorf("the conversion is %v", got.Object["spec"])
	}
	if versions, _, _ := unstructured.NestedSlice(got.Object, "spec", "versions"); len(versions) != 2 {
		t.Errorf("versions are %v", versions)
	}
}

func TestConversionOfTheFileIsTakenWhereThereIsNone(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.ensure(t, b.text("", version{"v1", true}))
	b.ensure(t, b.text("  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://localhost/own'}}}\n", version{"v1", true}))
	if got, _, _ := unstructured.NestedString(b.read(t).Object, "spec", "conversion", "strategy"); got != "Webhook" {
		t.Errorf("the strategy is %q", got)
	}
}

func TestObjectsOutliveTheVersionTheyWereStoredIn(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.ensure(t, b.text("", version{"v1alpha1", true}))
	for i := range 3 {
		b.make(t, "v1alpha1", fmt.Sprintf("old-%d", i))
	}
	result := b.ensure(t, b.text("", version{"v1", true}))
	if len(result.Warnings) > 0 || result.Refused != nil {
		t.Fatalf("%+v", result)
	}
	if stored, _, _ := unstructured.NestedStringSlice(b.read(t).Object, "status", "storedVersions"); !cmp.Equal(stored, []string{"v1"}) {
		t.Errorf("stored versions are %v", stored)
	}
	if versions, _, _ := unstructured.NestedSlice(b.read(t).Object, "spec", "versions"); len(versions) != 1 {
		t.Errorf("versions are %v", versions)
	}
	// The objects that were stored in the removed version can be listed in the new version.
	list, err := b.client.Dynamic().Resource(b.things("v1")).Namespace(b.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 3 {
		t.Errorf("%d objects can be read", len(list.Items))
	}
	for i := range 3 {
		if _, err := b.client.Dynamic().Resource(b.things("v1")).Namespace(b.namespace).Get(t.Context(), fmt.Sprintf("old-%d", i), metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func TestVersionIsKeptWhileItsObjectsCannotBeMigrated(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.ensure(t, b.text("", version{"v1alpha1", true}))
	b.make(t, "v1alpha1", "stuck")
	// No server listens at the URL of the conversion webhook, so objects that are stored as v1alpha1 cannot be read as
	// v1.
	away := `{"spec": {"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/convert"}}}}}`
	if _, err := b.crds().Patch(t.Context(), "things."+b.group, types.MergePatchType, []byte(away), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	result := b.ensure(t, b.text("", version{"v1", true}))
	if len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0], "keeps version v1alpha1, which is not served") {
		t.Errorf("warnings are %q", result.Warnings)
	}
	if _, err := b.crds().Patch(t.Context(), "things."+b.group, types.MergePatchType, []byte(`{"spec": {"conversion": {"strategy": "None", "webhook": null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if result := b.ensure(t, b.text("", version{"v1", true})); len(result.Warnings) > 0 {
		t.Errorf("when the object can be converted again, the warnings are %q", result.Warnings)
	}
	if _, err := b.client.Dynamic().Resource(b.things("v1")).Namespace(b.namespace).Get(t.Context(), "stuck", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestVersionIsKeptWhereItsObjectsMayNotBeListed(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.ensure(t, b.text("", version{"v1alpha1", true}))
	b.Installer = crd.NewInstaller(b.definer(t), nil)
	result := b.ensure(t, b.text("", version{"v1", true}))
	if len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0], "keeps version v1alpha1, which is not served") || !strings.Contains(result.Warnings[0], "forbidden") {
		t.Errorf("warnings are %q", result.Warnings)
	}
}

// definer returns the client of a user with the right to write CustomResourceDefinitions and no other rights. It waits
// until the API server applies the rights of the user.
func (b fixture) definer(t *testing.T) *kube.Client {
	t.Helper()
	rbac := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	for resource, object := range map[string]map[string]any{
		"clusterroles": {"kind": "ClusterRole", "rules": []any{map[string]any{
			"apiGroups": []any{"apiextensions.k8s.io"}, "resources": []any{"customresourcedefinitions", "customresourcedefinitions/status"}, "verbs": []any{"*"},
		}}},
		"clusterrolebindings": {
			"kind":     "ClusterRoleBinding",
			"subjects": []any{map[string]any{"kind": "User", "name": b.namespace}},
			"roleRef":  map[string]any{"apiGroup": rbac.Group, "kind": "ClusterRole", "name": b.namespace},
		},
	} {
		o := &unstructured.Unstructured{Object: object}
		o.SetAPIVersion(rbac.String())
		o.SetName(b.namespace)
		if _, err := b.client.Dynamic().Resource(rbac.WithResource(resource)).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	config := rest.CopyConfig(cluster.Start(t).Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: b.namespace, Groups: []string{"system:authenticated"}}
	client, err := kube.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	b.client = client
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, err := b.crds().Get(t.Context(), "things."+b.group, metav1.GetOptions{})
		if err == nil {
			return client
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestWhatTheServerRefusesIsNamedAndTheRestIsInstalled(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	other := strings.ReplaceAll(strings.ReplaceAll(b.text("", version{"v1", true}), "things", "items"), "Thing", "Item")
	taken := strings.ReplaceAll(strings.ReplaceAll(b.text("", version{"v1", true}), "plural: things", "plural: owns"), "name: things", "name: owns")
	twoStored := b.text("", version{"v1", true}, version{"v2", true})
	result := b.ensure(t, other+"---\n"+twoStored)
	if result.Refused == nil || !strings.Contains(result.Refused.Error(), "things.yaml, document 2") || !strings.Contains(result.Refused.Error(), "spec.versions") {
		t.Errorf("refused: %v", result.Refused)
	}
	if diff := cmp.Diff([]string{"items." + b.group}, result.Written); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	b.ensure(t, b.text("", version{"v1", true}))
	// Without the check of the names, the installer would wait until its timeout, and the error would be another one.
	result = b.ensure(t, taken)
	if result.Refused == nil || !strings.Contains(result.Refused.Error(), "another definition has its names") {
		t.Errorf("refused: %v", result.Refused)
	}
}
