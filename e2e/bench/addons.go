package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"addon-operator/internal/api"
)

const (
	configurations = 500 // number of configurations, each in its own namespace
	repositories   = 4   // number of repositories in each configuration
	addonsInEach   = 10  // number of addons in each repository

	// addonsReadyWithin is the maximum wait until all configurations are Ready.
	addonsReadyWithin = 5 * time.Minute
)

// measureAddons measures the time, the memory and the requests for processing many configurations that all name the
// same repositories. Then it makes the operator process one configuration again, and measures the time from the last
// response of a repository until the configuration is Ready.
func measureAddons(ctx context.Context, _ int, progress *log.Logger) (_ []figure, err error) {
	w, end, err := openEnvironment(progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	server, served, err := serveAddons()
	if err != nil {
		return nil, err
	}
	defer server.Close()
	objects, err := dynamic.NewForConfig(w.cluster.Config())
	if err != nil {
		return nil, err
	}
	if err := defineAddons(ctx, objects); err != nil {
		return nil, err
	}
	env, err := w.newBareEnvironment(ctx, "addons")
	if err != nil {
		return nil, err
	}
	progress.Printf("%d configurations of %d repositories with %d addons each", configurations, repositories, addonsInEach)
	for i := range configurations {
		if err := w.createConfiguration(ctx, objects, i, server.URL); err != nil {
			return nil, err
		}
	}
	p, err := env.Start("ADDON_OPERATOR_ADDONS=on", "ADDON_OPERATOR_ADDONS_DEVELOP_MODE=true")
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	if err := awaitReady(ctx, objects, func(c *unstructured.Unstructured) bool { return true }, configurations); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, env.EndOfLog())
	}
	all := time.Since(p.Started)
	requests := served.requests.Load()
	peak, err := p.PeakMemory()
	if err != nil {
		return nil, err
	}
	again, err := reprocess(ctx, objects, served)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, env.EndOfLog())
	}
	note := fmt.Sprintf("%d configurations, %d repositories with %d addons each", configurations, repositories, addonsInEach)
	return []figure{
		{Name: "addons, all configurations Ready", Unit: "s", Measured: all.Seconds(), AtMost: 60, Note: note + "; from the start of the process"},
		{Name: "addons, peak memory", Unit: "MB", Measured: float64(peak) / 1e6, AtMost: 150, Note: "VmHWM"},
		{Name: "addons, requests to the repositories", Unit: "", Measured: float64(requests), Note: note},
		{Name: "addons, from the last response of a repository to Ready", Unit: "ms", Measured: float64(again.Microseconds()) / 1e3, AtMost: 500, Note: "after reprocessRequest of one of the configurations"},
	}, p.Stop()
}

// defineAddons installs the CRDs of addons configurations, and waits until the API server can list objects of both
// kinds.
func defineAddons(ctx context.Context, objects dynamic.Interface) error {
	text, err := os.ReadFile(filepath.Join("deploy", "crds.yaml"))
	if err != nil {
		return fmt.Errorf("%w: run the bench in the root of the repository", err)
	}
	definitions := objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	reader := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var definition unstructured.Unstructured
		if err := reader.Decode(&definition); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if len(definition.Object) == 0 {
			continue
		}
		if _, err := definitions.Create(ctx, &definition, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := objects.Resource(api.NamespacedResource).List(ctx, metav1.ListOptions{})
		_, err2 := objects.Resource(api.ClusterResource).List(ctx, metav1.ListOptions{})
		return err == nil && err2 == nil, nil
	})
}

// createConfiguration creates a namespace, and in the namespace a configuration that names all repositories.
func (w *environment) createConfiguration(ctx context.Context, objects dynamic.Interface, i int, url string) error {
	namespace := fmt.Sprintf("tenant-%03d", i)
	_, err := w.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	var urls []any
	for r := range repositories {
		urls = append(urls, map[string]any{"url": fmt.Sprintf("%s/%d/index.yaml", url, r)})
	}
	_, err = objects.Resource(api.NamespacedResource).Namespace(namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/" + api.Version, "kind": api.NamespacedKind,
		"metadata": map[string]any{"name": "addons"}, "spec": map[string]any{"repositories": urls},
	}}, metav1.CreateOptions{})
	return err
}

// awaitReady waits until n configurations are Ready, counting only those for which wanted returns true. It returns an
// error if any configuration fails.
func awaitReady(ctx context.Context, objects dynamic.Interface, wanted func(*unstructured.Unstructured) bool, n int) error {
	ctx, cancel := context.WithTimeout(ctx, addonsReadyWithin)
	defer cancel()
	ready := map[string]bool{}
	look := func(object runtime.Object) (done bool, err error) {
		c, ok := object.(*unstructured.Unstructured)
		if !ok {
			return false, nil
		}
		phase, _, _ := unstructured.NestedString(c.Object, "status", "phase")
		if phase == string(api.Failed) {
			return false, fmt.Errorf("configuration of %s failed: %v", c.GetNamespace(), c.Object["status"])
		}
		if phase == string(api.Ready) && wanted(c) {
			ready[c.GetNamespace()] = true
		}
		return len(ready) >= n, nil
	}
	resource := objects.Resource(api.NamespacedResource)
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return resource.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, o)
		},
	}
	_, err := watchtools.UntilWithSync(ctx, lister, &unstructured.Unstructured{}, nil, func(event watch.Event) (bool, error) {
		return look(event.Object)
	})
	if err != nil {
		return fmt.Errorf("%d of %d configurations are Ready: %w", len(ready), n, err)
	}
	return nil
}

// reprocess increments the reprocessRequest of one configuration. reprocess returns the time from the last response of
// the repositories until the configuration is Ready again.
func reprocess(ctx context.Context, objects dynamic.Interface, served *served) (time.Duration, error) {
	const namespace = "tenant-000"
	patched, err := objects.Resource(api.NamespacedResource).Namespace(namespace).Patch(ctx, "addons", types.MergePatchType,
		[]byte(`{"spec":{"reprocessRequest":1}}`), metav1.PatchOptions{})
	if err != nil {
		return 0, err
	}
	if err := awaitReady(ctx, objects, func(c *unstructured.Unstructured) bool {
		observed, _, _ := unstructured.NestedInt64(c.Object, "status", "observedGeneration")
		return c.GetNamespace() == namespace && observed == patched.GetGeneration()
	}, 1); err != nil {
		return 0, err
	}
	return time.Since(time.Unix(0, served.last.Load())), nil
}

// served has the number of responses that the repository server has sent, and the time of the last one.
type served struct {
	requests atomic.Int64
	last     atomic.Int64 // time of the last response as Unix time in nanoseconds
}

// serveAddons serves the repositories. The index of repository R is at /R/index.yaml, and its archives are in the
// same directory.
func serveAddons() (*httptest.Server, *served, error) {
	files := map[string][]byte{}
	for r := range repositories {
		var index strings.Builder
		index.WriteString("apiVersion: v1\nentries:\n")
		for a := range addonsInEach {
			name := fmt.Sprintf("addon-%d-%d", r, a)
			archive, err := addonArchive(name)
			if err != nil {
				return nil, nil, err
			}
			files[fmt.Sprintf("/%d/%s-1.0.0.tgz", r, name)] = archive
			fmt.Fprintf(&index, "  %s:\n  - {name: %s, version: 1.0.0, description: for the bench}\n", name, name)
		}
		files[fmt.Sprintf("/%d/index.yaml", r)] = []byte(index.String())
	}
	s := &served{}
	modified := time.Now()
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file, found := files[r.URL.Path]
		if !found {
			http.NotFound(w, r)
			return
		}
		s.requests.Add(1)
		http.ServeContent(w, r, "", modified, bytes.NewReader(file))
		s.last.Store(time.Now().UnixNano())
	})), s, nil
}

// addonArchive returns the archive of an addon with a chart of typical size.
func addonArchive(name string) ([]byte, error) {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	template := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-%d\ndata:\n" + strings.Repeat("  key: {{ .Values.text | quote }}\n", 60)
	files := map[string]string{
		"meta.yaml":                      "id: " + name + "-id\nname: " + name + "\nversion: 1.0.0\ndescription: for the bench\ndisplayName: " + name + "\n",
		"plans/default/meta.yaml":        "id: " + name + "-plan\nname: default\ndescription: default\ndisplayName: Default\n",
		"plans/default/values.yaml":      "text: plan\n",
		"chart/" + name + "/Chart.yaml":  "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n",
		"chart/" + name + "/values.yaml": "text: " + name + "\n",
	}
	for i := range 8 {
		files[fmt.Sprintf("chart/%s/templates/%d.yaml", name, i)] = fmt.Sprintf(template, i)
	}
	for path, text := range files {
		if err := archive.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := archive.Write([]byte(text)); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
