package crd

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// errNames means that another CustomResourceDefinition in the cluster already has the names of the definition.
var errNames = errors.New("another definition has its names")

// established waits until the condition Established of the definition o is true. If it is already true in o,
// established sends no request.
func (i *Installer) established(ctx context.Context, o *unstructured.Unstructured) error {
	if done, err := isEstablished(o); done || err != nil {
		return err
	}
	selector := "metadata.name=" + o.GetName()
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			return i.crds.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return i.crds.Watch(ctx, options)
		},
	}
	_, err := watchtools.UntilWithSync(ctx, source, &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		seen, isObject := e.Object.(*unstructured.Unstructured)
		if !isObject || e.Type == watch.Deleted {
			return false, errors.New("it was deleted during the wait")
		}
		return isEstablished(seen)
	})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("it was not established within %s: see its status.conditions", establishWithin)
	}
	return err
}

// isEstablished reports whether the condition Established of a definition is true. If the API server has rejected the
// names of the definition, isEstablished returns an error.
func isEstablished(o *unstructured.Unstructured) (bool, error) {
	conditions, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions")
	list, _ := conditions.([]any) // null at first
	established := false
	for _, each := range list {
		condition, _ := each.(map[string]any)
		switch {
		case condition["type"] == "NamesAccepted" && condition["status"] == "False":
			return false, fmt.Errorf("%w: %v; rename it, or remove the other definition", errNames, condition["message"])
		case condition["type"] == "Established" && condition["status"] == "True":
			established = true
		}
	}
	return established, nil
}
