package addons

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
)

// A change makes a configuration offer addons with these IDs. If ids is nil, the configuration is deleted.
type change struct {
	name string
	ids  []string
}

// handOvers are changes that make an ID pass from one configuration to another, because the owner is updated,
// deleted, or created again with other IDs.
var handOvers = []change{
	{"one", []string{"X", "Y"}},
	{"two", []string{"X", "Z"}},
	{"three", []string{"Y"}},
	{"one", []string{"W"}},
	{"one", []string{"X"}},
	{"two", nil},
	{"two", []string{"Y", "Z"}},
	{"three", nil},
	{"one", nil},
	{"two", nil},
}

// play makes the changes and returns the state after each change: the phases of configurations and the owners of IDs.
// It checks that the statuses agree with the phases.
func (a *fixture) play(changes []change) (states []string) {
	a.t.Helper()
	a.start()
	for i, c := range changes {
		a.apply(c.name, c.ids)
		a.raise(c.name)
		phases, owners := a.phases()
		written := map[string]store.Phase{}
		for name, status := range a.statuses {
			written[name] = store.Phase(status.Phase)
			if status.ObservedGeneration != a.changes[name] {
				a.t.Errorf("change %d: the status of %s is of generation %d, not %d", i, name, status.ObservedGeneration, a.changes[name])
			}
		}
		if diff := cmp.Diff(phases, written); diff != "" {
			a.t.Errorf("change %d: status (-registry +written):\n%s", i, diff)
		}
		states = append(states, fmt.Sprint(c.name, " offers ", c.ids, ": ", phases, owners))
	}
	a.stop()
	return states
}

// TestCrashAtEveryCommitOfAddonsConfigurationsLosesNoHandOver adds, changes and deletes configurations. It does this
// twice for each commit: once with a kill of the operator before the commit, and once with a kill after the commit.
// After each change, phases, statuses and owners must be the same as without a kill.
func TestCrashAtEveryCommitOfAddonsConfigurationsLosesNoHandOver(t *testing.T) {
	t.Parallel()
	var want []string
	commits := 0
	synctest.Test(t, func(t *testing.T) {
		a := newFixture(t)
		want, commits = a.play(handOvers), a.memory.Commits()
	})
	t.Logf("%d commits: %q", commits, want)
	for n := 1; n <= commits; n++ {
		for _, behind := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				a := newFixture(t)
				a.crash, a.behind = n, behind
				if diff := cmp.Diff(want, a.play(handOvers)); diff != "" {
					t.Errorf("crash at commit %d, behind %t (-undisturbed +crashed):\n%s", n, behind, diff)
				}
			})
		}
		if t.Failed() {
			return
		}
	}
}
