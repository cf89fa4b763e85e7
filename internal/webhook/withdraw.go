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
// sends no more admission requests to the operator. It returns the kinds and names of the deleted
// configurations. It keeps conversion webhooks, because without them, the API server would return
// stored objects in another version without a conversion. If unregister is not nil, Withdraw calls
// it before the first deletion. A running operator must pass [Endpoint.Withdraw] as unregister.
// Otherwise its registrar would create the configurations again.
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
	list() // list before the call of unregister, because after this call the registrar also deletes configurations
	if unregister != nil {
		if err := unregister(ctx); err != nil {
			return nil, err
		}
		list() // finds configurations that were written before unregister returned
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
