package addons_test

import (
	"slices"
	"testing"

	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/graph/graphtest"
)

func TestGraphIsWhole(t *testing.T) {
	if err := addons.Graph.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestAllStepsOfAddFollowWithoutAFact(t *testing.T) {
	at, seen := addons.LintAddons, []graph.NodeID{}
	for at != addons.ConfigurationStatus {
		seen = append(seen, at)
		next := addons.Graph.Next(at, nil)
		if len(next) != 1 || slices.Contains(seen, next[0].To) {
			t.Fatalf("%s leads to %v, want to one step", at, next)
		}
		at = next[0].To
	}
	want := []graph.NodeID{
		addons.LintAddons, addons.FindDuplicates, addons.FindConflicts, addons.RegisterAddons,
	}
	if !slices.Equal(seen, want) {
		t.Errorf("got %v, want %v", seen, want)
	}
}

func TestFinalizerIsRemovedAfterFailedConfigurationsAreReprocessed(t *testing.T) {
	var to []graph.NodeID
	for _, e := range addons.Graph.Next(addons.UnregisterAddons, []graph.Fact{addons.IDsFreed}) {
		to = append(to, e.To)
	}
	if want := []graph.NodeID{addons.ReprocessFailed, addons.RemoveFinalizer}; !slices.Equal(to, want) {
		t.Errorf("got %v, want %v", to, want)
	}
}

// storedNodes are the nodes whose tasks can be in a store.
var storedNodes = []graph.NodeID{
	"configuration-changed",
	"fetch-repositories",
	"lint-addons",
	"find-duplicates",
	"find-conflicts",
	"register-addons",
	"configuration-status",
	"unregister-addons",
	"reprocess-failed",
	"remove-finalizer",
}

func TestNodesOfStoredTasksRemain(t *testing.T) {
	graphtest.StoredNodesRemain(t, addons.Graph, storedNodes)
}
