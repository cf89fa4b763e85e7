// Package addons_test tests addons configurations with a real API server: their
// CustomResourceDefinitions, configurations that compete for an addon, hostile repositories, and
// kills during a download.
package addons_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/api"
)

func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// define creates the CustomResourceDefinitions in deploy/crds.yaml, and waits until their conditions
// Established and NamesAccepted are true.
func define(t *testing.T, client dynamic.Interface) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/crds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Resource(definitions).Create(t.Context(), o, metav1.CreateOptions{FieldValidation: "Strict"}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = client.Resource(definitions).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{})
		})
		if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 90*time.Second, true, func(ctx context.Context) (bool, error) {
			got, err := client.Resource(definitions).Get(ctx, o.GetName(), metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			return holds(got, "Established") && holds(got, "NamesAccepted"), nil
		}); err != nil {
			t.Fatalf("%s is not established: %v", o.GetName(), err)
		}
	}
}

// holds reports whether a condition of a CustomResourceDefinition is true.
func holds(definition *unstructured.Unstructured, condition string) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == condition {
			return c["status"] == "True"
		}
	}
	return false
}

func TestDefinitionsOfAddonsConfigurationsAreTheContract(t *testing.T) {
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	define(t, client)
	t.Run("names", func(t *testing.T) { names(t, discovery.NewDiscoveryClientForConfigOrDie(c.Config())) })
	kinds := map[string]dynamic.ResourceInterface{
		api.ClusterKind:    client.Resource(api.ClusterResource),
		api.NamespacedKind: client.Resource(api.NamespacedResource).Namespace(namespace),
	}
	for kind, resource := range kinds {
		t.Run("accepted "+kind, func(t *testing.T) { accepted(t, kind, resource) })
		t.Run("status "+kind, func(t *testing.T) { status(t, kind, resource) })
	}
	t.Run("columns", func(t *testing.T) {
		set, err := kubernetes.NewForConfig(c.Config())
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{
			"/apis/addons.kyma-project.io/v1alpha1/clusteraddonsconfigurations",
			"/apis/addons.kyma-project.io/v1alpha1/namespaces/" + namespace + "/addonsconfigurations",
		} {
			columns(t, set, path)
		}
	})
}

func names(t *testing.T, client *discovery.DiscoveryClient) {
	t.Helper()
	var list *metav1.APIResourceList
	// The API server publishes the resources of a definition shortly after the definition's condition
	// Established is true.
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 90*time.Second, true, func(context.Context) (_ bool, err error) {
		list, err = client.ServerResourcesForGroupVersion("addons.kyma-project.io/v1alpha1")
		return err == nil && len(list.APIResources) == 4, nil
	}); err != nil {
		t.Errorf("there are not 4 resources: %v", err)
	}
	if list == nil {
		t.FailNow()
	}
	type resource struct {
		Name, Singular, Kind string
		Namespaced           bool
		Short, Categories    []string
	}
	got := map[string]resource{}
	for _, r := range list.APIResources {
		got[r.Name] = resource{r.Name, r.SingularName, r.Kind, r.Namespaced, r.ShortNames, r.Categories}
	}
	want := map[string]resource{
		"addonsconfigurations":               {"addonsconfigurations", "addonsconfiguration", "AddonsConfiguration", true, nil, []string{"all", "addons"}},
		"addonsconfigurations/status":        {"addonsconfigurations/status", "", "AddonsConfiguration", true, nil, nil},
		"clusteraddonsconfigurations":        {"clusteraddonsconfigurations", "clusteraddonsconfiguration", "ClusterAddonsConfiguration", false, nil, nil},
		"clusteraddonsconfigurations/status": {"clusteraddonsconfigurations/status", "", "ClusterAddonsConfiguration", false, nil, nil},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

// configuration returns an addons configuration of a kind. spec is its spec in JSON; if spec is empty, the object has
// no spec.
func configuration(t *testing.T, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "addons.kyma-project.io/v1alpha1", "kind": kind}}
	o.SetName(name)
	if spec != "" {
		var value any
		if err := json.Unmarshal([]byte(spec), &value); err != nil {
			t.Fatal(err)
		}
		o.Object["spec"] = value
	}
	return o
}

func accepted(t *testing.T, kind string, resource dynamic.ResourceInterface) {
	t.Helper()
	for spec, want := range map[string]bool{
		``:                                true,
		`{"repositories": []}`:            true,
		`{"repositories": [{"url": ""}]}`: true,
		`{"repositories": [], "reprocessRequest": 9}`:                                                       true,
		`{"repositories": [{"url": "https://{u}@h/i.yaml", "secretRef": {"name": "s", "namespace": "n"}}]}`: true,
		`{"repositories": [{"url": "u", "secretRef": {}}]}`:                                                 true,
		`{}`:                             false,
		`{"repositories": null}`:         false,
		`{"reprocessRequest": 1}`:        false,
		`{"repositories": [{}]}`:         false,
		`{"repositories": [{"url": 1}]}`: false,
		`{"repositories": "u"}`:          false,
		`{"repositories": [{"url": "u", "secretRef": "s"}]}`: false,
		`{"repositories": [], "reprocessRequest": "1"}`:      false,
		`{"repositories": [], "reprocessRequest": 1.5}`:      false,
	} {
		o, err := resource.Create(t.Context(), configuration(t, kind, "one", spec), metav1.CreateOptions{FieldValidation: "Strict"})
		if (err == nil) != want {
			t.Errorf("spec %s: accepted %t: %v", spec, err == nil, err)
		}
		if err != nil {
			continue
		}
		if o.GetGeneration() != 1 {
			t.Errorf("spec %s: generation %d", spec, o.GetGeneration())
		}
		if err := resource.Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// status writes a status that is encoded from the Go types, and checks that the API server returns the same status.
func status(t *testing.T, kind string, resource dynamic.ResourceInterface) {
	t.Helper()
	if _, err := resource.Create(t.Context(), configuration(t, kind, "two", `{"repositories": []}`), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	want := api.Status{
		Phase: api.Failed, LastProcessedTime: &now, ObservedGeneration: 1,
		Repositories: []api.RepositoryStatus{
			{URL: "", Status: api.ConditionFailed, Reason: api.EmptyURLError, Message: api.EmptyURLMessage, Addons: []api.AddonStatus{}},
			{URL: "https://h/{a}", Status: api.ConditionFailed, Addons: []api.AddonStatus{
				{Name: "redis", Version: "0.0.1", Status: api.ConditionReady},
				{Name: "acc", Version: "0.0.1", Status: api.ConditionFailed, Reason: api.LoadingError, Message: "m"},
			}},
		},
	}
	patch, err := json.Marshal(map[string]any{"status": want})
	if err != nil {
		t.Fatal(err)
	}
	strict := metav1.PatchOptions{FieldValidation: "Strict"}
	o, err := resource.Patch(t.Context(), "two", types.MergePatchType, patch, strict, "status")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	var got api.Configuration
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Status); diff != "" || got.Generation != 1 {
		t.Errorf("generation %d, status (-want +got):\n%s", got.Generation, diff)
	}
	for bad, patch := range map[string]string{
		"without a phase":          `{"status": {"phase": null}}`,
		"a repository without URL": `{"status": {"repositories": [{"addons": []}]}}`,
		"no list of addons":        `{"status": {"repositories": [{"url": "u"}]}}`,
		"another addon status":     `{"status": {"repositories": [{"url": "u", "addons": [{"name": "n", "version": "v", "status": "Pending"}]}]}}`,
		"an addon without version": `{"status": {"repositories": [{"url": "u", "addons": [{"name": "n"}]}]}}`,
	} {
		if _, err := resource.Patch(t.Context(), "two", types.MergePatchType, []byte(patch), strict, "status"); err == nil {
			t.Errorf("a status %s is accepted", bad)
		}
	}
}

// columns requests a list as a table, as kubectl get does, and checks the columns.
func columns(t *testing.T, client kubernetes.Interface, path string) {
	t.Helper()
	text, err := client.CoreV1().RESTClient().Get().AbsPath(path).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range table.ColumnDefinitions {
		got = append(got, c.Name)
	}
	if diff := cmp.Diff([]string{"Name", "Phase", "Age"}, got); diff != "" {
		t.Errorf("%s: columns (-want +got):\n%s", path, diff)
	}
	if len(table.Rows) != 1 || table.Rows[0].Cells[0] != "two" || table.Rows[0].Cells[1] != "Failed" {
		t.Errorf("%s: rows %+v", path, table.Rows)
	}
}
