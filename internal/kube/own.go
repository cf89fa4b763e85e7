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

// Helm writes these annotations on all objects of a release.
const (
	releaseName      = "meta.helm.sh/release-name"
	releaseNamespace = "meta.helm.sh/release-namespace"
)

// longestOwners bounds how many owners of a pod are looked at. Three is usual: pod, ReplicaSet, Deployment.
const longestOwners = 8

// ScaledToZero reports whether the workload of a pod, which is the topmost object that controls it, has been deleted or
// scaled to zero replicas. It is false for a pod that does not exist or has no owner.
func (c *Client) ScaledToZero(ctx context.Context, namespace, pod string) (bool, error) {
	kind, name := schema.FromAPIVersionAndKind("v1", "Pod"), pod
	for depth := range longestOwners {
		mapping, err := c.Mapper().RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return false, fmt.Errorf("look up kind %s: %w", kind.Kind, err)
		}
		o, err := c.Dynamic().Resource(mapping.Resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return depth > 0, nil
		}
		if err != nil {
			return false, fmt.Errorf("read %s %s/%s, to know whether it is scaled to zero: %w", kind.Kind, namespace, name, err)
		}
		owner := metav1.GetControllerOf(o)
		if owner == nil {
			replicas, found, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
			return depth > 0 && (o.GetDeletionTimestamp() != nil || found && replicas == 0), err
		}
		kind, name = schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind), owner.Name
	}
	return false, nil
}

// ReleaseOf returns the name of the Helm release in namespace that a pod there belongs to, itself or by an object that
// controls it. It is empty where the pod belongs to none, or does not exist. It costs a request for each of these objects.
func (c *Client) ReleaseOf(ctx context.Context, namespace, pod string) (string, error) {
	kind, name := schema.FromAPIVersionAndKind("v1", "Pod"), pod
	for range longestOwners {
		mapping, err := c.Mapper().RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			return "", nil // an owner of a kind that is gone controls nothing
		}
		if err != nil {
			return "", fmt.Errorf("look up kind %s: %w", kind.Kind, err)
		}
		o, err := c.Metadata().Resource(mapping.Resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("read %s %s/%s, to know the release it belongs to: %w", kind.Kind, namespace, name, err)
		}
		if release := o.Annotations[releaseName]; release != "" && o.Annotations[releaseNamespace] == namespace {
			return release, nil
		}
		owner := metav1.GetControllerOf(o)
		if owner == nil {
			return "", nil
		}
		kind, name = schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind), owner.Name
	}
	return "", nil
}
