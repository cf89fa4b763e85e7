package helm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// manifests changes the manifests in the stored revisions of releases, so that Helm can process them.
type manifests struct {
	records   *records
	cluster   *cluster
	metadata  metadata.Interface
	namespace string
	log       func(format string, args ...any)
}

// revisions returns the revisions of a release that can be decoded, the newest first. The release must have a stored
// revision. If none of its revisions can be decoded, revisions returns an error.
func (m manifests) revisions(name string) ([]*release.Release, error) {
	decoded, err := m.decoded(name)
	if err != nil {
		return nil, err
	}
	if len(decoded) == 0 {
		return nil, m.undecoded(name)
	}
	return decoded, nil
}

// undecoded returns the error of a release of which no revision can be decoded.
func (m manifests) undecoded(name string) error {
	return fmt.Errorf("none of its revisions can be decoded: delete its unneeded objects by hand, then delete the %ss "+
		"sh.helm.release.v1.%s.v* in namespace %s", m.records.kind, name, m.namespace)
}

// decoded returns the same as revisions, but no error if none of the revisions can be decoded.
func (m manifests) decoded(name string) ([]*release.Release, error) {
	decoded, err := m.records.storage().History(name)
	if err != nil {
		return nil, fmt.Errorf("read the revisions: %w", err)
	}
	releaseutil.Reverse(decoded, releaseutil.SortByRevision)
	return decoded, nil
}

// followKinds changes the stored manifests of a release to the kinds that the API server serves now: in the newest
// revision and in each deployed revision. Helm reads only these manifests, and cannot process a manifest that has an
// object of an unserved kind or API version. So without followKinds, a release could not be upgraded or uninstalled
// after one of its CRDs was deleted, or after Kubernetes removed an old API version. An object whose API version is not
// served gets another API version of its kind. If there is none, the object is removed from the manifest. If an API
// service does not respond, its objects stay as they are. A Helm hook without a served version also stays as it is, so
// that Helm returns an error instead of skipping the hook.
func (m manifests) followKinds(ctx context.Context, name string) error {
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
	versionOf := func(apiVersion, kind string) string { return m.cluster.servedVersion(ctx, apiVersion, kind) }
	for i, r := range revisions {
		if i > 0 && r.Info.Status != release.StatusDeployed {
			continue
		}
		s, err := asServed(r.Manifest, versionOf)
		if err != nil {
			return fmt.Errorf("read the manifest of revision %d: %w", r.Version, err)
		}
		changed, err := hooksAsServed(r.Hooks, versionOf)
		if err != nil {
			return fmt.Errorf("read the Helm hooks of revision %d: %w", r.Version, err)
		}
		s.changed += changed
		if s.changed == 0 && s.removed == 0 {
			continue
		}
		m.log("release %q: the cluster does not serve some kinds of revision %d any more: changing the API version of %d objects in its manifest, and removing %d objects",
			name, r.Version, s.changed, s.removed)
		r.Manifest = s.manifest
		if err := m.records.storage().Update(r); err != nil {
			return fmt.Errorf("write revision %d: %w", r.Version, err)
		}
	}
	return nil
}

// served is the result of asServed.
type served struct {
	manifest string
	changed  int // number of objects with another API version than before
	removed  int // number of removed objects
}

// asServed returns the manifest with objects of served kinds only. The function versionOf returns an API version in
// which the API server serves a kind, or "" if there is none. Lists are replaced with their items, because a list can
// have both items of served kinds and items of unserved kinds.
func asServed(manifest string, versionOf func(apiVersion, kind string) string) (s served, err error) {
	nodes, err := flat(manifest)
	if err != nil {
		return s, err
	}
	var left []*yaml.RNode
	for _, n := range nodes {
		switch version := versionOf(n.GetApiVersion(), n.GetKind()); version {
		case "":
			s.removed++
			continue
		case n.GetApiVersion():
		default:
			n.SetApiVersion(version)
			s.changed++
		}
		left = append(left, n)
	}
	s.manifest, err = kio.StringAll(left)
	return s, err
}

// hooksAsServed changes the manifests of those hooks whose objects can get a served API version. It returns the number
// of changed objects.
func hooksAsServed(hooks []*release.Hook, versionOf func(apiVersion, kind string) string) (changed int, err error) {
	for _, h := range hooks {
		s, err := asServed(h.Manifest, versionOf)
		if err != nil {
			return changed, err
		}
		if s.changed > 0 && s.removed == 0 {
			h.Manifest = s.manifest
			changed += s.changed
		}
	}
	return changed, nil
}

// gather adds objects of other revisions to the manifest of the newest revision, and stores the newest revision. It
// adds the objects of older deployed revisions, and those that unfinished revisions have created. It must be called
// before an uninstall, because Helm deletes only the objects of the newest revision: if this revision was not applied
// completely, objects that only another revision has would stay forever.
func (m manifests) gather(ctx context.Context, name string) error {
	revisions, err := m.revisions(name)
	if err != nil {
		return err
	}
	newest := revisions[0]
	known, err := m.names(newest.Manifest)
	if err != nil {
		return fmt.Errorf("read the manifest of revision %d: %w", newest.Version, err)
	}
	var more []*yaml.RNode
	for _, r := range revisions[1:] {
		if r.Info.Status != release.StatusDeployed {
			continue
		}
		added, err := m.lacking(known, r)
		if err != nil {
			return err
		}
		more = append(more, added...)
	}
	created, err := m.created(ctx, name, known, unfinished(revisions))
	if err != nil {
		return err
	}
	return m.extend(newest, append(more, created...))
}

// extend adds objects to the manifest of a revision, and stores the revision.
func (m manifests) extend(r *release.Release, more []*yaml.RNode) (err error) {
	if len(more) == 0 {
		return nil
	}
	if r.Manifest, err = with(r.Manifest, more); err != nil {
		return err
	}
	if err := m.records.storage().Update(r); err != nil {
		return fmt.Errorf("write revision %d: %w", r.Version, err)
	}
	return nil
}

// names returns the identities of the objects in a manifest.
func (m manifests) names(manifest string) (map[Object]bool, error) {
	nodes, err := flat(manifest)
	if err != nil {
		return nil, err
	}
	names := make(map[Object]bool, len(nodes))
	for _, n := range nodes {
		names[m.identity(n)] = true
	}
	return names, nil
}

// lacking returns the objects of a revision whose identities are not in known, and adds their identities to known.
func (m manifests) lacking(known map[Object]bool, r *release.Release) ([]*yaml.RNode, error) {
	nodes, err := flat(r.Manifest)
	if err != nil {
		return nil, fmt.Errorf("read the manifest of revision %d: %w", r.Version, err)
	}
	return slices.DeleteFunc(nodes, func(n *yaml.RNode) bool {
		found := known[m.identity(n)]
		known[m.identity(n)] = true
		return found
	}), nil
}

// identity returns the same as the function identity, except if the object names no namespace. Then the result has the
// namespace of the client, so that the identity does not change if a chart begins to name this namespace.
func (m manifests) identity(n *yaml.RNode) Object {
	o := identity(n)
	if o.Namespace == "" {
		o.Namespace = m.namespace
	}
	return o
}

// gathered is the first line of the text that [with] appends to a manifest.
const gathered = "# These objects are not in the chart of this revision: another revision has created them."

// with returns the manifest with more objects.
func with(manifest string, more []*yaml.RNode) (string, error) {
	text, err := kio.StringAll(more)
	if err != nil {
		return "", fmt.Errorf("write the objects of other revisions: %w", err)
	}
	return strings.TrimSpace(manifest) + "\n---\n" + gathered + "\n" + text, nil
}

// withoutGathered returns the manifest without the objects that [with] has added.
func withoutGathered(manifest string) string {
	own, _, added := strings.Cut(manifest, "\n---\n"+gathered)
	if !added {
		return manifest
	}
	return own + "\n"
}

// flat returns the objects in a manifest. It replaces a list with the items of the list. An item without a kind gets
// the apiVersion of its list, and the kind of the list without the suffix List.
func flat(manifest string) ([]*yaml.RNode, error) {
	nodes, err := read(manifest)
	if err != nil {
		return nil, err
	}
	var objects []*yaml.RNode
	for len(nodes) > 0 {
		n := nodes[0]
		nodes = nodes[1:]
		items := n.Field("items")
		if items == nil || items.Value.YNode().Kind != yaml.SequenceNode {
			objects = append(objects, n)
			continue
		}
		elements, err := items.Value.Elements()
		if err != nil {
			return nil, fmt.Errorf("read the items of %s: %w", named(n), err)
		}
		for _, e := range elements {
			if e.GetKind() == "" {
				e.SetApiVersion(n.GetApiVersion())
				e.SetKind(strings.TrimSuffix(n.GetKind(), "List"))
			}
		}
		nodes = append(elements, nodes...)
	}
	return objects, nil
}

// identity returns a comparable identity of an object. The field APIVersion of the result has only the API group, so
// that the identity does not change with the version.
func identity(n *yaml.RNode) Object {
	group := schema.FromAPIVersionAndKind(n.GetApiVersion(), n.GetKind()).Group
	return Object{APIVersion: group, Kind: n.GetKind(), Namespace: n.GetNamespace(), Name: n.GetName()}
}
