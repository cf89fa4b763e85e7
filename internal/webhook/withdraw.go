package webhook

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/internal/kube"
)

// Withdraw deletes the webhook configurations of the operator in namespace, so that the API server no longer sends it
// admission requests, and returns their kinds and names. Conversions stay: without them, objects would be read in a version
// that they were not written in. Before the first deletion, it calls unregister, if set: a running operator passes
// [Gate.Withdraw], or it would make them again.
func Withdraw(ctx context.Context, client *kube.Client, namespace string, unregister func()) (deleted []string, err error) {
	ours := metav1.ListOptions{LabelSelector: ownerLabel + "=" + namespace}
	var errs []error
	found := map[string]*metav1.PartialObjectMetadataList{}
	kinds := []admissionKind{validating, mutating}
	for _, kind := range kinds {
		list, err := client.Metadata().Resource(kind.resource).List(ctx, ours)
		if err != nil {
			errs = append(errs, fmt.Errorf("list %s: %w", kind.resource.Resource, err))
			continue
		}
		found[kind.kind] = list
	}
	if unregister != nil {
		unregister()
	}
	for _, kind := range kinds {
		if found[kind.kind] == nil {
			continue
		}
		for _, o := range found[kind.kind].Items {
			uid := o.GetUID()
			err := client.Metadata().Resource(kind.resource).Delete(ctx, o.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
			if err != nil && !apierrors.IsNotFound(err) { // the registrar may have been faster
				errs = append(errs, fmt.Errorf("delete %s %s: %w", kind.kind, o.Name, err))
				continue
			}
			deleted = append(deleted, kind.kind+" "+o.Name)
		}
	}
	return deleted, errors.Join(errs...)
}
