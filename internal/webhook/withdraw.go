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

// Withdraw deletes the webhook configurations of a stopped operator in namespace, so that the API server sends no more
// admission requests to the operator. It returns the kinds and names of the deleted configurations. It keeps conversion
// webhooks, because without them, the API server would return stored objects in another version without a conversion.
// The registrar of a running operator would create the configurations again; see [Endpoint.Withdraw].
func Withdraw(ctx context.Context, client *kube.Client, namespace string) (deleted []string, err error) {
	found, errs := listConfigurations(ctx, client, namespace)
	deleted, err = found.remove(ctx, client)
	return deleted, errors.Join(errs, err)
}

// Withdraw deletes the webhook configurations of the running operator, like the function [Withdraw]. If it succeeds,
// the operator creates no other configurations until the process ends. If it returns an error, the operator creates the
// deleted configurations again, unless an earlier call of Withdraw has succeeded. The endpoint continues to answer
// requests.
func (g *Endpoint) Withdraw(ctx context.Context) (deleted []string, err error) {
	g.withdrawing.Lock()
	defer g.withdrawing.Unlock()
	// List before the call of setWithdrawn, because after that call, the registrar also deletes configurations.
	client, namespace := g.options.Registrar.Client, g.options.Registrar.Namespace
	before, errs := listConfigurations(ctx, client, namespace)
	was := g.registrar.setWithdrawn(true)
	defer func() {
		if err != nil {
			g.registrar.setWithdrawn(was)
		}
	}()
	if err := g.registrar.awaitReconcile(ctx); err != nil {
		return nil, err
	}
	after, err := listConfigurations(ctx, client, namespace) // finds the configurations that were written meanwhile
	errs = errors.Join(errs, err)
	deleted, err = before.and(after).remove(ctx, client)
	return deleted, errors.Join(errs, err)
}

// configurations are webhook configurations in the cluster, by kind.
type configurations map[string][]metav1.PartialObjectMetadata

// listConfigurations returns the webhook configurations of the operator in namespace. If it cannot list the
// configurations of one kind, it returns an error and the configurations of the other kind.
func listConfigurations(ctx context.Context, client *kube.Client, namespace string) (found configurations, err error) {
	found = configurations{}
	for _, kind := range []admissionKind{validating, mutating} {
		listed, listErr := client.Metadata().Resource(kind.resource).List(ctx, metav1.ListOptions{LabelSelector: ownerLabel + "=" + namespace})
		if listErr != nil {
			err = errors.Join(err, fmt.Errorf("list %s: %w", kind.resource.Resource, listErr))
			continue
		}
		found[kind.kind] = listed.Items
	}
	return found, err
}

// and returns the configurations of c and of other.
func (c configurations) and(other configurations) configurations {
	all := configurations{}
	for _, kind := range []admissionKind{validating, mutating} {
		all[kind.kind] = slices.Concat(c[kind.kind], other[kind.kind])
	}
	return all
}

// remove deletes the configurations c, and returns the kinds and names of those that do not exist any more.
func (c configurations) remove(ctx context.Context, client *kube.Client) (deleted []string, err error) {
	for _, kind := range []admissionKind{validating, mutating} {
		for _, o := range c[kind.kind] {
			uid, named := o.GetUID(), kind.kind+" "+o.Name
			failed := client.Metadata().Resource(kind.resource).Delete(ctx, o.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
			switch {
			case failed != nil && !apierrors.IsNotFound(failed):
				err = errors.Join(err, fmt.Errorf("delete %s: %w", named, failed))
			case !slices.Contains(deleted, named):
				deleted = append(deleted, named)
			}
		}
	}
	return deleted, err
}
