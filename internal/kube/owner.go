package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ReleaseIn returns the name and the namespace of the Helm release to which an object with these annotations belongs.
// Helm sets these annotations in all objects of a release. If the object belongs to no release, name and namespace are
// empty.
func ReleaseIn(annotations map[string]string) (name, namespace string) {
	return annotations["meta.helm.sh/release-name"], annotations["meta.helm.sh/release-namespace"]
}

// longestOwners is the maximum number of objects that are read in a chain of owners, including the pod. A usual chain
// has three objects: pod, ReplicaSet and Deployment.
const longestOwners = 8

// ScaledToZero reports whether the workload of a pod was deleted or scaled to zero replicas. The workload is the last
// object in the chain of controllers that begins at the pod. If the pod does not exist or has no controller,
// ScaledToZero returns false.
func (c *Client) ScaledToZero(ctx context.Context, namespace, pod string) (zero bool, err error) {
	get := func(resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
		return c.Dynamic().Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	depth := 0
	gone, err := controllers(c, pod, get, func(o *unstructured.Unstructured) (bool, error) {
		if metav1.GetControllerOf(o) != nil {
			depth++
			return false, nil
		}
		replicas, found, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
		zero = depth > 0 && (o.GetDeletionTimestamp() != nil || found && replicas == 0)
		return true, err
	})
	if gone {
		return depth > 0, nil
	}
	if err != nil {
		return zero, fmt.Errorf("find out whether pod %s/%s is scaled to zero: %w", namespace, pod, err)
	}
	return zero, nil
}

// ReleaseOf returns the name of the Helm release to which a pod belongs. The argument namespace is the namespace of
// the pod, and the argument releases is the namespace of the release. If the pod itself does not belong to a release,
// ReleaseOf reads the chain of controllers of the pod, and returns the release of the first controller that belongs to
// a release. ReleaseOf ignores releases in other namespaces. The name is empty if there is no such release. The result
// exists is false if the pod does not exist. ReleaseOf sends one request for the pod, and one for each controller that
// it reads.
func (c *Client) ReleaseOf(ctx context.Context, namespace, pod, releases string) (release string, exists bool, err error) {
	get := func(resource schema.GroupVersionResource, name string) (*metav1.PartialObjectMetadata, error) {
		return c.Metadata().Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	gone, err := controllers(c, pod, get, func(o *metav1.PartialObjectMetadata) (bool, error) {
		exists = true
		if name, in := ReleaseIn(o.Annotations); in == releases {
			release = name
		}
		return release != "", nil
	})
	if gone || meta.IsNoMatchError(err) {
		return "", exists, nil // the pod does not exist, or the chain ends at a controller that does not exist or has an unknown kind
	}
	if err != nil {
		return "", exists, fmt.Errorf("find the release of pod %s/%s: %w", namespace, pod, err)
	}
	return release, exists, nil
}

// controllers reads a pod and then its chain of controllers, and calls visit with each object until visit returns true.
// If an object of the chain does not exist, the result gone is true.
func controllers[O metav1.Object](c *Client, pod string, get func(schema.GroupVersionResource, string) (O, error), visit func(O) (bool, error)) (gone bool, err error) {
	kind, name := schema.FromAPIVersionAndKind("v1", "Pod"), pod
	for range longestOwners {
		mapping, err := c.Mapper().RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return false, fmt.Errorf("look up kind %s: %w", kind.Kind, err)
		}
		o, err := get(mapping.Resource, name)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("read %s %s: %w", kind.Kind, name, err)
		}
		if done, err := visit(o); done || err != nil {
			return false, err
		}
		owner := metav1.GetControllerOf(o)
		if owner == nil {
			return false, nil
		}
		kind, name = schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind), owner.Name
	}
	return false, nil
}
