package helm

import (
	"context"

	"helm.sh/helm/v3/pkg/release"
)

// Status is the status of a release.
type Status string

// The statuses of a release. An installation or an upgrade changes the status to Pending, and at its end to Deployed
// or Failed. An uninstall changes it to Uninstalling, and at its end to Absent.
const (
	// Absent means that the release has no revision.
	Absent Status = "absent"

	// Deployed means that the last revision was applied completely.
	Deployed Status = "deployed"

	// Failed means that the last revision was not applied completely, or that its status in Helm is superseded or
	// unknown. Some of its objects may be applied. The next upgrade applies the missing changes.
	Failed Status = "failed"

	// Pending means that the last revision is being applied, or was being applied when a process was killed. The next
	// upgrade removes that revision and uses its number again.
	Pending Status = "pending"

	// Uninstalling means that an uninstall has started but not finished, or that the release was uninstalled with its
	// history kept. An upgrade first finishes the uninstall.
	Uninstalling Status = "uninstalling"
)

// State is the state of a release in the cluster. The zero value is not valid.
type State struct {
	Status Status

	// Revision is the number of the last revision; 0 if the release is absent.
	Revision int

	// Checksum is the checksum of the deployed manifest. It is empty if the release is not deployed, or if the program
	// that has deployed it stores no checksum.
	Checksum string

	// Maintained is true if the release is deployed and its objects have the maintenance label, see
	// [Release.Maintained].
	Maintained bool

	// Addon is true if the chart of the last revision is that of a registered addon.
	Addon bool
}

// Outdated reports whether an upgrade is needed so that a manifest with this checksum is deployed.
func (s State) Outdated(checksum string) bool {
	return s.Status != Deployed || s.Checksum != checksum
}

// Summary is a release in the result of [Client.List].
type Summary struct {
	Name string
	State
}

// Find returns the state of a release. If the release does not exist, its status is Absent, and there is no error.
// Find usually sends one request and decodes no record. If a deployed release has no checksum in its label, Find also
// decodes the record, because older versions of flant/addon-operator store the checksum in the values.
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

// List returns all releases in the namespace of the client, sorted by name, whatever their state is and whichever
// program has created them. It sends one request and decodes no record. So the checksum of a release is empty if it is
// not in a label.
func (c *Client) List(ctx context.Context) ([]Summary, error) {
	revisions, err := c.records.all(ctx)
	if err != nil {
		return nil, err
	}
	var releases []Summary
	for i, r := range revisions {
		if i > 0 && revisions[i-1].release == r.release {
			continue // an older revision of the same release
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

// statusOf returns the Status of a release whose last revision has the Helm status s. If s is superseded, a newer
// revision is missing; if s is unknown, it is not certain that the revision is deployed. In both cases the result is
// Failed, so that the release is upgraded.
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
