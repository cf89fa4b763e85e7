package helm

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/kustomize/kyaml/kio"
)

// A DryRun receives the revisions that a client with [Options.DryRun] does not store. It keeps only the last revision
// of each release. The zero value is ready to use. A DryRun is safe for concurrent use.
type DryRun struct {
	mu        sync.Mutex
	revisions []DryRevision // guarded by mu
}

// A DryRevision is a revision that the client would store without the dry run, or a release that it would delete.
type DryRevision struct {
	Release string
	// Revision is the number of the revision. If the release would be deleted, it is the number of its last revision.
	Revision int
	Deleted  bool
	// Before has the values of the previous revision, and After has the values of this revision. If the release would
	// be deleted, Before has the values of its last revision, and After is nil. The values may contain secrets.
	Before, After map[string]any
	// Hooks are the objects of those Helm hooks of the chart that would have run.
	Hooks []Object
}

// Take returns the revisions that were added since the last call of Take, and removes them from d.
func (d *DryRun) Take() []DryRevision {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.revisions
	d.revisions = nil
	return taken
}

// add adds a revision. If d already has a revision of the same release, add replaces that revision.
func (d *DryRun) add(r DryRevision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, known := range d.revisions {
		if known.Release == r.Release {
			d.revisions[i] = r
			return
		}
	}
	d.revisions = append(d.revisions, r)
}

// keepUnsaved makes s keep written records in memory instead of storing them, for dry runs. Helm reads the written
// records from memory, and all other records from the cluster. The lists of s leave out deleted records, but do not
// show other writes. Each new revision and each uninstall is added to the given DryRun.
func (s *records) keepUnsaved(to *DryRun) {
	written := &unsaved{Driver: s.driver, to: to, changed: map[string]*release.Release{}}
	s.driver = written
	s.objects = unsavedObjects{s.objects, written}
}

// unsaved is a Helm storage driver that reads from another driver, but writes only to the map in the field changed. A
// nil release in this map means that the record is deleted.
type unsaved struct {
	driver.Driver
	to *DryRun

	mu      sync.Mutex
	changed map[string]*release.Release // written records by name; guarded by mu
}

// Get implements driver.Queryor.
func (w *unsaved) Get(key string) (*release.Release, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, known := w.changed[key]
	switch {
	case !known:
		return w.Driver.Get(key)
	case r == nil:
		return nil, driver.ErrReleaseNotFound
	default:
		return r, nil
	}
}

// Query implements driver.Queryor.
func (w *unsaved) Query(labels map[string]string) ([]*release.Release, error) {
	found, err := w.Driver.Query(labels)
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	found = slices.DeleteFunc(found, func(r *release.Release) bool { _, known := w.changed[keyOf(r)]; return known })
	for _, key := range slices.Sorted(maps.Keys(w.changed)) {
		if r := w.changed[key]; r != nil && matches(r, labels) {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		return nil, driver.ErrReleaseNotFound
	}
	return found, nil
}

// matches reports whether Helm would store the record of r with these labels. Helm queries records by their labels.
func matches(r *release.Release, labels map[string]string) bool {
	own := map[string]string{
		ownerLabel: "helm", nameLabel: r.Name, statusLabel: r.Info.Status.String(), versionLabel: strconv.Itoa(r.Version),
	}
	for label, value := range labels {
		if own[label] != value {
			return false
		}
	}
	return true
}

// keyOf returns the name of the Secret or ConfigMap in which Helm stores r.
func keyOf(r *release.Release) string {
	return "sh.helm.release.v1." + r.Name + ".v" + strconv.Itoa(r.Version)
}

// Create implements driver.Creator.
func (w *unsaved) Create(key string, r *release.Release) error {
	planned := DryRevision{Release: r.Name, Revision: r.Version, After: r.Config, Hooks: hooksOf(r, release.HookPreUpgrade, release.HookPostUpgrade)}
	if r.Version == 1 || r.Info.Status == release.StatusPendingInstall {
		planned.Hooks = hooksOf(r, release.HookPreInstall, release.HookPostInstall)
	}
	if last := w.last(r.Name); last != nil {
		planned.Before = last.Config
	}
	w.to.add(planned)
	return w.set(key, r)
}

// last returns the newest revision of a release. last returns nil if the release has none, or if the revisions cannot
// be read.
func (w *unsaved) last(name string) (newest *release.Release) {
	found, _ := w.Query(map[string]string{ownerLabel: "helm", nameLabel: name}) // the Helm action gets the error from a query of its own
	for _, r := range found {
		if newest == nil || r.Version > newest.Version {
			newest = r
		}
	}
	return newest
}

// Update implements driver.Updator.
func (w *unsaved) Update(key string, r *release.Release) error {
	if r.Info.Status == release.StatusUninstalling {
		w.to.add(DryRevision{
			Release: r.Name, Revision: r.Version, Deleted: true, Before: r.Config,
			Hooks: hooksOf(r, release.HookPreDelete, release.HookPostDelete),
		})
	}
	return w.set(key, r)
}

// Delete implements driver.Deletor.
func (w *unsaved) Delete(key string) (*release.Release, error) {
	r, err := w.Get(key)
	if err != nil {
		return nil, err
	}
	return r, w.set(key, nil)
}

func (w *unsaved) set(key string, r *release.Release) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed[key] = r
	return nil
}

// hooksOf returns the objects of those Helm hooks of r that run at one of the events.
func hooksOf(r *release.Release, events ...release.HookEvent) (objects []Object) {
	for _, h := range r.Hooks {
		if !slices.ContainsFunc(h.Events, func(e release.HookEvent) bool { return slices.Contains(events, e) }) {
			continue
		}
		o := Object{Kind: h.Kind, Name: h.Name}
		if nodes, err := kio.FromBytes([]byte(h.Manifest)); err == nil && len(nodes) == 1 {
			o = named(nodes[0])
		}
		objects = append(objects, o)
	}
	return objects
}

// unsavedObjects is a client for the objects in which Helm stores records. It leaves out objects that the dry run has
// deleted.
type unsavedObjects struct {
	metadata.ResourceInterface
	written *unsaved
}

// List lists the objects, except those that the dry run has deleted.
func (o unsavedObjects) List(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	list, err := o.ResourceInterface.List(ctx, options)
	if err != nil {
		return nil, err
	}
	o.written.mu.Lock()
	defer o.written.mu.Unlock()
	list.Items = slices.DeleteFunc(list.Items, func(item metav1.PartialObjectMetadata) bool {
		r, known := o.written.changed[item.Name]
		return known && r == nil
	})
	return list, nil
}

// Delete only remembers in memory that the object is deleted.
func (o unsavedObjects) Delete(_ context.Context, name string, _ metav1.DeleteOptions, _ ...string) error {
	return o.written.set(name, nil)
}
