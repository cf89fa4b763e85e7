package helm

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
)

// lookups is the maximum number of concurrent requests for objects of a release.
const lookups = 8

// Missing returns those of the given objects that do not exist in the cluster, in the same order. The result includes
// objects whose kind the API server does not serve. Missing sends one small request for each object of a served kind,
// and changes nothing.
func (c *Client) Missing(ctx context.Context, objects []Object) ([]Object, error) {
	mappings, err := c.cluster.mappings(ctx, objects)
	if err != nil {
		return nil, err
	}
	there := make([]bool, len(objects))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookups)
	for i, o := range objects {
		if mappings[i] == nil {
			continue
		}
		group.Go(func() error {
			var err error
			there[i], err = exists(ctx, c.metadata, mappings[i], o)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var missing []Object
	for i, o := range objects {
		if !there[i] {
			missing = append(missing, o)
		}
	}
	return missing, nil
}

// mappings returns the REST mapping of each object, or nil for an object whose kind the API server does not serve.
// When it finds the first unknown kind, it reads the served kinds again.
func (k *cluster) mappings(ctx context.Context, objects []Object) ([]*meta.RESTMapping, error) {
	mappings := make([]*meta.RESTMapping, len(objects))
	refreshed := false
	for i, o := range objects {
		m, err := k.mapping(ctx, o.APIVersion, o.Kind)
		if meta.IsNoMatchError(err) && !refreshed {
			refreshed = true
			if err := k.refresh(ctx); err != nil {
				return nil, err
			}
			m, err = k.mapping(ctx, o.APIVersion, o.Kind)
		}
		if err != nil && !meta.IsNoMatchError(err) {
			return nil, fmt.Errorf("look for %s of %s: %w", o, o.APIVersion, err)
		}
		mappings[i] = m
	}
	return mappings, nil
}

// exists asks the API server whether the object o exists.
func exists(ctx context.Context, c metadata.Interface, m *meta.RESTMapping, o Object) (bool, error) {
	_, err := c.Resource(m.Resource).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s of %s: %w", o, o.APIVersion, err)
	}
	return true, nil
}
