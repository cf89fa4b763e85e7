package helm

import (
	"context"

	"helm.sh/helm/v3/pkg/release"
)

// Status is the status of a release.
type Status string

// The statuses of a release. A release changes from Absent through Pending to Deployed or Failed,
// through Pending again with each upgrade, and through Uninstalling to Absent.
const (
	// Absent is a release without a revision.
	Absent Status = "absent"

	// Deployed is a release whose last revision was applied completely.
	Deployed Status = "deployed"

	// Failed is a release whose last revision was not applied completely: some of its objects may
	// be applied. An upgrade continues from it.
	Failed Status = "failed"

	// Pending is a release whose last revision is being applied, or was when its process was
	// killed. An upgrade removes that revision and uses its number again.
	Pending Status = "pending"

	// Uninstalling is a release whose uninstall has started and not finished, or that was
	// uninstalled with its history kept. An upgrade finishes the uninstall first.
	Uninstalling Status = "uninstalling"
)

// State is the state of a release in the cluster. The zero value is not valid.
type State struct {
	Status Status

	// Revision is the number of the last revision, 0 if the release is absent.
	Revision int

	// Checksum is that of the deployed manifest. It is empty if the release is not deployed, or was
	// deployed by a tool that stores no checksum.
	Checksum string

	// Maintained is true for a deployed release whose objects are labelled as not reconciled.
	Maintained bool

	// Addon is true for a release whose last revision was created from a registered addon.
	Addon bool
}

// Outdated reports whether the release must be upgraded to deploy a manifest with this checksum.
func (s State) Outdated(checksum string) bool {
	return s.Status != Deployed || s.Checksum != checksum
}

// Summary is a release in a list.
type Summary struct {
	Name string
	State
}

// Find returns the state of a release. An absent release is not an error. Find sends one request
// and decodes no record, unless the release is so old that its checksum is not in a label.
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

// List returns all releases of the namespace, in any state and of any creator, sorted by name. It
// sends one request and decodes no record: the checksum of a release is empty if it is not in a
// label.
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

// stateOf returns the state of a release from its revisions, newest first. Only the newest counts.
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

// statusOf maps the statuses of Helm to ours. If the last revision is superseded, its successor is missing. If its
// status is unknown, it may not be deployed. In both cases the release is upgraded.
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
