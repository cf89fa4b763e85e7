package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
)

// fieldManager is the field manager of the objects that the test creates.
const fieldManager = "addon-operator-test"

// servedWithin is the maximum time that the test waits until the API server serves the kind of an object.
const servedWithin = 30 * time.Second

// readObjects returns the objects in YAML files, in their order.
func readObjects(paths []string) (all []*unstructured.Unstructured, err error) {
	for _, path := range paths {
		objects, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

func readFile(path string) (objects []*unstructured.Unstructured, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for documents := utilyaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		o := &unstructured.Unstructured{}
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) == 0 {
			continue
		}
		if o.GetKind() == "" || o.GetAPIVersion() == "" || o.GetName() == "" {
			return nil, fmt.Errorf("document %d: an object needs apiVersion, kind and metadata.name", len(objects)+1)
		}
		objects = append(objects, o)
	}
}

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

func (c *client) createNamespace(ctx context.Context, name string) error {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	if _, err := c.dynamic.Resource(namespaces).Create(ctx, o, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return nil
}

// apply applies objects in their order. Namespaced objects without a namespace are created in the given namespace.
func (c *client) apply(ctx context.Context, namespace string, objects []*unstructured.Unstructured) error {
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.discovery))
	for _, o := range objects {
		o = o.DeepCopy()
		if err := c.applyOne(ctx, mapper, namespace, o); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

func (c *client) applyOne(ctx context.Context, mapper *restmapper.DeferredDiscoveryRESTMapper, namespace string, o *unstructured.Unstructured) error {
	kind := o.GroupVersionKind()
	for deadline := time.Now().Add(servedWithin); ; {
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err == nil {
			at := c.dynamic.Resource(mapping.Resource)
			if mapping.Scope.Name() == meta.RESTScopeNameRoot {
				_, err = at.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
			} else {
				if o.GetNamespace() == "" {
					o.SetNamespace(namespace)
				}
				_, err = at.Namespace(o.GetNamespace()).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
			}
		}
		unserved := meta.IsNoMatchError(err) || apierrors.IsNotFound(err)
		if !unserved || time.Now().After(deadline) {
			return err
		}
		mapper.Reset() // perhaps the kind is not served yet, because its CRD was created just before
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
