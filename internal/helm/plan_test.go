package helm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/release"
)

// revisionsOf returns the revisions of a release with these statuses, the newest first. The last one is revision 1.
func revisionsOf(newestFirst ...release.Status) []record {
	var history []record
	for i, s := range newestFirst {
		history = append(history, record{release: "r", revision: len(newestFirst) - i, status: s, checksum: "c"})
	}
	return history
}

func TestPlanFollowsFromTheRevisions(t *testing.T) {
	t.Parallel()
	type want struct {
		State  State
		Remove []int
		Plan   string
	}
	const (
		deployed   = release.StatusDeployed
		failed     = release.StatusFailed
		superseded = release.StatusSuperseded
		install    = release.StatusPendingInstall
		upgrade    = release.StatusPendingUpgrade
		rollback   = release.StatusPendingRollback
	)
	for _, c := range []struct {
		name    string
		history []record
		want    want
	}{
		{"absent", nil, want{State{Status: Absent}, nil, "install"}},
		{"deployed", revisionsOf(deployed, superseded), want{State{Status: Deployed, Revision: 2, Checksum: "c"}, nil, "upgrade"}},
		{"failed first", revisionsOf(failed), want{State{Status: Failed, Revision: 1}, nil, "gather, upgrade"}},
		{"failed after deployed", revisionsOf(failed, deployed), want{State{Status: Failed, Revision: 2}, nil, "gather, upgrade"}},
		{"lost its successor", revisionsOf(superseded), want{State{Status: Failed, Revision: 1}, nil, "gather, upgrade"}},
		{"of no known status", revisionsOf("odd"), want{State{Status: Failed, Revision: 1}, nil, "gather, upgrade"}},
		{"killed install", revisionsOf(install), want{State{Status: Pending, Revision: 1}, []int{1}, "gather, install"}},
		{"killed upgrade", revisionsOf(upgrade, deployed), want{State{Status: Pending, Revision: 2}, []int{2}, "gather, upgrade"}},
		{"killed rollback", revisionsOf(rollback, failed, deployed), want{State{Status: Pending, Revision: 3}, []int{3}, "gather, upgrade"}},
		{"killed twice", revisionsOf(upgrade, upgrade, deployed), want{State{Status: Pending, Revision: 3}, []int{3, 2}, "gather, upgrade"}},
		{"killed long ago", revisionsOf(deployed, upgrade), want{State{Status: Deployed, Revision: 2, Checksum: "c"}, nil, "upgrade"}},
		{"uninstalling", revisionsOf(release.StatusUninstalling, superseded), want{State{Status: Uninstalling, Revision: 2}, nil, "gather, uninstall, install"}},
		{"uninstalled, history kept", revisionsOf(release.StatusUninstalled), want{State{Status: Uninstalling, Revision: 1}, nil, "gather, uninstall, install"}},
		{"killed over uninstalled", revisionsOf(upgrade, release.StatusUninstalled), want{State{Status: Pending, Revision: 2}, []int{2}, "gather, uninstall, install"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := planFor(c.history)
			got := want{State: stateOf(c.history), Plan: "upgrade"}
			switch {
			case p.uninstall && p.install:
				got.Plan = "uninstall, install"
			case p.install:
				got.Plan = "install"
			}
			if p.gather {
				got.Plan = "gather, " + got.Plan
			}
			for _, r := range p.remove {
				got.Remove = append(got.Remove, r.revision)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyTheDeployedChecksumIsUpToDate(t *testing.T) {
	t.Parallel()
	for state, outdated := range map[State]bool{
		{Status: Deployed, Revision: 1, Checksum: "c"}:     false,
		{Status: Deployed, Revision: 1, Checksum: "d"}:     true,
		{Status: Deployed, Revision: 1, Checksum: ""}:      true,
		{Status: Failed, Revision: 1, Checksum: "c"}:       true,
		{Status: Pending, Revision: 1, Checksum: "c"}:      true,
		{Status: Uninstalling, Revision: 1, Checksum: "c"}: true,
		{Status: Absent, Revision: 0, Checksum: ""}:        true,
	} {
		if state.Outdated("c") != outdated {
			t.Errorf("%+v outdated for checksum c: want %t", state, outdated)
		}
	}
}
