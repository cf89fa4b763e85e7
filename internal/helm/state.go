package helm

import (
	"context"

	"helm.sh/helm/v3/pkg/release"
)

// Status says how a release stands.
type Status string

// The states of a release. A release goes from Absent through Pending to Deployed or Failed, from there through
// Pending again with each upgrade, and through Uninstalling to Absent.
const (
	// Absent is a release without a single revision.
	Absent Status = "absent"

	// Deployed is a release whose last revision was applied to its end.
	Deployed Status = "deployed"

	// Failed is a release whose last revision was not: some of its objects may be applied. An upgrade goes on from it.
	Failed Status = "failed"

	// Pending is a release whose last revision is being applied, or was when the process that did it was killed.
	// An upgrade removes that revision and uses its number again.
	Pending Status = "pending"

	// Uninstalling is a release whose uninstall was begun and not ended, or that was uninstalled by someone who kept
	// its history. An upgrade uninstalls it before anything else.
	Uninstalling Status = "uninstalling"
)

// State is what the cluster holds of a release. The zero value is not a state.
type State struct {
	Status Status

	// Revision is the number of the last revision, 0 when the release is absent.
	Revision int

	// Checksum is that of the manifest last deployed. It is empty when the release is not deployed, or was deployed
	// by something that keeps no checksum.
	Checksum string

	// Maintained is true of a deployed release whose objects say that they are left as they are.
	Maintained bool

	// Addon is true of a release whose last revision was made from a registered addon.
	Addon bool
}

// Outdated tells whether the release must be upgraded for a manifest with this checksum to be in force.
func (s State) Outdated(checksum string) bool {
	return s.Status != Deployed || s.Checksum != checksum
}

// Summary is a release in a list.
type Summary struct {
	Name string
	State
}

// Find returns the state of a release: that it is absent is no error. It costs one request and decodes nothing,
// unless the release is so old that its checksum is not in a label.
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

// List returns all releases of the namespace, whatever their state and whoever made them, ordered by name. It costs
// one request and decodes nothing: the checksum of a release so old that it is not in a label is empty.
func (c *Client) List(ctx context.Context) ([]Summary, error) {
	revisions, err := c.records.all(ctx)
	if err != nil {
		return nil, err
	}
	var releases []Summary
	for i, r := range revisions {
		if i > 0 && revisions[i-1].release == r.release {
			continue // the newest one tells the state
		}
		releases = append(releases, Summary{Name: r.release, State: stateOf(revisions[i:])})
	}
	return releases, nil
}

// stateOf tells the state of a release by its revisions, the newest first. Only that one counts.
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
