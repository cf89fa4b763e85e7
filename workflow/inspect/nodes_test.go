package inspect

import (
	"testing"

	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

func TestNodesThatAnswersNameAreInTheLifecycle(t *testing.T) {
	t.Parallel()
	for _, id := range []graph.NodeID{
		configMapChanged, discoverModules, releaseCheck, releaseUpgrade, releaseDelete, moduleSynchronization, moduleBeforeDeleteHelm, moduleAfterDeleteHelm,
	} {
		if _, ok := lifecycle.Graph.Node(id); !ok {
			t.Errorf("the lifecycle has no node %s", id)
		}
	}
	for _, trigger := range []graph.Trigger{configMapTrigger, mendedTrigger, addonsTrigger} {
		if _, ok := lifecycle.Graph.Triggers[trigger]; !ok {
			t.Errorf("the lifecycle has no trigger %q", trigger)
		}
	}
}
