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

// ReleaseIn returns the Helm release that an object with these annotations belongs to, by those that Helm writes on all
// objects of a release. Both are empty if it belongs to none.
func ReleaseIn(annotations map[string]string) (name, namespace string) {
	return annotations["meta.helm.sh/release-name"], annotations["meta.helm.sh/release-namespace"]
}

// longestOwners bounds how many owners of a pod are looked at. Three is usual: pod, ReplicaSet, Deployment.
const longestOwners = 8

// ScaledToZero reports whether the workload of a pod, which is the topmost object that controls it, has been deleted or
// scaled to zero replicas. It is false for a pod that does not exist or has no owner.
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

// ReleaseOf returns the name of the Helm release in namespace that a pod there belongs to, itself or by an object that
// controls it. It is empty where the pod belongs to none, or does not exist. It costs a request for each of these objects.
func (c *Client) ReleaseOf(ctx context.Context, namespace, pod string) (release string, err error) {
	get := func(resource schema.GroupVersionResource, name string) (*metav1.PartialObjectMetadata, error) {
		return c.Metadata().Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	gone, err := controllers(c, pod, get, func(o *metav1.PartialObjectMetadata) (bool, error) {
		if name, in := ReleaseIn(o.Annotations); in == namespace {
			release = name
		}
		return release != "", nil
	})
	if gone || meta.IsNoMatchError(err) {
		return "", nil // an owner that is gone, or of a kind that is, controls nothing
	}
	if err != nil {
		return "", fmt.Errorf("find the release of pod %s/%s: %w", namespace, pod, err)
	}
	return release, nil
}

// controllers reads a pod, the object that controls it, the one that controls that, and so on, and calls visit with each
// until it returns true. It reports whether the next of these objects does not exist.
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
