package addons

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/api"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// TestOneOfTwoConfigurationsOwnsAnIDAndHandsItOver processes two configurations with the same ID at the same time, in
// many rounds. The configuration that gets the ID first keeps the ID until this configuration is deleted or no longer
// offers the ID. After that, the other configuration owns the ID, even if no operator runs during the change.
func TestOneOfTwoConfigurationsOwnsAnIDAndHandsItOver(t *testing.T) {
	t.Parallel()
	const rounds = 100
	for _, way := range []string{"deleted", "updated", "deleted before a restart", "updated before a restart"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newFixture(t)
				a.start()
				defer func() { a.stop() }()
				won := map[string]int{}
				for i := range rounds {
					names := []string{"one", "two"}
					if i%2 == 1 {
						slices.Reverse(names)
					}
					for _, name := range names {
						a.apply(name, []string{"X"})
					}
					a.raise(names...)
					winner, loser := a.verdict(i)
					won[winner]++
					next := map[string][]string{"deleted": nil, "deleted before a restart": nil, "updated": {}, "updated before a restart": {}}[way]
					if way == "deleted" || way == "updated" {
						a.apply(winner, next)
						a.raise(winner)
					} else {
						a.stop()
						a.apply(winner, next)
						a.start()
					}
					phases, owners := a.phases()
					want := map[string]store.Phase{loser: store.PhaseReady}
					if next != nil {
						want[winner] = store.PhaseReady
					}
					if diff := cmp.Diff(want, phases) + cmp.Diff(map[string]string{"X": loser}, owners); diff != "" {
						t.Fatalf("round %d, after the winner was %s (-want +got):\n%s", i, way, diff)
					}
					for _, name := range names {
						a.apply(name, nil)
					}
					a.raise(names...)
					if phases, owners := a.phases(); len(phases)+len(owners) > 0 {
						t.Fatalf("round %d leaves %v %v", i, phases, owners)
					}
				}
				t.Logf("won: %v", won)
			})
		})
	}
}

// verdict returns the configuration that owns the ID, and the other configuration. It checks that the other
// configuration has failed because of the conflict.
func (a *fixture) verdict(i int) (winner, loser string) {
	a.t.Helper()
	phases, owners := a.phases()
	winner, loser = owners["X"], "one"
	if winner == "one" {
		loser = "two"
	}
	want := map[string]store.Phase{winner: store.PhaseReady, loser: store.PhaseFailed}
	if diff := cmp.Diff(want, phases); diff != "" || len(owners) != 1 {
		a.t.Fatalf("round %d: owners %v, phases (-want +got):\n%s", i, owners, diff)
	}
	_, results, err := a.r.results(api.Identity{Name: loser})
	if err != nil || api.Reason(results[0].Addons[0].Reason) != api.ConflictWithAlreadyRegisteredAddon {
		a.t.Fatalf("round %d: the loser has %s: %v", i, fmt.Sprint(results), err)
	}
	return winner, loser
}

func TestConfigurationThatIsDeletedBeforeItHasTheFinalizerLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newFixture(t)
		a.start()
		defer func() { a.stop() }()
		a.apply("loser", []string{"X"})
		a.apply("owner", []string{"X"})
		a.raise("owner")
		a.raise("loser")
		a.apply("early", []string{"X"})
		a.apply("early", nil)
		a.raise("early")
		phases, owners := a.phases()
		want := map[string]store.Phase{"owner": store.PhaseReady, "loser": store.PhaseFailed}
		if diff := cmp.Diff(want, phases) + cmp.Diff(map[string]string{"X": "owner"}, owners); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if n := a.changes["loser"]; n != 1 {
			t.Errorf("the failed configuration was changed %d times, want 1: nothing became free", n)
		}
		if err := a.r.DB.View(func(tx *store.Tx) error {
			_, busy, err := store.Head(tx, graph.Subject{Configuration: "early"}.Queue())
			if busy {
				t.Error("its queue has a task")
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}
