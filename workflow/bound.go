package workflow

import (
	"fmt"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// bound is a graph bound to its steps: an Implementation with indexes of its nodes.
type bound struct {
	Implementation
	nodes   map[graph.NodeID]*graph.Node
	rewinds map[graph.NodeID]bool // nodes to which Rewind edges lead
}

// graphs has the graphs of the engine, by name and by trigger.
type graphs struct {
	named    map[string]*bound
	triggers map[graph.Trigger]*bound
}

// boundTo returns the graph and the node of t. boundTo fails if this version does not have the
// graph or the node, or if the node is a junction.
func (g *graphs) boundTo(t *store.Task) (*bound, *graph.Node, error) {
	b := g.named[t.Graph]
	if b == nil {
		return nil, nil, fmt.Errorf("task %s belongs to graph %q, which this version does not have", t.ID, t.Graph)
	}
	n := b.nodes[graph.NodeID(t.Node)]
	if n == nil {
		return nil, nil, fmt.Errorf("task %s is at node %q, which graph %s does not have in this version", t.ID, t.Node, t.Graph)
	}
	if n.Junction {
		return nil, nil, fmt.Errorf("task %s is at node %q, which has no tasks in this version of graph %s", t.ID, t.Node, t.Graph)
	}
	return b, n, nil
}

// prepares reports whether n's step is a [Preparer].
func (b *bound) prepares(n *graph.Node) bool {
	_, ok := b.Steps[n.ID].(Preparer)
	return ok
}

// first returns the node at which a run that has reached n starts over: after a quarantine, after a
// pause, in a new container, or because a start run begins. After a failure, the engine uses
// only RetryFrom, and not first. For example, step 5b has no RetryFrom, so step 5b itself is retried.
//   - If n has RetryFrom, the run starts over at that node. Step 5c starts over at 5.
//   - If the scope of n is a configuration, the run starts over at the first node of this scope to
//     which a trigger leads.
//   - If the scope of n is a module, the run starts over at the first node of n's group. Step 5b
//     starts over at 5. Step 4a, which is in the group of a reload, starts over at 3.
//   - If the scope of n is all modules, and the first node of n's group is Unique, the run starts
//     over at that first node. Step 8 starts over at 3.
//   - Otherwise the run starts over at n. Step 2 starts over at 2, because the first node of its
//     group, step 1, is not Unique.
func (b *bound) first(n *graph.Node) graph.NodeID {
	if n.RetryFrom != "" {
		return n.RetryFrom
	}
	if n.Scope == graph.ScopeConfiguration {
		return b.entry(n)
	}
	for i := range b.Graph.Nodes {
		other := &b.Graph.Nodes[i]
		if other.Group != n.Group {
			continue
		}
		if n.Scope == graph.ScopeModule || n.Scope == graph.ScopeAll && other.Unique {
			return other.ID
		}
		break
	}
	return n.ID
}

// entry returns the first node of n's scope to which a trigger leads; n itself if there is none.
func (b *bound) entry(n *graph.Node) graph.NodeID {
	for _, edge := range b.Graph.Edges {
		if edge.On != "" && b.nodes[edge.To].Scope == n.Scope {
			return edge.To
		}
	}
	return n.ID
}

// byItself reports whether s is a global hook that can run again at n without the other items of
// the fan-out. In the lifecycle, these are the hooks of steps 1 and 2, because a reload does not
// repeat these steps.
func (b *bound) byItself(n *graph.Node, s graph.Subject) bool {
	return s.Module == "" && s.Hook != "" && n.ForEach != "" && !n.Unique && b.first(n) == n.ID
}

// notifySkipped notifies the step of n, if it is a [Skipper], that t or its current item is skipped.
func (b *bound) notifySkipped(tx *store.Tx, n *graph.Node, t *store.Task) error {
	skipper, ok := b.Steps[n.ID].(Skipper)
	if !ok || t.FanOut != nil && t.FanOut.Edge {
		return nil
	}
	s, err := itemOf(tx, t)
	if err != nil {
		return err
	}
	task := Task{Task: *t}
	task.Subject = s
	return guard(n, "Skipped", func() error { return skipper.Skipped(tx, task) })
}

// alike reports whether one attempt may process both t and other.
func (b *bound) alike(t, other *store.Task) bool {
	n := b.nodes[graph.NodeID(other.Node)]
	return other.Graph == t.Graph && n != nil && n.Batch &&
		other.Subject.Module == t.Subject.Module && other.Subject.Hook == t.Subject.Hook &&
		other.Abandoned == t.Abandoned && !other.Journal && !t.NoBatch && !other.NoBatch
}
