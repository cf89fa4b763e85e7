package releases

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"addon-operator/internal/helm"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A checkStep checks whether the release of a module matches the chart and the values of the module.
type checkStep struct{ releases *Releases }

// Do compares the manifest of the chart with the release, and checks that all objects of the manifest exist in the
// cluster. It does not compare the content of the objects. If the module is in maintenance, and its objects have the
// maintenance label, Do leaves the release as it is.
func (s *checkStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	release, known, err := s.releases.read(t.Subject.Module)
	if err != nil || release == nil {
		return workflow.Outcome{Detail: "no chart"}, err
	}
	found := s.read(ctx, *release, known)
	state, manifest := found.state, found.manifest
	if found.stateErr != nil {
		return workflow.Outcome{}, found.stateErr
	}
	if release.Maintained && state.Maintained {
		return releaseOutcome(*release, helm.Manifest{Checksum: state.Checksum}, state.Revision, known, "in maintenance: left as it is")
	}
	if found.manifestErr != nil {
		return workflow.Outcome{}, found.manifestErr
	}
	if state.Outdated(manifest.Checksum) {
		s.releases.Charts.SaveRendering(release.Name, manifest)
		return workflow.Outcome{Facts: []graph.Fact{lifecycle.Outdated}, Detail: s.whyOutdated(release.Name, state, manifest)}, nil
	}
	missing, err := found.missing, found.missingErr
	if err != nil || !slices.Equal(found.objects, manifest.Objects) {
		if missing, err = s.releases.helm.Missing(ctx, manifest.Objects); err != nil {
			return workflow.Outcome{}, err
		}
	}
	lost := slices.DeleteFunc(slices.Clone(missing), func(o helm.Object) bool { return known.Lacks(store.Object(o)) })
	if len(lost) > 0 {
		s.releases.Charts.SaveRendering(release.Name, manifest)
		detail := fmt.Sprintf("absent: %s", lost[0])
		if more := len(lost) - 1; more > 0 {
			detail += fmt.Sprintf(" and %d more", more)
		}
		return workflow.Outcome{Facts: []graph.Fact{lifecycle.Outdated}, Detail: detail}, nil
	}
	known.Removed = slices.DeleteFunc(known.Removed, func(removed store.Removed) bool {
		return !slices.ContainsFunc(missing, func(o helm.Object) bool { return removed.Is(store.Object(o)) })
	})
	return releaseOutcome(*release, manifest, state.Revision, known, "up to date")
}

// whyOutdated returns one line that says why a release with this state must be upgraded to manifest. The line has the
// paths of changed fields, but not their values.
func (s *checkStep) whyOutdated(release string, state helm.State, manifest helm.Manifest) string {
	if state.Status == helm.Absent {
		return "not installed"
	}
	if state.Status != helm.Deployed {
		return fmt.Sprintf("release is %s", state.Status)
	}
	changes, err := s.releases.helm.Changes(release, state.Revision, manifest)
	switch {
	case err != nil: // the upgrade also reads the revision, and reports the error
		return "manifest changed"
	case len(changes) == 0:
		return "manifest changed: only its form, or objects of another API version"
	default:
		return "manifest changed: " + helm.ChangesText(changes)
	}
}

// readings are the data that a check reads: the state of the release, its current manifest, and which objects are
// missing.
type readings struct {
	state    helm.State
	stateErr error

	manifest    helm.Manifest
	manifestErr error

	objects    []helm.Object // objects that the release had at the last check or upgrade
	missing    []helm.Object // the elements of the field objects that do not exist in the cluster
	missingErr error
}

// read reads all data of a check in parallel. To find missing objects, it does not wait for the manifest. It looks
// for the objects of the last check or upgrade, because the set of objects rarely changes.
func (s *checkStep) read(ctx context.Context, release helm.Release, known knownRelease) (r readings) {
	for _, o := range known.Objects {
		r.objects = append(r.objects, helm.Object(o))
	}
	var reading sync.WaitGroup
	reading.Go(func() { r.state, r.stateErr = s.releases.helm.Find(ctx, release.Name) })
	reading.Go(func() { r.missing, r.missingErr = s.releases.helm.Missing(ctx, r.objects) })
	defer reading.Wait()
	r.manifest, r.manifestErr = s.releases.Charts.Manifest(ctx, release) // not in a new goroutine: a chart can make Helm panic, and a panic in a new goroutine would end the operator
	return r
}

// Apply saves the record of the release.
func (s *checkStep) Apply(tx *store.Tx, t workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
	return nil, s.releases.saveRelease(tx, t.Subject.Module, o)
}

// upgradeStep installs or upgrades the release of a module.
type upgradeStep struct{ releases *Releases }

// Do installs or upgrades the release with the manifest of the release check, or with a new manifest if values or files
// have changed since the check. If the previous attempt was interrupted, Do first checks whether the interrupted
// attempt has already completed the upgrade.
func (s *upgradeStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	release, known, err := s.releases.read(t.Subject.Module)
	if err != nil || release == nil {
		return workflow.Outcome{Detail: "no chart"}, err
	}
	known.Removed = nil // after the upgrade, all objects of the chart exist
	manifest, err := s.releases.Charts.Checked(ctx, *release)
	if err != nil {
		return workflow.Outcome{}, err
	}
	if t.Previous == workflow.Interrupted {
		// The interrupted attempt may have completed the upgrade before the operator ended.
		if state, err := s.releases.helm.Find(ctx, release.Name); err == nil && !state.Outdated(manifest.Checksum) {
			if missing, err := s.releases.helm.Missing(ctx, manifest.Objects); err == nil && len(missing) == 0 {
				return releaseOutcome(*release, manifest, state.Revision, known, fmt.Sprintf("revision %d, upgraded by the interrupted attempt", state.Revision))
			}
		}
	}
	done, err := s.releases.helm.Upgrade(s.releases.watchHelmHooks(ctx, t), *release, manifest)
	if err != nil {
		return workflow.Outcome{}, err
	}
	detail := fmt.Sprintf("revision %d", done.Revision)
	if kept := s.releases.reportKept(release.Name, done.Kept); kept != "" {
		detail += ", " + kept
	}
	return releaseOutcome(*release, manifest, done.Revision, known, detail)
}

// Apply saves the record of the release.
func (s *upgradeStep) Apply(tx *store.Tx, t workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
	return nil, s.releases.saveRelease(tx, t.Subject.Module, o)
}

// releaseOutcome returns an outcome with a new record of a release that matches its manifest. The argument known is
// the old record. The new record has the same list of objects that hooks have removed. If the release is in
// maintenance, the new record lists no objects of the release, so no object can be missing.
func releaseOutcome(release helm.Release, m helm.Manifest, revision int, known knownRelease, detail string) (workflow.Outcome, error) {
	r := knownRelease{Release: store.Release{Checksum: m.Checksum, Revision: revision, Removed: known.Removed}, At: known.At}
	if !release.Maintained {
		for _, o := range m.Objects {
			r.Objects = append(r.Objects, store.Object(o))
		}
	}
	data, err := json.Marshal(r)
	return workflow.Outcome{Data: data, Detail: detail}, err
}

// deleteStep deletes the release of a module. If the state of the module is On, deleteStep does nothing: a run of the
// module has begun since the deletion began.
type deleteStep struct{ releases *Releases }

// Do uninstalls the release. If the release does not exist, Do does nothing.
func (s *deleteStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	var record store.Module
	if err := s.releases.db.View(func(tx *store.Tx) (err error) {
		record, _, err = store.Load[store.Module](tx, store.ModuleKey(t.Subject.Module))
		return err
	}); err != nil {
		return workflow.Outcome{}, err
	}
	if record.State == store.On {
		return workflow.Outcome{Detail: "not deleted: the module has run again"}, nil
	}
	return s.releases.Uninstall(ctx, t)
}

// Apply records that the release is deleted.
func (s *deleteStep) Apply(tx *store.Tx, t workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
	key := store.ModuleKey(t.Subject.Module)
	record, _, err := store.Load[store.Module](tx, key)
	if err != nil || record.State == store.On {
		return nil, err
	}
	record.State = store.Uninstalled
	tx.Delete(store.ReleaseKey(t.Subject.Module))
	return nil, store.Save(tx, key, record)
}

// Steps returns the steps that check, upgrade and delete the release of a module.
func (rs *Releases) Steps() workflow.Steps {
	return workflow.Steps{
		lifecycle.ReleaseCheck:   &checkStep{rs},
		lifecycle.ReleaseUpgrade: &upgradeStep{rs},
		lifecycle.ReleaseDelete:  &deleteStep{rs},
	}
}
