package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AwaitResource waits until the API server serves the resource with this plural name in apiVersion. The last argument
// is an optional condition: if this function is not nil, AwaitResource also waits until it returns true for the
// resource. There is no event for a new resource. So AwaitResource asks the API server at once, and then again after
// delays that grow from 50 ms. If the API server refuses the request for another reason than "not found", AwaitResource
// returns that error. If ctx ends, the error also says which condition was not met.
func (c *Client) AwaitResource(ctx context.Context, apiVersion, plural string, as func(metav1.APIResource) bool) error {
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
			if as == nil || as(r) {
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

// isServed reports whether the API server serves the resource of source in any version of its group. It uses no cache.
// If the API server does not answer for one of the versions, isServed returns an error. An example is an extension API
// server that is unavailable: its objects may still exist.
func (c *Client) isServed(ctx context.Context, source Source) (bool, error) {
	if source.Group == "" {
		return true, nil // every API server serves these resources
	}
	text, err := read(c.get("/apis/"+source.Group, "").Do(ctx))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("request the versions of %s: %w", source.Group, err)
	}
	var group metav1.APIGroup
	if err := json.Unmarshal(text, &group); err != nil {
		return false, fmt.Errorf("parse the versions of %s: %w", source.Group, err)
	}
	for _, version := range group.Versions {
		list, err := c.resources(ctx, version.GroupVersion)
		if err != nil {
			return false, err // even "not found", because the group announces the version
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == source.Resource }) {
			return true, nil
		}
	}
	return false, nil
}

// isGone reports whether source cannot have objects any more, because its namespace does not exist or its resource is
// not served. If an answer of the API server is missing, isGone returns an error.
func (c *Client) isGone(ctx context.Context, source Source) (bool, error) {
	if source.Namespace != "" {
		// a list instead of a get, because a monitor that selects namespaces by labels needs the permission to list them
		namespace := Source{Version: "v1", Resource: "namespaces", Names: source.Namespace}
		exists := false
		if _, err := c.list(ctx, namespace, true, newestVersion, func() { exists = false }, func(json.RawMessage) error {
			exists = true
			return nil
		}); err != nil {
			return false, fmt.Errorf("find namespace %s: %w", source.Namespace, err)
		}
		if !exists {
			return true, nil
		}
	}
	served, err := c.isServed(ctx, source)
	return err == nil && !served, err
}
