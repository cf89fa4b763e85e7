package sdktest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// id identifies an object.
type id struct{ group, kind, namespace, name string }

func idOf(o *unstructured.Unstructured) id {
	return id{group: o.GroupVersionKind().Group, kind: o.GetKind(), namespace: o.GetNamespace(), name: o.GetName()}
}

// objects are the objects of a test, in the order of their creation.
type objects struct {
	all  []*unstructured.Unstructured
	made int // number of generated names
}

// parseObjects parses documents of YAML or JSON. Each document is one object.
func parseObjects(text string) ([]*unstructured.Unstructured, error) {
	var parsed []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		var tree map[string]any
		err := decoder.Decode(&tree)
		switch {
		case errors.Is(err, io.EOF):
			return parsed, nil
		case err != nil:
			return nil, err
		case len(tree) == 0:
			continue
		}
		object := &unstructured.Unstructured{Object: tree}
		if object.GetKind() == "" || object.GetAPIVersion() == "" || object.GetName() == "" {
			return nil, fmt.Errorf("object %d has no apiVersion, kind or name", len(parsed)+1)
		}
		if _, _, err := unstructured.NestedString(tree, "metadata", "namespace"); err != nil {
			return nil, fmt.Errorf("object %d: %w; write text that looks like something else, such as n and on, in quotes", len(parsed)+1, err)
		}
		parsed = append(parsed, object)
	}
}

// find returns the object with this kind, namespace and name, or nil if it does not exist. An empty
// apiVersion matches any.
func (o *objects) find(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	i := slices.IndexFunc(o.all, func(object *unstructured.Unstructured) bool {
		return object.GetName() == name && object.GetNamespace() == namespace && isKind(object, apiVersion, kind)
	})
	if i < 0 {
		return nil
	}
	return o.all[i]
}

func (o *objects) put(object *unstructured.Unstructured) {
	key := idOf(object)
	i := slices.IndexFunc(o.all, func(other *unstructured.Unstructured) bool { return idOf(other) == key })
	if i < 0 {
		o.all = append(o.all, object)
		return
	}
	o.all[i] = object
}

func (o *objects) remove(key id) {
	o.all = slices.DeleteFunc(o.all, func(object *unstructured.Unstructured) bool { return idOf(object) == key })
}

// isKind reports whether an object is of a kind. The argument kind is the name of a kind, its
// plural or its short name, in upper or lower case. An empty API version matches any.
func isKind(object *unstructured.Unstructured, apiVersion, kind string) bool {
	if apiVersion != "" && object.GetAPIVersion() != apiVersion {
		return false
	}
	if strings.EqualFold(object.GetKind(), kind) || strings.EqualFold(object.GetKind(), shortNames()[strings.ToLower(kind)]) {
		return true
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: object.GetKind()})
	return strings.EqualFold(plural.Resource, kind)
}

// shortNames maps the short names of the built-in kinds of Kubernetes to the kinds.
func shortNames() map[string]string {
	return map[string]string{
		"cm": "ConfigMap", "crd": "CustomResourceDefinition", "crds": "CustomResourceDefinition", "cj": "CronJob",
		"csr": "CertificateSigningRequest", "deploy": "Deployment", "ds": "DaemonSet", "ep": "Endpoints", "ev": "Event",
		"hpa": "HorizontalPodAutoscaler", "ing": "Ingress", "limits": "LimitRange", "netpol": "NetworkPolicy",
		"no": "Node", "ns": "Namespace", "pc": "PriorityClass", "pdb": "PodDisruptionBudget", "po": "Pod",
		"pv": "PersistentVolume", "pvc": "PersistentVolumeClaim", "quota": "ResourceQuota", "rc": "ReplicationController",
		"rs": "ReplicaSet", "sa": "ServiceAccount", "sc": "StorageClass", "sts": "StatefulSet", "svc": "Service",
	}
}
