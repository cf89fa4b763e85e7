package workflow

import (
	"errors"
	"fmt"

	"addon-operator/workflow/graph"
)

// A Binding is a graph with the implementations of its nodes.
type Binding struct {
	Graph *graph.Graph
	Steps Steps

	twice []graph.NodeID // nodes with a step in two parts
}

// Steps are the steps of nodes.
type Steps map[graph.NodeID]Step

// Join joins g with the steps of all parts. [New] fails if two parts have a step of the same node.
func Join(g *graph.Graph, parts ...Steps) Binding {
	b := Binding{Graph: g, Steps: Steps{}}
	for _, part := range parts {
		for id, step := range part {
			if _, bound := b.Steps[id]; bound {
				b.twice = append(b.twice, id)
			}
			b.Steps[id] = step
		}
	}
	return b
}

// check reports every node of the graph without a step or with two, every step without a node, and
// every fan-out that no step creates.
func (b Binding) check() error {
	errs := []error{b.Graph.Check()}
	for _, id := range b.twice {
		errs = append(errs, fmt.Errorf("graph %s: node %s has two steps", b.Graph.Name, id))
	}
	for _, n := range b.Graph.Nodes {
		step, bound := b.Steps[n.ID]
		switch {
		case n.Junction || n.JoinsRunning:
			if bound {
				errs = append(errs, fmt.Errorf("graph %s: node %s takes no step and has one", b.Graph.Name, n.ID))
			}
		case !bound:
			errs = append(errs, fmt.Errorf("graph %s: node %s has no step", b.Graph.Name, n.ID))
		case n.ForEach != "":
			if _, ok := step.(FanOuter); !ok {
				errs = append(errs, fmt.Errorf("graph %s: the step of node %s has no items for its fan-out", b.Graph.Name, n.ID))
			}
		}
	}
	for id := range b.Steps {
		if _, ok := b.Graph.Node(id); !ok {
			errs = append(errs, fmt.Errorf("graph %s: a step is bound to unknown node %s", b.Graph.Name, id))
		}
	}
	return errors.Join(errs...)
}
