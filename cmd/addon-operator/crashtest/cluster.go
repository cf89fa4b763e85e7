package crashtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// goneWithin is the time limit for restoring the cluster after a round.
const goneWithin = 2 * time.Minute

// givenCluster is a cluster of the user in which all rounds run, one after the other. After each
// round, the objects of the cluster are restored to their state before the first round.
type givenCluster struct {
	path   string // path of the kubeconfig file that has only the chosen context
	client *client
	before map[thing]kept
}

// kept is an object that was in the cluster before the first round.
type kept struct {
	resource resource
	object   *unstructured.Unstructured
}

// newGivenCluster returns the cluster that a context of the kubeconfig file names. newGivenCluster writes a kubeconfig
// file with only this context to path. newGivenCluster returns an error if the namespace exists in the cluster.
func newGivenCluster(ctx context.Context, file, contextName, namespace, path string) (*givenCluster, error) {
	raw, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: file}, &clientcmd.ConfigOverrides{CurrentContext: contextName}).RawConfig()
	if err != nil {
		return nil, fmt.Errorf("--kube-config: %w", err)
	}
	if contextName != "" {
		raw.CurrentContext = contextName
	}
	if raw.Contexts[raw.CurrentContext] == nil {
		return nil, fmt.Errorf("--kube-config %s has no context %q: name one with --kube-context", file, raw.CurrentContext)
	}
	if err := api.FlattenConfig(&raw); err != nil {
		return nil, fmt.Errorf("--kube-config: %w", err)
	}
	if err := clientcmd.WriteToFile(raw, path); err != nil {
		return nil, err
	}
	g := &givenCluster{path: path, before: map[thing]kept{}}
	if g.client, err = connect(path); err != nil {
		return nil, err
	}
	objects, err := g.client.objects(ctx)
	if err != nil {
		return nil, err
	}
	for r, list := range objects {
		for _, o := range list {
			g.before[g.identify(r, o)] = kept{r, o}
		}
	}
	if _, exists := g.before[thing{Kind: namespaces.GroupResource().String(), Name: namespace}]; exists {
		return nil, fmt.Errorf("the cluster already has namespace %s: name another with --namespace, or delete it", namespace)
	}
	return g, nil
}

// identify returns the key under which g.before stores the object o. The argument r must be the resource of o.
func (g *givenCluster) identify(r resource, o *unstructured.Unstructured) thing {
	return thing{r.GroupResource().String(), o.GetNamespace(), o.GetName()}
}

func (g *givenCluster) acquire(context.Context, string) (plane, error) { return g, nil }

func (g *givenCluster) kubeconfig() string { return g.path }

// at returns a client for the resource r, in the namespace of o if r is namespaced.
func (g *givenCluster) at(r resource, o *unstructured.Unstructured) dynamic.ResourceInterface {
	if r.namespaced {
		return g.client.dynamic.Resource(r.GroupVersionResource).Namespace(o.GetNamespace())
	}
	return g.client.dynamic.Resource(r.GroupVersionResource)
}

// release deletes the objects that did not exist before the first round, and restores the objects
// that are missing or differ. It ignores objects for which isIgnored returns true, and does not
// restore objects for which isCompared returns false. release returns when the cluster is restored,
// and returns an error if that takes longer than goneWithin.
func (g *givenCluster) release(ctx context.Context) error {
	for deadline := time.Now().Add(goneWithin); ; {
		left, err := g.restore(ctx)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			slices.Sort(left)
			return fmt.Errorf("the cluster is not as before after %s: %s; look at the finalizers of these objects", goneWithin, strings.Join(left, ", "))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// isIgnored reports whether o stays after a round even if it is new.
func isIgnored(o *unstructured.Unstructured) bool {
	return !isCompared(o) && !isRelease(o) && !isTemporary(o)
}

// restore requests the changes that restore the cluster, and returns the objects that still differ.
func (g *givenCluster) restore(ctx context.Context) (left []string, err error) {
	objects, err := g.client.objects(ctx)
	if err != nil {
		return nil, err
	}
	present := map[thing]bool{}
	for r, list := range objects {
		for _, o := range list {
			at := g.identify(r, o)
			present[at] = true
			if isIgnored(o) {
				continue
			}
			before, known := g.before[at]
			switch {
			case !known:
				left = append(left, at.String())
				err = g.remove(ctx, r, o)
			case isCompared(o) && fieldsOf(o, false).text() != fieldsOf(before.object, false).text():
				left = append(left, at.String())
				err = g.change(ctx, r, o, before.object)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	for at, before := range g.before {
		if present[at] || !isCompared(before.object) {
			continue
		}
		left = append(left, at.String())
		o := before.object.DeepCopy()
		o.SetResourceVersion("")
		o.SetUID("")
		if _, err := g.at(before.resource, o).Create(ctx, o, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create %s again: %w", at, err)
		}
	}
	return left, nil
}

// remove deletes an object and its dependents.
func (g *givenCluster) remove(ctx context.Context, r resource, o *unstructured.Unstructured) error {
	if o.GetDeletionTimestamp() != nil {
		return nil
	}
	background := metav1.DeletePropagationBackground
	err := g.at(r, o).Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s: %w", r.kind, o.GetName(), err)
	}
	return nil
}

// change restores the previous content of an object.
func (g *givenCluster) change(ctx context.Context, r resource, o, before *unstructured.Unstructured) error {
	restored := before.DeepCopy()
	restored.SetResourceVersion(o.GetResourceVersion())
	restored.SetUID(o.GetUID())
	restored.SetManagedFields(nil)
	_, err := g.at(r, o).Update(ctx, restored, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("change %s %s back: %w", r.kind, o.GetName(), err)
	}
	return nil
}
