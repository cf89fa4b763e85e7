package lifecycle_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/workflow/graph"
	"addon-operator/workflow/graph/graphtest"
	"addon-operator/workflow/lifecycle"
)

func TestLifecycleIsWhole(t *testing.T) {
	if err := lifecycle.Graph.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestEveryNumberOfTheDocumentIsANode(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range lifecycle.Graph.Nodes {
		seen[n.Number] = true
	}
	for _, number := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"} {
		if !seen[number] {
			t.Errorf("step %s has no node", number)
		}
	}
}

func TestEventsAndSchedulesOfGlobalAndModuleHooksLeadToGlobalValuesChanged(t *testing.T) {
	var from []graph.NodeID
	for _, e := range lifecycle.Graph.Edges {
		if e.To == lifecycle.GlobalValuesChanged {
			from = append(from, e.From)
		}
	}
	want := []graph.NodeID{
		lifecycle.GlobalKubernetesEvent, lifecycle.ModuleKubernetesEvent, lifecycle.GlobalScheduleEvent, lifecycle.ModuleScheduleEvent,
	}
	if diff := cmp.Diff(want, from); diff != "" {
		t.Error(diff)
	}
}

func TestModuleHooksMayNotSetEnabledOverrides(t *testing.T) {
	for _, n := range lifecycle.Graph.Nodes {
		if n.Scope != graph.ScopeAll && n.Has(lifecycle.ConfigModule) && slices.Contains(n.Outputs, lifecycle.EnabledOverrides) {
			t.Errorf("%s may set enabled overrides", n.ID)
		}
	}
}

// storedNodes are the nodes whose tasks can be in a store.
var storedNodes = []graph.NodeID{
	"global-onstartup",
	"global-kubernetes-synchronization",
	"global-beforeall",
	"discover-modules",
	"ensure-crds",
	"module-run",
	"module-onstartup",
	"module-kubernetes-synchronization",
	"module-beforehelm",
	"release-check",
	"release-upgrade",
	"module-afterhelm",
	"module-delete",
	"module-retire",
	"module-beforedeletehelm",
	"release-delete",
	"module-afterdeletehelm",
	"module-purge",
	"global-afterall",
	"global-kubernetes-event",
	"module-kubernetes-event",
	"global-schedule-event",
	"module-schedule-event",
	"configmap-changed",
}

func TestNodesOfStoredTasksRemain(t *testing.T) {
	graphtest.StoredNodesRemain(t, lifecycle.Graph, storedNodes)
}
