package crash_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"addon-operator/e2e/cluster"
	"addon-operator/e2e/operator"
	"addon-operator/internal/api"
	"addon-operator/store"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
)

var definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// redisFiles are the files of the only addon in the tests.
var redisFiles = map[string]string{
	"meta.yaml":               "{id: X, name: redis, version: 0.0.1, description: d, displayName: Redis}",
	"chart/redis/Chart.yaml":  "{apiVersion: v2, name: redis, version: 1.0.0}",
	"plans/default/meta.yaml": "{id: X-p, name: default, description: d, displayName: Default}",
}

// serveAddons serves a repository with one addon, and returns the URL of its index.
func serveAddons(t *testing.T) (index string) {
	t.Helper()
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	out := tar.NewWriter(zipped)
	for name, text := range redisFiles {
		err1 := out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))})
		_, err2 := out.Write([]byte(text))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(out.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		if strings.HasSuffix(request.URL.Path, ".tgz") {
			_, _ = answer.Write(archive.Bytes())
			return
		}
		_, _ = answer.Write([]byte("{apiVersion: v1, entries: {redis: [{name: redis, version: 0.0.1}]}}"))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/index.yaml"
}

// addonsKillings returns the failpoints of the addons graph at which the operator is killed, while an addon is passed
// from one configuration to another and back. Each node has failpoints at the start and at the end of its first task. A
// node with effects also has failpoints at its first effects. The nodes that pass the addon to another configuration
// also have failpoints at a later task.
func addonsKillings() (all []string) {
	for _, n := range addons.Graph.Nodes {
		for _, at := range []string{"claimed", "done"} {
			all = append(all, string(n.ID)+":"+at+":1")
		}
	}
	effects := map[graph.NodeID]int{
		addons.ConfigurationChanged: 2, addons.ConfigurationStatus: 3, addons.ReprocessFailed: 2, addons.RemoveFinalizer: 1,
	}
	for _, n := range addons.Graph.Nodes {
		for i := range effects[n.ID] {
			all = append(all, fmt.Sprintf("%s:effect:%d", n.ID, i+1))
		}
	}
	return append(all,
		string(addons.RegisterAddons)+":done:3",         // the owner has given up the addon
		string(addons.ConfigurationStatus)+":claimed:3", // the owner has given up the addon, but its status still names the addon
		string(addons.ReprocessFailed)+":claimed:2",
		string(addons.ReprocessFailed)+":done:2",
	)
}

// TestKilledAddonsConfigurationsEndAsUndisturbed kills the operator at each node of the addons graph, once in each
// subtest. First, the addon is removed from the spec of its owner, so that it passes to the contender. Then the
// contender is deleted, so that the addon passes back, and then the owner is deleted. At the end, the store must have
// no configurations, addons or files of addons.
func TestKilledAddonsConfigurationsEndAsUndisturbed(t *testing.T) {
	c := cluster.Launch(t, t.TempDir())
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	installAddonsCRDs(t, client)
	index := serveAddons(t)
	for _, at := range addonsKillings() {
		t.Run(at, func(t *testing.T) {
			w := addonsEnvironment(t, c)
			l := w.keepAlive(t, "ADDON_OPERATOR_FAILPOINT="+at)
			configurations := client.Resource(api.NamespacedResource).Namespace(w.operator.Namespace)
			is := func(phase api.Phase) func(*api.Configuration) bool {
				return func(o *api.Configuration) bool { return isSettled(o, phase) }
			}
			handedOver := func(o *api.Configuration) bool { return isSettled(o, api.Ready) && o.Spec.ReprocessRequest >= 1 }
			gone := func(o *api.Configuration) bool { return o == nil }
			createConfiguration(t, configurations, "owner", index)
			awaitConfiguration(t, configurations, "owner", is(api.Ready))
			createConfiguration(t, configurations, "contender", index)
			awaitConfiguration(t, configurations, "contender", is(api.Failed))

			setRepositories(t, configurations, "owner", `[]`)
			awaitConfiguration(t, configurations, "owner", is(api.Ready))
			awaitConfiguration(t, configurations, "contender", handedOver)
			setRepositories(t, configurations, "owner", fmt.Sprintf(`[{"url": %q}]`, index))
			awaitConfiguration(t, configurations, "owner", is(api.Failed))

			deleteConfiguration(t, configurations, "contender")
			awaitConfiguration(t, configurations, "contender", gone)
			awaitConfiguration(t, configurations, "owner", handedOver)
			deleteConfiguration(t, configurations, "owner")
			awaitConfiguration(t, configurations, "owner", gone)
			if killed := l.stop(t); !killed {
				t.Errorf("the operator was not killed")
			}
			w.inStore(t, func(tx *store.Tx) error {
				for _, table := range []store.Table{store.Configurations, store.Addons, store.Contents, store.Charts} {
					for k := range tx.Range(store.At(table)) {
						t.Errorf("record %s was not deleted", k)
					}
				}
				return nil
			})
		})
	}
}

func isSettled(o *api.Configuration, phase api.Phase) bool {
	return o != nil && o.Status.Phase == phase && o.Status.ObservedGeneration == o.Generation
}

func installAddonsCRDs(t *testing.T, client dynamic.Interface) {
	t.Helper()
	text, err := os.Open(filepath.Join("..", "..", "deploy", "crds.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	documents := utilyaml.NewYAMLOrJSONDecoder(text, 4096)
	definitions := client.Resource(definitionResource)
	for range 2 {
		o := &unstructured.Unstructured{}
		if err := documents.Decode(&o.Object); err != nil {
			t.Fatal(err)
		}
		if _, err := definitions.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// addonsEnvironment creates a namespace in the cluster c, and directories for an operator without modules and hooks.
func addonsEnvironment(t *testing.T, c *cluster.Cluster) *environment {
	t.Helper()
	dir, err := os.MkdirTemp("", "crash-") //nolint:usetesting // the path of t.TempDir is too long for the socket
	if err != nil {
		t.Fatal(err)
	}
	w := &environment{record: filepath.Join(dir, "record"), test: t.Name()}
	if w.client, err = kubernetes.NewForConfig(c.Config()); err != nil {
		t.Fatal(err)
	}
	w.operator = operator.Environment{
		Program: build(t), Dir: dir, Kubeconfig: c.Kubeconfig(), Namespace: c.Namespace(t),
		ModulesDir: filepath.Join(dir, "modules"), GlobalHooksDir: filepath.Join(dir, "global-hooks"),
	}
	if err := errors.Join(os.Mkdir(w.operator.ModulesDir, 0o700), os.Mkdir(w.operator.GlobalHooksDir, 0o700)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the operator's log:\n%s", w.operator.EndOfLog())
		}
		_ = os.RemoveAll(dir) // a temporary directory
	})
	return w
}

// An ending says what happened to the processes of an operator.
type ending struct {
	killed bool  // whether a process was killed
	err    error // from a start that failed
}

// A living is an operator that is started again whenever its process ends.
type living struct {
	stopped chan struct{}
	ended   chan ending // receives a value after the end of the last process
}

func (w *environment) keepAlive(t *testing.T, env string) *living {
	t.Helper()
	l := &living{stopped: make(chan struct{}), ended: make(chan ending, 1)}
	settings := []string{"ADDON_OPERATOR_ADDONS_DEVELOP_MODE=yes", "ADDON_OPERATOR_ADDONS_RETRY=0", "ADDON_OPERATOR_ADDONS_RESYNC=0s"}
	p := w.start(t, append(settings, env)...) // start counts a kill of this process at the end of the test
	go func() {
		var end ending
		for {
			select {
			case <-p.Ended():
				end.killed = p.Killed() || end.killed
				if p, end.err = w.operator.Start(settings...); end.err != nil {
					l.ended <- end
					return
				}
			case <-l.stopped:
				_ = p.Stop() // an error is ignored, because the test checks the store afterwards
				l.ended <- end
				return
			}
		}
	}()
	return l
}

// stop stops the operator, and reports whether one of its processes had been killed before.
func (l *living) stop(t *testing.T) bool {
	t.Helper()
	close(l.stopped)
	end := <-l.ended
	if end.err != nil {
		t.Fatal(end.err)
	}
	return end.killed
}

func createConfiguration(t *testing.T, at dynamic.ResourceInterface, name, url string) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/" + api.Version, "kind": api.NamespacedKind, "metadata": map[string]any{"name": name},
		"spec": map[string]any{"repositories": []any{map[string]any{"url": url}}},
	}}
	if _, err := at.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// setRepositories replaces the repositories in the spec of a configuration.
func setRepositories(t *testing.T, at dynamic.ResourceInterface, name, repositories string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec": {"repositories": %s}}`, repositories)
	if _, err := at.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func deleteConfiguration(t *testing.T, at dynamic.ResourceInterface, name string) {
	t.Helper()
	if err := at.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitConfiguration waits until the given function returns true for the configuration called name. If there is no such
// configuration, the argument of the function is nil.
func awaitConfiguration(t *testing.T, at dynamic.ResourceInterface, name string, wanted func(*api.Configuration) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for {
		var c *api.Configuration
		all, err := at.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err == nil && len(all.Items) == 1 {
			c = new(api.Configuration)
			text, err := all.Items[0].MarshalJSON()
			if err := errors.Join(err, json.Unmarshal(text, c)); err != nil {
				t.Fatal(err)
			}
		}
		if err == nil && wanted(c) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("configuration %s has not reached the wanted state: %+v, %v", name, c, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
