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

// manifests changes the manifests in the stored revisions of releases, so that Helm can process them.
type manifests struct {
	records    *records
	cluster    *cluster
	namespace  string
	historyMax int
	log        func(format string, args ...any)
}

// revisions returns the revisions of a release that can be decoded, the newest first. The release must have a stored
// revision. If none of its revisions can be decoded, revisions returns an error.
func (m manifests) revisions(name string) ([]*release.Release, error) {
	decoded, err := m.records.storage(m.historyMax).History(name)
	if err != nil {
		return nil, fmt.Errorf("read the revisions: %w", err)
	}
	if len(decoded) == 0 {
		return nil, fmt.Errorf("none of its revisions can be decoded: delete its unneeded objects by hand, then delete the %ss "+
			"sh.helm.release.v1.%s.v* in namespace %s", m.records.kind, name, m.namespace)
	}
	releaseutil.Reverse(decoded, releaseutil.SortByRevision)
	return decoded, nil
}

// forgetGone removes objects of kinds that the API server does not serve from the stored manifests of a release: from
// the newest revision and from each deployed revision. Helm reads only these manifests, and cannot process a manifest
// that has an object of an unserved kind. So without forgetGone, a release could not be upgraded or uninstalled after
// one of its CRDs was deleted, or after Kubernetes removed an old API version. If an API service does not respond, its
// objects stay in the manifests.
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
	for i, r := range revisions {
		if i > 0 && r.Info.Status != release.StatusDeployed {
			continue
		}
		forgotten, err := m.withoutGone(ctx, r)
		if err != nil {
			return err
		}
		if forgotten == 0 {
			continue
		}
		m.log("release %q: removing %d objects from the manifest of revision %d, because the cluster does not serve their kinds", name, forgotten, r.Version)
		if err := m.records.storage(m.historyMax).Update(r); err != nil {
			return fmt.Errorf("write revision %d: %w", r.Version, err)
		}
	}
	return nil
}

// withoutGone removes the objects of kinds that the API server does not serve from r.Manifest, and returns the number
// of removed objects. It does not store r.
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

// gather adds the objects of older deployed revisions to the manifest of the newest revision, and stores the
// result. It must be called before an uninstall: Helm deletes only the objects of the newest revision. So if this
// revision was not applied completely, objects that only an older revision has would stay forever.
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

// union adds the objects that only other contains to manifest. It returns the result and the number of added objects.
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

// identity returns a comparable identity of an object. The field APIVersion of the result has only the API group, so
// that the identity does not change with the version.
func identity(n *yaml.RNode) Object {
	group := schema.FromAPIVersionAndKind(n.GetApiVersion(), n.GetKind()).Group
	return Object{APIVersion: group, Kind: n.GetKind(), Namespace: n.GetNamespace(), Name: n.GetName()}
}
