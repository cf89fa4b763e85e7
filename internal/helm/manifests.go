package helm

import (
	"context"
	"fmt"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// revisions decodes all revisions of a release that has some, the newest first.
func (c *Client) revisions(name string) ([]*release.Release, error) {
	decoded, err := c.records.storage(c.historyMax).History(name)
	if err != nil {
		return nil, fmt.Errorf("read the revisions: %w", err)
	}
	if len(decoded) == 0 {
		return nil, fmt.Errorf("none of its revisions can be decoded: look after its objects by hand, then delete the %ss "+
			"sh.helm.release.v1.%s.v* in namespace %s", c.records.kind, name, c.namespace)
	}
	releaseutil.Reverse(decoded, releaseutil.SortByRevision)
	return decoded, nil
}

// forgetGone reads the kinds that the cluster serves, and removes objects of other kinds from the manifests in the
// release's record. Helm cannot process such a manifest. Otherwise a release could not be upgraded or uninstalled after
// one of its CRDs was deleted, or after Kubernetes dropped an old version of an API. If an API service only does not
// respond, nothing is removed.
func (c *Client) forgetGone(ctx context.Context, name string) error {
	if err := c.Refresh(ctx); err != nil {
		return err
	}
	if found, err := c.records.of(ctx, name); err != nil || len(found) == 0 {
		return err
	}
	revisions, err := c.revisions(name)
	if err != nil {
		return err
	}
	for _, r := range revisions {
		forgotten, err := c.withoutGone(ctx, r)
		if err != nil || forgotten == 0 {
			return err
		}
		c.log("release %q: forget %d objects of revision %d, as the cluster does not serve their kinds any more", name, forgotten, r.Version)
		if err := c.records.storage(c.historyMax).Update(r); err != nil {
			return fmt.Errorf("write revision %d: %w", r.Version, err)
		}
	}
	return nil
}

// withoutGone takes the objects out of one revision's manifest and returns how many.
func (c *Client) withoutGone(ctx context.Context, r *release.Release) (int, error) {
	nodes, err := read(r.Manifest)
	if err != nil {
		return 0, fmt.Errorf("read the manifest of revision %d: %w", r.Version, err)
	}
	var served []*yaml.RNode
	for _, n := range nodes {
		if !c.cluster.gone(ctx, n.GetApiVersion(), n.GetKind()) {
			served = append(served, n)
		}
	}
	if len(served) == len(nodes) {
		return 0, nil
	}
	r.Manifest, err = kio.StringAll(served)
	return len(nodes) - len(served), err
}

// gather makes the newest revision's manifest hold all objects that the release may have. Helm uninstalls what is in
// that manifest: when the revision was not applied to its end, objects of the one before it that it drops would
// stay for ever.
func (c *Client) gather(name string) error {
	revisions, err := c.revisions(name)
	if err != nil {
		return err
	}
	newest := revisions[0]
	for _, r := range revisions[1:] {
		if r.Info.Status != release.StatusDeployed {
			continue
		}
		manifest, added, err := union(newest.Manifest, r.Manifest)
		if err != nil {
			return fmt.Errorf("read the manifests of revisions %d and %d: %w", newest.Version, r.Version, err)
		}
		if added == 0 {
			continue
		}
		newest.Manifest = manifest
		if err := c.records.storage(c.historyMax).Update(newest); err != nil {
			return fmt.Errorf("write revision %d: %w", newest.Version, err)
		}
	}
	return nil
}

// union returns a manifest with those objects of another that it does not name, and how many these are.
func union(manifest, other string) (string, int, error) {
	nodes, err := read(manifest)
	if err != nil {
		return "", 0, err
	}
	more, err := read(other)
	if err != nil {
		return "", 0, err
	}
	named := make(map[Object]bool)
	for _, n := range nodes {
		named[identity(n)] = true
	}
	before := len(nodes)
	for _, n := range more {
		if !named[identity(n)] {
			nodes = append(nodes, n)
		}
	}
	text, err := kio.StringAll(nodes)
	return text, len(nodes) - before, err
}

// identity names an object whatever version of its group it is written in.
func identity(n *yaml.RNode) Object {
	group := schema.FromAPIVersionAndKind(n.GetApiVersion(), n.GetKind()).Group
	return Object{APIVersion: group, Kind: n.GetKind(), Namespace: n.GetNamespace(), Name: n.GetName()}
}
