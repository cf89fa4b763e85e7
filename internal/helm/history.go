package helm

import (
	"fmt"
	"maps"
	"slices"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
)

// history is the Helm storage driver for one action on one release. It caches the revisions of the release, because
// Helm queries them up to three times before it writes the first record. After a write, the next query reads them
// again.
//
// Helm does not see the revisions that killed processes have left. The history keeps their records until directly
// before it creates the first revision of the action, because no other records contain the objects that these processes
// have created.
type history struct {
	driver.Driver
	name      string
	killed    []record
	remove    func(next *release.Release) error // removes killed before next is created
	read      bool
	revisions []*release.Release
	err       error // error of the query for revisions
	updated   error // error of the last update
}

// historyOf returns a driver for an action on the release called name. If empty is true, the caller knows that the
// release has no revision that Helm sees, and the first query needs no request. The argument killed has the revisions
// that killed processes have left. The driver calls the function remove to remove them, with the revision that is
// created next.
func (s *records) historyOf(name string, empty bool, killed []record, remove func(next *release.Release) error) *history {
	h := &history{Driver: s.driver, name: name, killed: killed, remove: remove, read: empty}
	if empty {
		h.err = driver.ErrReleaseNotFound
	}
	return h
}

// Query implements driver.Queryor.
func (h *history) Query(labels map[string]string) ([]*release.Release, error) {
	if !maps.Equal(labels, map[string]string{nameLabel: h.name, ownerLabel: "helm"}) {
		return h.Driver.Query(labels)
	}
	if !h.read {
		h.revisions, h.err = h.Driver.Query(labels)
		h.revisions = slices.DeleteFunc(h.revisions, h.isKilled)
		h.read = h.err == nil
	}
	return slices.Clone(h.revisions), h.err // Helm sorts the slice
}

// isKilled reports whether a killed process has left the revision.
func (h *history) isKilled(r *release.Release) bool {
	return slices.ContainsFunc(h.killed, func(k record) bool { return k.revision == r.Version })
}

// Create implements driver.Creator. It first removes the revisions that killed processes have left.
func (h *history) Create(key string, r *release.Release) error {
	if len(h.killed) > 0 {
		if err := h.remove(r); err != nil {
			return err
		}
		h.killed = nil
	}
	h.forget()
	return h.Driver.Create(key, r)
}

// Update implements driver.Updator. If a newer revision has replaced r, Update stores r without the objects that were
// added to its manifest before the upgrade, so that a rollback does not create them.
func (h *history) Update(key string, r *release.Release) error {
	h.forget()
	if r.Info.Status == release.StatusSuperseded {
		own := *r
		own.Manifest = withoutGathered(r.Manifest)
		r = &own
	}
	h.updated = h.Driver.Update(key, r)
	return h.updated
}

// finish must be called with the result of the action: the revision r and the error err. It usually returns err. But
// Helm's install returns no error if it cannot record that r is deployed. In this case, finish writes the record again,
// and returns an error only if this write fails too. Without a record that r is deployed, the release would be Pending,
// and the next upgrade would repeat the Helm hooks.
func (h *history) finish(r *release.Release, err error) error {
	if h.updated == nil || r == nil || r.Info.Status != release.StatusDeployed {
		return err
	}
	if err := h.Update(keyOf(r), r); err != nil {
		return fmt.Errorf("write revision %d: %w", r.Version, err)
	}
	return nil
}

// Delete implements driver.Deletor.
func (h *history) Delete(key string) (*release.Release, error) {
	h.forget()
	return h.Driver.Delete(key)
}

func (h *history) forget() { h.read, h.revisions, h.err = false, nil, nil }
