package plan_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"addon-operator/e2e/cluster"
	"addon-operator/e2e/operator"
)

// patience is the maximum wait for a converge, which takes a second or two on an idle machine.
const patience = 3 * time.Minute

// An environment has an operator, and modules that the test edits.
type environment struct {
	t       *testing.T
	random  *rand.Rand
	site    operator.Environment
	process *operator.Process
	client  dynamic.Interface

	modules  string                    // path of the directory with the modules; the directory with the suffix .last has a copy from the last converge
	settings map[string]map[string]any // sections of the operator's ConfigMap, by module
	flags    map[string]bool           // enabled flags in the operator's ConfigMap, by module
	removed  map[string]bool           // modules without a directory
	edits    []func(module string) string
	named    map[string]string // names of the directories of the modules to edit, by the key of the module's section in the ConfigMap
	settled  func()            // called after each converge
}

// names has the names of the directories of modules, by the key of the module's section in the ConfigMap.
var names = map[string]string{
	"frontend": "101-frontend", "database": "102-database", "garden": "103-garden", "agent": "104-agent", "batch": "105-batch",
	"tagger": "106-tagger", "umbrella": "107-umbrella", "network": "108-network", "dashboards": "109-dashboards", "tenants": "110-tenants",
}

// newEnvironment returns an environment with the modules in testdata/modules. No operator runs yet.
func newEnvironment(t *testing.T, random *rand.Rand) *environment {
	t.Helper()
	w := newSite(t, random)
	w.named, w.settled = names, func() {}
	w.edits = []func(string) string{
		w.setReplicas, w.setMessage, w.setMessage, w.toggleCondition, w.toggleFlag, w.toggleFlag,
		w.handOver, w.addTemplate, w.removeDirectory, w.loseObject,
	}
	w.must(os.Mkdir(w.site.GlobalHooksDir, 0o755))
	w.must(os.CopyFS(w.modules, os.DirFS("testdata/modules")))
	w.must(os.Chmod(filepath.Join(w.modules, "106-tagger/hooks/tag.sh"), 0o755))
	w.putConfig()
	return w
}

// newSite returns an environment without modules. No operator runs yet.
func newSite(t *testing.T, random *rand.Rand) *environment {
	t.Helper()
	c := cluster.Start(t)
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "plan-") //nolint:usetesting // the path of t.TempDir is too long for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &environment{
		t: t, random: random, client: client, modules: filepath.Join(dir, "modules"),
		settings: map[string]map[string]any{}, flags: map[string]bool{}, removed: map[string]bool{},
		site: operator.Environment{
			Program: path, Dir: dir, Kubeconfig: c.Kubeconfig(), Namespace: c.Namespace(t),
			ModulesDir: filepath.Join(dir, "modules"), GlobalHooksDir: filepath.Join(dir, "global-hooks"),
		},
	}
	t.Cleanup(func() {
		if w.process != nil {
			w.process.Kill()
		}
	})
	return w
}

func (w *environment) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// start starts the operator and waits until it has converged.
func (w *environment) start() {
	w.t.Helper()
	var err error
	w.process, err = w.site.Start()
	w.must(err)
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.process.Ready(ctx); err != nil {
		w.t.Fatalf("%v\n%s", err, w.site.EndOfLog())
	}
	w.settled()
	w.must(os.RemoveAll(w.modules + ".last"))
	w.must(os.CopyFS(w.modules+".last", os.DirFS(w.modules)))
}

func (w *environment) stop() {
	w.t.Helper()
	w.must(w.process.Stop())
	w.process = nil
}

// config returns the operator's ConfigMap with the current settings and flags of w.
func (w *environment) config() *unstructured.Unstructured {
	data := map[string]any{}
	for name, section := range w.settings {
		text, err := yaml.Marshal(section)
		w.must(err)
		data[name] = string(text)
	}
	for name, on := range w.flags {
		data[name+"Enabled"] = fmt.Sprint(on)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "addon-operator"}, "data": data,
	}}
}

// configFile writes the manifest of the operator's ConfigMap to a file and returns the path of the file.
func (w *environment) configFile() string {
	text, err := yaml.Marshal(w.config().Object)
	w.must(err)
	path := filepath.Join(w.site.Dir, "config.yaml")
	w.must(os.WriteFile(path, text, 0o600))
	return path
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// putConfig writes the operator's ConfigMap, as config returns it, to the cluster.
func (w *environment) putConfig() {
	w.t.Helper()
	in := w.client.Resource(configMaps).Namespace(w.site.Namespace)
	_, err := in.Update(w.t.Context(), w.config(), metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = in.Create(w.t.Context(), w.config(), metav1.CreateOptions{})
	}
	w.must(err)
}

// kinds are the kinds of all objects that the modules can have.
var kinds = []schema.GroupVersionResource{
	{Version: "v1", Resource: "namespaces"},
	{Version: "v1", Resource: "services"},
	configMaps,
	{Version: "v1", Resource: "secrets"},
	{Version: "v1", Resource: "serviceaccounts"},
	{Version: "v1", Resource: "resourcequotas"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Group: "apps", Version: "v1", Resource: "daemonsets"},
	{Group: "batch", Version: "v1", Resource: "jobs"},
	{Group: "batch", Version: "v1", Resource: "cronjobs"},
	{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	{Group: "plans.example.com", Version: "v1", Resource: "flowers"},
}

// objects returns the objects of all Helm releases, and the CRDs of modules, by kind and name. It leaves out objects
// that are being deleted, because controllers decide how long a deletion takes.
func (w *environment) objects() map[string]map[string]any {
	w.t.Helper()
	found := map[string]map[string]any{}
	for _, kind := range kinds {
		list, err := w.client.Resource(kind).List(w.t.Context(), metav1.ListOptions{LabelSelector: "heritage=addon-operator"})
		if apierrors.IsNotFound(err) {
			continue // the CRD does not exist yet
		}
		w.must(err)
		for _, o := range list.Items {
			if o.GetDeletionTimestamp() != nil || w.dying(o.GetNamespace()) {
				continue
			}
			clean(&o)
			name := o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
			found[name] = o.Object
		}
	}
	return found
}

// dying reports whether namespace does not exist or is being deleted, so that its objects are deleted, too.
func (w *environment) dying(namespace string) bool {
	if namespace == "" || namespace == w.site.Namespace {
		return false
	}
	o, err := w.client.Resource(kinds[0]).Get(w.t.Context(), namespace, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && o.GetDeletionTimestamp() != nil
}

// clean removes from an object the fields that the API server and controllers change. It keeps the UID, which shows
// whether the object was deleted and created again.
func clean(o *unstructured.Unstructured) {
	unstructured.RemoveNestedField(o.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	annotations := o.GetAnnotations()
	for name := range annotations {
		if strings.HasPrefix(name, "deployment.kubernetes.io/") || strings.HasPrefix(name, "deprecated.daemonset.") {
			delete(annotations, name)
		}
	}
	o.SetAnnotations(annotations)
}

// edit makes one to three random edits of modules, and returns a description of them.
func (w *environment) edit() string {
	all := slices.Sorted(maps.Keys(w.named))
	var done []string
	for range 1 + w.random.IntN(3) {
		name := all[w.random.IntN(len(all))]
		done = append(done, w.edits[w.random.IntN(len(w.edits))](name))
	}
	return strings.Join(done, ", ")
}

func (w *environment) set(name, key string, value any) string {
	if w.settings[name] == nil {
		w.settings[name] = map[string]any{}
	}
	w.settings[name][key] = value
	return fmt.Sprintf("%s.%s=%v", name, key, value)
}

func (w *environment) setReplicas(name string) string {
	return w.set(name, "replicas", 1+w.random.IntN(4))
}

func (w *environment) setMessage(name string) string {
	w.set(name, "password", fmt.Sprint("p", w.random.IntN(100)))
	return w.set(name, "message", fmt.Sprint("m", w.random.IntN(1000)))
}

func (w *environment) toggleCondition(name string) string {
	key := []string{"ingress", "autoscaling"}[w.random.IntN(2)]
	return w.set(name, key, w.random.IntN(2) == 0)
}

func (w *environment) toggleFlag(name string) string {
	on, set := w.flags[name]
	w.flags[name] = set && !on
	return fmt.Sprintf("%sEnabled=%v", name, w.flags[name])
}

// handOver changes the settings of the modules network and dashboards, so that the shared object moves from the chart
// of one module to the chart of the other.
func (w *environment) handOver(string) string {
	has, _ := w.settings["network"]["shared"].(bool)
	return w.set("network", "shared", !has) + " " + w.set("dashboards", "shared", has)
}

// addTemplate adds a template to a module, or replaces the template that it has added before.
func (w *environment) addTemplate(name string) string {
	if w.removed[name] {
		return "nothing"
	}
	text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra-%s}\ndata: {n: \"%d\"}\n", strings.ToLower(name), w.random.IntN(10))
	w.must(os.WriteFile(filepath.Join(w.modules, w.named[name], "templates", "extra.yaml"), []byte(text), 0o600))
	return "a template of " + name
}

// removeDirectory removes the directory of a module, or restores it if it is removed.
func (w *environment) removeDirectory(name string) string {
	dir := filepath.Join(w.modules, names[name])
	if w.removed[name] {
		w.removed[name] = false
		w.must(os.CopyFS(dir, os.DirFS(filepath.Join("testdata/modules", names[name]))))
		if name == "tagger" {
			w.must(os.Chmod(filepath.Join(dir, "hooks/tag.sh"), 0o755))
		}
		return "the directory of " + name + " is back"
	}
	w.removed[name] = true
	w.must(os.RemoveAll(dir))
	return "no directory of " + name
}

// loseObject deletes a random ConfigMap of a Helm release from the cluster.
func (w *environment) loseObject(string) string {
	in := w.client.Resource(configMaps).Namespace(w.site.Namespace)
	list, err := in.List(w.t.Context(), metav1.ListOptions{LabelSelector: "heritage=addon-operator"})
	w.must(err)
	if len(list.Items) == 0 {
		return "nothing"
	}
	lost := list.Items[w.random.IntN(len(list.Items))].GetName()
	w.must(in.Delete(w.t.Context(), lost, metav1.DeleteOptions{}))
	return "ConfigMap " + lost + " lost"
}
