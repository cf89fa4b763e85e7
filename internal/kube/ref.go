package kube

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errNoNamespace means that a [Ref] has no namespace although its kind is namespaced.
var errNoNamespace = errors.New("its kind is namespaced, but no namespace is given")

// Ref names one object.
type Ref struct {
	APIVersion string
	Kind       string
	// Namespace is empty only if the kind is not namespaced.
	Namespace string
	Name      string
}

// String returns "kind.apiVersion namespace/name".
func (r Ref) String() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	return fmt.Sprintf("%s.%s %s", r.Kind, r.APIVersion, name)
}

// sourceOf returns the source that contains the object ref. The source has no label selector. sourceOf calls resolve
// to find the kind of the object.
func sourceOf(ctx context.Context, resolve func(ctx context.Context, apiVersion, name string) (Kind, error), ref Ref) (Source, error) {
	kind, err := resolve(ctx, ref.APIVersion, ref.Kind)
	if err != nil {
		return Source{}, fmt.Errorf("find %s: %w", ref, err)
	}
	if kind.Namespaced && ref.Namespace == "" {
		return Source{}, fmt.Errorf("find %s: %w", ref, errNoNamespace)
	}
	return plan{}.sources(kind, []string{ref.Namespace})[0], nil
}

// exists asks the API server whether the object ref, which is in source, exists.
func (c *Client) exists(ctx context.Context, source Source, ref Ref) (bool, error) {
	_, err := c.identify(ctx, source.path()+"/"+ref.Name)
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return false, nil
	default: // includes status 404 for an unknown path, which means that the kind is not served
		return false, fmt.Errorf("find %s: %w", ref, err)
	}
}
