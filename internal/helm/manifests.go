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

// manifests corrects the manifests in the records of releases, so that Helm can process them.
type manifests struct {
	records    *records
	cluster    *cluster
	namespace  string
	historyMax int
	log        func(format string, args ...any)
}

// revisions decodes all revisions of a release that has some, the newest first.
func (m manifests) revisions(name string) ([]*release.Release, error) {
	decoded, err := m.records.storage(m.historyMax).History(name)
	if err != nil {
		return nil, fmt.Errorf("read the revisions: %w", err)
	}
	if len(decoded) == 0 {
		return nil, fmt.Errorf("none of its revisions can be decoded: look after its objects by hand, then delete the %ss "+
			"sh.helm.release.v1.%s.v* in namespace %s", m.records.kind, name, m.namespace)
	}
	releaseutil.Reverse(decoded, releaseutil.SortByRevision)
	return decoded, nil
}

// forgetGone reads the kinds that the cluster serves, and removes objects of other kinds from the manifests in the
// release's record. Helm cannot process such a manifest. Otherwise a release could not be upgraded or uninstalled after
// one of its CRDs was deleted, or after Kubernetes dropped an old version of an API. If an API service only does not
// respond, nothing is removed.
func (m manifests) forgetGone(ctx context.Context, name string) error {
	if err := m.cluster.refresh(ctx); err != nil {
		return err
	}
	if found, err := m.records.of(ctx, name); err != nil || len(found) == 0 {
		return err
	}
	revisions, err := m.revisions(name)
	if err != nil {
		return err
	}
	for _, r := range revisions {
		forgotten, err := m.withoutGone(ctx, r)
		if err != nil || forgotten == 0 {
			return err
		}
		m.log("release %q: forget %d objects of revision %d, as the cluster does not serve their kinds any more", name, forgotten, r.Version)
		if err := m.records.storage(m.historyMax).Update(r); err != nil {
			return fmt.Errorf("write revision %d: %w", r.Version, err)
		}
	}
	return nil
}

// withoutGone removes the objects of kinds that are not served from the manifest of one revision, and returns their number.
func (m manifests) withoutGone(ctx context.Context, r *release.Release) (int, error) {
	nodes, err := read(r.Manifest)
	if err != nil {
		return 0, fmt.Errorf("read the manifest of revision %d: %w", r.Version, err)
	}
	var served []*yaml.RNode
	for _, n := range nodes {
		if !m.cluster.gone(ctx, n.GetApiVersion(), n.GetKind()) {
			served = append(served, n)
		}
	}
	if len(served) == len(nodes) {
		return 0, nil
	}
	r.Manifest, err = kio.StringAll(served)
	return len(nodes) - len(served), err
}

// gather adds to the manifest of the newest revision all objects that the release may have. Helm
// uninstalls the objects of that manifest. If the revision was not applied completely, objects that
// only the previous revision has would stay forever.
func (m manifests) gather(name string) error {
	revisions, err := m.revisions(name)
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
		if err := m.records.storage(m.historyMax).Update(newest); err != nil {
			return fmt.Errorf("write revision %d: %w", newest.Version, err)
		}
	}
	return nil
}

// union returns a manifest with the objects that only another one has, and their number.
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

// identity returns the identity of an object, which does not depend on the version of its group.
func identity(n *yaml.RNode) Object {
	group := schema.FromAPIVersionAndKind(n.GetApiVersion(), n.GetKind()).Group
	return Object{APIVersion: group, Kind: n.GetKind(), Namespace: n.GetNamespace(), Name: n.GetName()}
}
