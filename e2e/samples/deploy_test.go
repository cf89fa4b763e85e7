package samples_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// TestDeploymentIsAcceptedAndItsPodBecomesReady applies the output of kustomize for the directory deploy, with strict
// validation: an unknown or duplicate field is an error. The namespace enforces the Pod Security Standard
// "restricted", so a pod that violates it is rejected.
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
		t.Errorf("the access modes of the volume are %s, want [ReadWriteOncePod]", modes)
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

	// A second apply must keep the keys that users have set in the operator's ConfigMap.
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

// oldOperator has the objects of an installed flant/addon-operator: the namespace addon-operator, and a Deployment in
// it with the same name.
const oldOperator = `apiVersion: v1
kind: Namespace
metadata: {name: addon-operator}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: addon-operator, namespace: addon-operator}
spec:
  selector: {matchLabels: {app: addon-operator}}
  template:
    metadata: {labels: {app: addon-operator}}
    spec:
      containers:
      - {name: addon-operator, image: registry.example.com/old-operator:1}
`

// TestOperatorMovesOverIsReadyAndMovesBack runs the commands of README.md and moving-over.md on a copy of the
// directory deploy. They stop an installed flant/addon-operator, install this operator, wait until it is ready, and
// move back to flant/addon-operator.
func TestOperatorMovesOverIsReadyAndMovesBack(t *testing.T) {
	h, c, _ := launchHome(t)
	if err := os.CopyFS(filepath.Join(h.dir, "deploy"), os.DirFS(root+"/deploy")); err != nil {
		t.Fatal(err)
	}
	run := func(b block) string {
		t.Helper()
		output, err := h.run(b)
		if err != nil {
			t.Fatalf("%s:%d: %v\n%s%s", b.file, b.line, err, b.text, output)
		}
		return output
	}
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	const name = "addon-operator"
	running := func(replicas int32) {
		t.Helper()
		eventually(t, fmt.Sprint(replicas, " pods of the old operator are ready"), func() error {
			old, err := client.AppsV1().Deployments(name).Get(t.Context(), name, metav1.GetOptions{})
			if err == nil && old.Status.ReadyReplicas != replicas {
				err = fmt.Errorf("%+v", old.Status)
			}
			return err
		})
	}
	run(block{text: "kubectl apply -f - <<'END'\n" + oldOperator + "END\n"})
	running(1)

	run(blockOf(t, "docs/moving-over.md", "kubectl -n addon-operator scale deployment"))
	running(0)
	run(blockOf(t, "README.md", "cd deploy"))
	run(block{text: "kubectl -n addon-operator rollout status statefulset/addon-operator --timeout=3m\n"})
	image := run(block{text: "kubectl -n addon-operator get pod addon-operator-0 -o 'jsonpath={.spec.containers[0].image}'\n"})
	if image != "registry.example.com/addon-operator:1" {
		t.Errorf("the pod runs image %q", image)
	}
	if !mayEscalate(t, client) {
		t.Error("the component rights-all was not added")
	}

	run(blockOf(t, "docs/moving-over.md", "kubectl -n addon-operator scale statefulset"))
	running(1)
	if pods := run(block{text: "kubectl -n addon-operator get pods -o name\n"}); strings.Contains(pods, "addon-operator-0") {
		t.Errorf("both operators run: %s", pods)
	}
}

// TestImageIsBuilt builds the image with the command in README.md, if a docker daemon runs. Otherwise it runs the RUN
// commands of the Dockerfile's build stage, on a copy of the files that docker would copy.
func TestImageIsBuilt(t *testing.T) {
	if exec.CommandContext(t.Context(), "docker", "info").Run() == nil {
		build := blockOf(t, "README.md", "docker build")
		shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", build.text)
		shell.Dir = root
		if output, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return
	}
	dir := t.TempDir()
	ignored, err := os.ReadFile(root + "/deploy/Dockerfile.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		from, to := filepath.Join(root, entry.Name()), filepath.Join(dir, entry.Name())
		switch {
		case slices.Contains(strings.Fields(string(ignored)), entry.Name()):
		case entry.IsDir():
			err = errors.Join(err, os.CopyFS(to, os.DirFS(from)))
		default:
			text, readErr := os.ReadFile(from)
			err = errors.Join(err, readErr, os.WriteFile(to, text, 0o600))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	dockerfile, err := os.ReadFile(root + "/deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(dockerfile), "FROM ${BASE_IMAGE}")
	var commands strings.Builder
	for line := range strings.Lines(first) {
		if command, ok := strings.CutPrefix(line, "RUN "); ok {
			commands.WriteString(strings.ReplaceAll(command, "/out/", dir+"/out/"))
		}
	}
	shell := exec.CommandContext(t.Context(), "sh", "-eu", "-c", commands.String())
	shell.Dir, shell.Env = dir, append(os.Environ(), "VERSION=1.2.3")
	if output, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	output, err := exec.CommandContext(t.Context(), dir+"/out/addon-operator", "version").Output()
	if err != nil || !strings.Contains(string(output), "1.2.3") {
		t.Errorf("the program in the image is of version %q: %v", output, err)
	}
}

// mayEscalate reports whether RBAC allows the operator to grant rights that it does not have (the verb escalate).
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

// withAllRights returns the path of a copy of the directory deploy, in which the kustomization includes the component
// rights-all.
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

// kustomized returns the objects that kustomize makes from the directory dir.
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

// apply applies objects as kubectl apply --server-side does, with strict validation of fields.
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
