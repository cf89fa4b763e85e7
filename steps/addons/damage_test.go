package addons

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
)

// damage makes the record of a configuration unreadable.
func (a *fixture) damage(name string) {
	a.t.Helper()
	if err := a.r.DB.Update(func(tx *store.Tx) error { tx.Put(store.ConfigurationKey("", name), []byte("[1]")); return nil }); err != nil {
		a.t.Fatal(err)
	}
}

// expectReady checks that the known configurations are those in want, and that each of them is Ready and owns its addon
// in want.
func (a *fixture) expectReady(want map[string]string) {
	a.t.Helper()
	phases, owners := a.phases()
	ready := map[string]string{}
	for id, name := range owners {
		if phases[name] == store.PhaseReady {
			ready[name] = id
		}
	}
	if diff := cmp.Diff(want, ready); diff != "" || len(phases) != len(want) {
		a.t.Errorf("phases %v, Ready configurations with their addons (-want +got):\n%s", phases, diff)
	}
}

func TestAConfigurationWhoseRecordIsDamagedIsProcessedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newFixture(t)
		a.start()
		defer a.stop()
		var damaged []string
		a.r.Damaged = func(d store.Damaged) { damaged = append(damaged, d.String()) }
		for name, id := range map[string]string{"one": "X", "two": "Y"} {
			a.apply(name, []string{id})
			a.raise(name)
			a.damage(name)
		}
		a.apply("two", nil)
		for _, name := range []string{"one", "two"} {
			a.raise(name)
		}
		a.expectReady(map[string]string{"one": "X"})
		if len(damaged) != 2 {
			t.Errorf("reported records: %q", damaged)
		}
	})
}

// A damagedOnce replaces a step. Before its first attempt, the record of the configuration "one" becomes unreadable.
type damagedOnce struct {
	workflow.Step
	*fixture

	done bool
}

func (s *damagedOnce) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	if !s.done {
		s.damage("one")
	}
	s.done = true
	return s.Step.Do(ctx, t)
}

func (s *damagedOnce) Apply(tx *store.Tx, t workflow.Task, out workflow.Outcome) ([]graph.Fact, error) {
	if applier, ok := s.Step.(workflow.Applier); ok {
		return applier.Apply(tx, t, out)
	}
	return nil, nil
}

func TestARoundThatLosesTheRecordOfItsConfigurationIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	for _, node := range []graph.NodeID{addons.LintAddons, addons.FindDuplicates, addons.FindConflicts, addons.RegisterAddons} {
		synctest.Test(t, func(t *testing.T) {
			a := newFixture(t)
			a.replace = func(steps map[graph.NodeID]workflow.Step) {
				steps[node] = &damagedOnce{Step: steps[node], fixture: a}
			}
			a.start()
			defer a.stop()
			a.apply("one", []string{"X"})
			a.raise("one")
			a.expectReady(map[string]string{"one": "X"})
		})
	}
}
