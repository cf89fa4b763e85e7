package kube

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AwaitResource waits until the API server serves the resource with this plural name in apiVersion. If the function
// ready is not nil, AwaitResource also waits until ready returns true for the resource. There is no event for a new
// resource. So AwaitResource asks the API server at once, and then again after delays that grow from 50 ms. If the API
// server refuses the request for another reason than "not found", AwaitResource returns that error. If ctx ends first,
// the error contains the cause of its end and the result of the last request.
func (c *Client) AwaitResource(ctx context.Context, apiVersion, plural string, ready func(metav1.APIResource) bool) error {
	var again retry
	for {
		missing := errors.New("not served yet")
		list, err := c.resources(ctx, apiVersion)
		if err != nil {
			missing = err
			if IsRefused(err) && !apierrors.IsNotFound(err) {
				return err
			}
			list = &metav1.APIResourceList{}
		}
		for _, r := range list.APIResources {
			if r.Name != plural {
				continue
			}
			if ready == nil || ready(r) {
				return nil
			}
			missing = errors.New("the changed definition is not served yet")
		}
		again.pause(ctx, missing, nil)
		if ctx.Err() != nil {
			return fmt.Errorf("the API server does not serve %s of %s: %w", plural, apiVersion, errors.Join(missing, context.Cause(ctx)))
		}
	}
}
