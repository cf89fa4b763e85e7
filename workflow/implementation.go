package workflow

import (
	"errors"
	"fmt"

	"addon-operator/workflow/graph"
)

// An Implementation is a graph with the implementations of its nodes.
type Implementation struct {
	Graph *graph.Graph
	Steps Steps

	twice []graph.NodeID // nodes for which two parts have a step
}

// Steps are the steps of nodes.
type Steps map[graph.NodeID]Step

// Join joins g with the steps of all parts. [New] fails if two parts have a step for the same node.
func Join(g *graph.Graph, parts ...Steps) Implementation {
	im := Implementation{Graph: g, Steps: Steps{}}
	for _, part := range parts {
		for id, step := range part {
			if _, bound := im.Steps[id]; bound {
				im.twice = append(im.twice, id)
			}
			im.Steps[id] = step
		}
	}
	return im
}

// check returns an error if the graph is invalid, if a node has no step or has two, if a step has no node, or if the
// step of a node with a fan-out cannot create the fan-out. Junctions and nodes with JoinsRunning must have no step.
func (im Implementation) check() error {
	errs := []error{im.Graph.Check()}
	for _, id := range im.twice {
		errs = append(errs, fmt.Errorf("graph %s: node %s has two steps", im.Graph.Name, id))
	}
	for _, n := range im.Graph.Nodes {
		step, bound := im.Steps[n.ID]
		switch {
		case n.Junction || n.JoinsRunning:
			if bound {
				errs = append(errs, fmt.Errorf("graph %s: node %s must not have a step, but has one", im.Graph.Name, n.ID))
			}
		case !bound:
			errs = append(errs, fmt.Errorf("graph %s: node %s has no step", im.Graph.Name, n.ID))
		case n.ForEach != "":
			if _, ok := step.(FanOuter); !ok {
				errs = append(errs, fmt.Errorf("graph %s: the step of node %s has no method Items for its fan-out", im.Graph.Name, n.ID))
			}
		}
	}
	for id := range im.Steps {
		if _, ok := im.Graph.Node(id); !ok {
			errs = append(errs, fmt.Errorf("graph %s: a step is bound to unknown node %s", im.Graph.Name, id))
		}
	}
	return errors.Join(errs...)
}
