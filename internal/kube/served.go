package kube

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AwaitResource returns when the API server serves the resource, a plural name, in a group and
// version, and as returns true for it; as may be nil. No event announces a new resource, so
// AwaitResource asks after 50 ms and then with growing delays. When ctx ends, the error includes
// the last result.
func (c *Client) AwaitResource(ctx context.Context, apiVersion, plural string, as func(metav1.APIResource) bool) error {
	var again retry
	for {
		missing := errors.New("it is not there yet")
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
			if as == nil || as(r) {
				return nil
			}
			missing = errors.New("it is there as it was before")
		}
		again.pause(ctx, missing, nil)
		if ctx.Err() != nil {
			return fmt.Errorf("the API server does not serve %s of %s: %w", plural, apiVersion, errors.Join(missing, context.Cause(ctx)))
		}
	}
}
