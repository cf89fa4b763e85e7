package samples_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"addon-operator/e2e/cluster"
)

// TestDeploymentIsAcceptedAndItsPodBecomesReady applies what kustomize makes of deploy, strictly: a field that does not
// exist or stands twice is an error. The namespace enforces the restricted profile, so a pod that needs more is refused.
func TestDeploymentIsAcceptedAndItsPodBecomesReady(t *testing.T) {
	c := cluster.Start(t)
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	objects := kustomized(t, root+"/deploy")
	apply(t, c, objects)

	const name = "addon-operator"
	eventually(t, "the pod is ready", func() error {
		set, err := client.AppsV1().StatefulSets(name).Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && set.Status.ReadyReplicas != 1 {
			err = fmt.Errorf("%d replicas are ready", set.Status.ReadyReplicas)
		}
		return err
	})
	claim, err := client.CoreV1().PersistentVolumeClaims(name).Get(t.Context(), "store-addon-operator-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if modes := fmt.Sprint(claim.Spec.AccessModes); modes != "[ReadWriteOncePod]" {
		t.Errorf("the volume can be had by %s", modes)
	}
	if mayEscalate(t, client) {
		t.Error("the operator may do anything by default")
	}
	apply(t, c, kustomized(t, withAllRights(t)))
	eventually(t, "the operator may install charts that grant rights", func() error {
		if !mayEscalate(t, client) {
			return errors.New("it may not")
		}
		return nil
	})

	// A second time changes nothing, and leaves alone what others keep in the ConfigMap.
	patch := []byte(`{"data": {"web": "replicas: 3"}}`)
	if _, err := client.CoreV1().ConfigMaps(name).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	apply(t, c, objects)
	config, err := client.CoreV1().ConfigMaps(name).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if config.Data["web"] != "replicas: 3" {
		t.Errorf("the ConfigMap lost what was set in it: %v", config.Data)
	}
	pod, err := client.CoreV1().Pods(name).Get(t.Context(), "addon-operator-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if seconds := pod.Spec.TerminationGracePeriodSeconds; seconds == nil || *seconds < 30 {
		t.Error("the pod is killed before an operator that stops has ended")
	}
}

// mayEscalate reports whether the operator may grant rights that it has not.
func mayEscalate(t *testing.T, client kubernetes.Interface) bool {
	t.Helper()
	review, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:addon-operator:addon-operator",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Verb: "escalate"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// withAllRights returns a copy of deploy whose kustomization has the component rights-all.
func withAllRights(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(root+"/deploy")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "kustomization.yaml")
	text, err := os.ReadFile(path)
	if err == nil {
		text = []byte(strings.NewReplacer("# components:", "components:", "# - rights-all", "- rights-all").Replace(string(text)))
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// kustomized returns what kustomize makes of a directory.
func kustomized(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, r := range made.Resources() {
		object, err := r.Map()
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, &unstructured.Unstructured{Object: object})
	}
	return objects
}

// apply applies objects server-side, as kubectl apply --server-side does, and strictly.
func apply(t *testing.T, c *cluster.Cluster, objects []*unstructured.Unstructured) {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds))
	for _, o := range objects {
		kind := o.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Fatal(err)
		}
		resource := dynamic.ResourceInterface(client.Resource(mapping.Resource))
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			if o.GetNamespace() == "" {
				t.Fatal(errors.New(o.GetKind() + " " + o.GetName() + " names no namespace"))
			}
			resource = client.Resource(mapping.Resource).Namespace(o.GetNamespace())
		}
		data, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		_, err = resource.Patch(t.Context(), o.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{
			FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict,
		})
		if err != nil {
			t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}
