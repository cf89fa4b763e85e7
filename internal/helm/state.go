package helm

import (
	"context"

	"helm.sh/helm/v3/pkg/release"
)

// Status is the status of a release.
type Status string

// The statuses of a release. An installation changes the status from Absent through Pending to
// Deployed or Failed. So does each upgrade, through Pending. An uninstall changes it through
// Uninstalling to Absent.
const (
	// Absent is a release without a revision.
	Absent Status = "absent"

	// Deployed is a release whose last revision was applied completely.
	Deployed Status = "deployed"

	// Failed is a release whose last revision was not applied completely: some of its objects may
	// be applied. The next upgrade applies the missing changes.
	Failed Status = "failed"

	// Pending is a release whose last revision is being applied, or was being applied when the
	// process was killed. An upgrade removes that revision and uses its number again.
	Pending Status = "pending"

	// Uninstalling is a release whose uninstall has started but not finished, or a release that was
	// uninstalled with its history kept. An upgrade finishes the uninstall first.
	Uninstalling Status = "uninstalling"
)

// State is the state of a release in the cluster. The zero value is not valid.
type State struct {
	Status Status

	// Revision is the number of the last revision; 0 if the release is absent.
	Revision int

	// Checksum is the checksum of the deployed manifest. It is empty if the release is not
	// deployed, or if the tool that deployed it stores no checksum.
	Checksum string

	// Maintained is true for a deployed release whose objects have the maintenance label: see
	// [Release.Maintained].
	Maintained bool

	// Addon is true for a release whose last revision was created from a registered addon.
	Addon bool
}

// Outdated reports whether the release must be upgraded to deploy a manifest with this checksum.
func (s State) Outdated(checksum string) bool {
	return s.Status != Deployed || s.Checksum != checksum
}

// Summary is a release in the result of [Client.List].
type Summary struct {
	Name string
	State
}

// Find returns the state of a release. An absent release is not an error. Find usually sends one
// request and decodes no record. If a deployed release has no checksum in its label, Find also
// decodes the record, because older versions of addon-operator store the checksum in the values.
func (c *Client) Find(ctx context.Context, name string) (State, error) {
	history, err := c.records.of(ctx, name)
	if err != nil {
		return State{}, err
	}
	state := stateOf(history)
	if state.Status == Deployed && state.Checksum == "" {
		state.Checksum, err = c.records.olderChecksum(history[0])
	}
	return state, err
}

// List returns all releases of the namespace, in any state, whichever program has created them,
// sorted by name. It sends one request and decodes no record. So the checksum of a release is empty
// if it is not in a label.
func (c *Client) List(ctx context.Context) ([]Summary, error) {
	revisions, err := c.records.all(ctx)
	if err != nil {
		return nil, err
	}
	var releases []Summary
	for i, r := range revisions {
		if i > 0 && revisions[i-1].release == r.release {
			continue // the newest revision determines the state
		}
		releases = append(releases, Summary{Name: r.release, State: stateOf(revisions[i:])})
	}
	return releases, nil
}

// stateOf returns the state of a release with these revisions, newest first. Only the newest
// revision determines the state.
func stateOf(history []record) State {
	if len(history) == 0 {
		return State{Status: Absent}
	}
	last := history[0]
	state := State{Status: statusOf(last.status), Revision: last.revision, Addon: last.addon}
	if state.Status == Deployed {
		state.Checksum, state.Maintained = last.checksum, last.maintained
	}
	return state
}

// statusOf returns the Status for a status of Helm. If the last revision is superseded, its
// successor is missing. If its status is unknown, the revision may not be deployed. In both cases
// the result is Failed, so that the release is upgraded.
func statusOf(s release.Status) Status {
	switch s {
	case release.StatusDeployed:
		return Deployed
	case release.StatusPendingInstall, release.StatusPendingUpgrade, release.StatusPendingRollback:
		return Pending
	case release.StatusUninstalling, release.StatusUninstalled:
		return Uninstalling
	default:
		return Failed
	}
}
