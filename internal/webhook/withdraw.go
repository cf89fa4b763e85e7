package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/internal/kube"
)

// Withdraw deletes the webhook configurations of the operator in namespace, so that the API server
// no longer sends it admission requests, and returns their kinds and names. Conversions stay:
// without them, objects would be read in a version that they were not written in. Before the first
// deletion, it calls unregister, if set. A running operator must pass [Endpoint.Withdraw], because
// otherwise it would create them again.
func Withdraw(ctx context.Context, client *kube.Client, namespace string, unregister func(context.Context) error) (deleted []string, err error) {
	var errs []error
	found := map[string][]metav1.PartialObjectMetadata{} // by kind
	list := func() {
		for _, kind := range []admissionKind{validating, mutating} {
			listed, err := client.Metadata().Resource(kind.resource).List(ctx, metav1.ListOptions{LabelSelector: ownerLabel + "=" + namespace})
			if err != nil {
				errs = append(errs, fmt.Errorf("list %s: %w", kind.resource.Resource, err))
				continue
			}
			found[kind.kind] = append(found[kind.kind], listed.Items...)
		}
	}
	list() // the registrar also deletes them once they are unregistered
	if unregister != nil {
		if err := unregister(ctx); err != nil {
			return nil, err
		}
		list() // those written in the meantime
	}
	for _, kind := range []admissionKind{validating, mutating} {
		for _, o := range found[kind.kind] {
			uid, named := o.GetUID(), kind.kind+" "+o.Name
			err := client.Metadata().Resource(kind.resource).Delete(ctx, o.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
			switch {
			case err != nil && !apierrors.IsNotFound(err):
				errs = append(errs, fmt.Errorf("delete %s: %w", named, err))
			case !slices.Contains(deleted, named):
				deleted = append(deleted, named)
			}
		}
	}
	return deleted, errors.Join(errs...)
}
