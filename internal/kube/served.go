package kube

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AwaitResource returns when the API server says that it serves the resource, a plural name, in a group and version, and
// as tells that it is as it should be; as may be nil. A kind that was just defined is there a moment later: it is looked
// for again after 50 ms, then less and less often, as nothing tells when it is. The error, when ctx ends, says what was
// seen last.
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
