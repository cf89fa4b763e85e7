// Package graphtest has checks that every graph must pass.
package graphtest

import (
	"slices"
	"testing"

	"addon-operator/workflow/graph"
)

// StoredNodesRemain checks that stored has exactly the nodes of g except junctions. If a node is
// renamed or removed, the engine drops the tasks of the node that an older version has stored.
func StoredNodesRemain(t *testing.T, g *graph.Graph, stored []graph.NodeID) {
	t.Helper()
	var nodes []graph.NodeID
	for _, n := range g.Nodes {
		if !n.Junction {
			nodes = append(nodes, n.ID)
		}
	}
	for _, id := range stored {
		if !slices.Contains(nodes, id) {
			t.Errorf("node %s is missing, and its stored tasks would be dropped", id)
		}
	}
	for _, id := range nodes {
		if !slices.Contains(stored, id) {
			t.Errorf("node %s is new: add it to storedNodes", id)
		}
	}
}
