package addons_test

import (
	"slices"
	"testing"

	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
)

func TestStepsFollowTheFactsOfAConfiguration(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from  graph.NodeID
		facts []graph.Fact
		want  []graph.NodeID
	}{
		"it is as it was":                                  {addons.ConfigurationChanged, nil, nil},
		"its spec changed":                                 {addons.ConfigurationChanged, []graph.Fact{addons.Wanted}, []graph.NodeID{addons.FetchRepositories}},
		"it is being deleted":                              {addons.ConfigurationChanged, []graph.Fact{addons.Deleted}, []graph.NodeID{addons.UnregisterAddons}},
		"it was deleted and created again":                 {addons.ConfigurationChanged, []graph.Fact{addons.IDsFreed, addons.Wanted}, []graph.NodeID{addons.ReprocessFailed, addons.FetchRepositories}},
		"it changed while its repositories were read":      {addons.FetchRepositories, []graph.Fact{addons.Newer}, []graph.NodeID{addons.ConfigurationChanged}},
		"its repositories are read":                        {addons.FetchRepositories, []graph.Fact{addons.AllFetched}, []graph.NodeID{addons.LintAddons}},
		"a person skips the fetch of its repositories":     {addons.FetchRepositories, nil, nil},
		"it changed after its addons were registered":      {addons.ConfigurationStatus, []graph.Fact{addons.Newer}, []graph.NodeID{addons.ConfigurationChanged}},
		"it is ready":                                      {addons.ConfigurationStatus, nil, nil},
		"it registers fewer addons":                        {addons.RegisterAddons, []graph.Fact{addons.IDsFreed}, []graph.NodeID{addons.ConfigurationStatus, addons.ReprocessFailed}},
		"it is deleted and had no addons":                  {addons.UnregisterAddons, nil, []graph.NodeID{addons.RemoveFinalizer}},
		"its finalizer is removed":                         {addons.RemoveFinalizer, nil, nil},
		"the configurations that failed are tried again":   {addons.ReprocessFailed, nil, nil},
		"a change after the check of its addons is no end": {addons.LintAddons, []graph.Fact{addons.Newer}, []graph.NodeID{addons.FindDuplicates}},
	} {
		var got []graph.NodeID
		for _, e := range addons.Graph.Next(test.from, test.facts) {
			got = append(got, e.To)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %s leads to %v, want %v", name, test.from, got, test.want)
		}
	}
}

// TestAllTasksOfARunUseItsSlot checks that a change which arrives during a run is processed after the run.
func TestAllTasksOfARunUseItsSlot(t *testing.T) {
	t.Parallel()
	for _, e := range addons.Graph.Edges {
		if want := map[bool]graph.Place{true: graph.Tail, false: graph.Stack}[e.On != ""]; e.Place != want {
			t.Errorf("the edge from %q%s to %s has the place %q, want %q", e.On, e.From, e.To, e.Place, want)
		}
	}
	for _, n := range addons.Graph.Nodes {
		if n.Scope != graph.ScopeConfiguration || n.Batch || n.Unique != (n.ID == addons.ConfigurationChanged) {
			t.Errorf("node %s has the scope %q, Batch %t, Unique %t", n.ID, n.Scope, n.Batch, n.Unique)
		}
	}
}

func TestAConfigurationIsUnregisteredOnlyIfItIsDeleted(t *testing.T) {
	t.Parallel()
	for _, e := range addons.Graph.Edges {
		if (e.To == addons.UnregisterAddons) != (e.When == addons.Deleted) {
			t.Errorf("the edge from %q%s to %s depends on %q", e.On, e.From, e.To, e.When)
		}
		if e.To == addons.RemoveFinalizer && e.From != addons.UnregisterAddons {
			t.Errorf("%s leads to the removal of the finalizer", e.From)
		}
	}
}
