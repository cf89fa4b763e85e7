package helm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	kubeobjects "addon-operator/internal/kube"
)

// gatherUnfinished extends the manifest with which Helm compares the new manifest: it adds the objects that unfinished
// revisions have created. Without this, an upgrade would not delete the objects that only a failed or killed upgrade
// has created. gatherUnfinished must be called before the plan p removes revisions. If p removes all revisions,
// gatherUnfinished does nothing: see deleteUnfinished.
func (c *Client) gatherUnfinished(ctx context.Context, name string, p plan) error {
	if !p.gather {
		return nil
	}
	revisions, err := c.manifests.decoded(name)
	if err != nil {
		return err
	}
	base := baseOf(revisions, p.remove)
	if base == nil {
		return nil // the next step is an install, or returns an error because the other revisions cannot be decoded
	}
	created, err := c.createdByUnfinished(ctx, name, revisions, base.Manifest)
	if err != nil || len(created) == 0 {
		return err
	}
	err = c.manifests.extend(base, created)
	if isTooLong(err) {
		c.log("release %q: %d objects that a failed upgrade has created will not be deleted, because they do not fit into the record of revision %d",
			name, len(created), base.Version)
		return nil
	}
	return err
}

// deleteUnfinished deletes the objects that unfinished revisions have created and that are not in manifest. It must be
// called before an install, because Helm compares the manifest of an install with nothing. The argument manifest must
// be that of the install, because a chart can render other objects for an upgrade. Like an upgrade, deleteUnfinished
// keeps objects that belong to another release.
func (c *Client) deleteUnfinished(ctx context.Context, config *rest.Config, name, manifest string) error {
	revisions, err := c.manifests.decoded(name)
	if err != nil {
		return err
	}
	created, err := c.createdByUnfinished(ctx, name, revisions, manifest)
	if err != nil || len(created) == 0 {
		return err
	}
	text, err := kio.StringAll(created)
	if err != nil {
		return fmt.Errorf("write the objects of a killed install: %w", err)
	}
	objects := c.actions.objects(ctx, config, name)
	list, err := objects.Build(strings.NewReader(text), false)
	if err != nil {
		return fmt.Errorf("read the objects of a killed install: %w", err)
	}
	return objects.deleteDropped(list, &kube.Result{})
}

// createdByUnfinished returns the objects that unfinished revisions have created and that are not in manifest.
func (c *Client) createdByUnfinished(ctx context.Context, name string, revisions []*release.Release, manifest string) ([]*yaml.RNode, error) {
	known, err := c.manifests.names(manifest)
	if err != nil {
		return nil, fmt.Errorf("read the manifest of release %q: %w", name, err)
	}
	return c.manifests.created(ctx, name, known, unfinished(revisions))
}

// baseOf returns the revision with which Helm compares the new manifest of an upgrade: the newest deployed one, or the
// newest one if none is deployed. It ignores the revisions in killed, and returns nil if there is no other. The
// revisions are sorted newest first.
func baseOf(revisions []*release.Release, killed []record) *release.Release {
	left := slices.DeleteFunc(slices.Clone(revisions), func(r *release.Release) bool {
		return slices.ContainsFunc(killed, func(k record) bool { return k.revision == r.Version })
	})
	deployed := slices.IndexFunc(left, func(r *release.Release) bool { return r.Info.Status == release.StatusDeployed })
	switch {
	case len(left) == 0:
		return nil
	case deployed >= 0:
		return left[deployed]
	default:
		return left[0]
	}
}

// unfinished returns the revisions that may have objects of their own in the cluster: the newest revision that was once
// deployed, and all newer ones. The upgrade to the deployed one has deleted the objects that only an older revision
// has. The revisions are sorted newest first.
func unfinished(revisions []*release.Release) []*release.Release {
	for i, r := range revisions {
		if r.Info.Status == release.StatusDeployed || r.Info.Status == release.StatusSuperseded {
			return revisions[:i+1]
		}
	}
	return revisions
}

// created returns those objects of the revisions that exist, belong to the release, may be deleted, and are not in
// known. If the API server does not serve the API version of an object any more, the object gets another API version of
// its kind. An object that does not belong to the release is left out, even if the manifest of a failed revision contains
// it: the failed upgrade has not created it, or another release has taken it over.
func (m manifests) created(ctx context.Context, name string, known map[Object]bool, revisions []*release.Release) ([]*yaml.RNode, error) {
	var all []*yaml.RNode
	for _, r := range revisions {
		more, err := m.lacking(known, r)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	ours := make([]bool, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookups)
	for i, n := range all {
		group.Go(func() (err error) {
			o := named(n)
			version := m.cluster.servedVersion(ctx, o.APIVersion, o.Kind)
			if version == "" {
				return nil
			}
			if version != o.APIVersion {
				o.APIVersion = version
				n.SetApiVersion(version)
			}
			ours[i], err = m.belongs(ctx, name, o)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var found []*yaml.RNode
	for i, n := range all {
		if ours[i] {
			found = append(found, n)
		}
	}
	return found, nil
}

// belongs reports whether the object exists, has the annotations of the release, and may be deleted. An upgrade keeps
// an object with the resource policy "keep", even if a person has set this annotation and the chart has not. If the API
// server does not serve the kind of the object, belongs returns false. If it stopped serving the API version after the
// kinds were read, meta.IsNoMatchError returns true for the error.
func (m manifests) belongs(ctx context.Context, name string, o Object) (bool, error) {
	mapping, err := m.cluster.mapping(ctx, o.APIVersion, o.Kind)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s of %s: %w", o, o.APIVersion, err)
	}
	switch {
	case mapping.Scope.Name() == meta.RESTScopeNameRoot:
		o.Namespace = ""
	case o.Namespace == "":
		o.Namespace = m.namespace
	}
	live, err := m.metadata.Resource(mapping.Resource).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		if _, err = m.cluster.absent(ctx, mapping, err); err != nil {
			err = fmt.Errorf("look for %s of %s: %w", o, o.APIVersion, err)
		}
		return false, err
	}
	owner, namespace := kubeobjects.ReleaseIn(live.Annotations)
	return owner == name && namespace == m.namespace && !keepsItself(live.Annotations), nil
}
