package graph

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Check returns all errors in g as one error: names that are used but not declared, or declared but
// not used; nodes to which no trigger leads; and declarations that are incomplete or contradict each
// other. Check returns nil if g has no error.
func (g *Graph) Check() error {
	c := checker{g: g, used: names{}}
	c.nodes()
	c.edges()
	c.reach()
	c.declare()
	return errors.Join(c.errs...)
}

// names has names by their kind: "fan-out", "input", "output", "fact" or "trigger".
type names map[string]map[string]bool

func (n names) add(kind, name string) {
	if name == "" {
		return
	}
	if n[kind] == nil {
		n[kind] = map[string]bool{}
	}
	n[kind][name] = true
}

type checker struct {
	g    *Graph
	used names
	errs []error
}

func (c *checker) bad(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("graph %s: "+format, append([]any{c.g.Name}, args...)...))
}

func (c *checker) nodes() {
	seen := map[NodeID]bool{}
	for _, n := range c.g.Nodes {
		if seen[n.ID] {
			c.bad("node %s is declared twice", n.ID)
		}
		seen[n.ID] = true
		for _, rule := range nodeRules {
			if rule.broken(&n) {
				c.bad(rule.message, n.ID)
			}
		}
		if _, ok := c.g.Node(n.RetryFrom); n.RetryFrom != "" && !ok {
			c.bad("node %s retries from the unknown node %s", n.ID, n.RetryFrom)
		}
		c.used.add("fan-out", string(n.ForEach))
		for _, in := range n.Inputs {
			c.used.add("input", string(in))
		}
		for _, out := range n.Outputs {
			c.used.add("output", string(out))
		}
	}
}

// nodeRules are the rules for the declaration of a node. message is a format for the ID of the node
// that breaks the rule.
var nodeRules = []struct {
	message string
	broken  func(n *Node) bool
}{
	{"node %s needs a number and a doc", func(n *Node) bool { return n.Doc == "" || n.Number == "" }},
	{"junction %s has no task, so it cannot have ForEach, RetryFrom, Unique, Batch, JoinsRunning, Inputs or Outputs", func(n *Node) bool {
		return n.Junction && (n.ForEach != "" || n.RetryFrom != "" || n.Unique || n.Batch || n.JoinsRunning || len(n.Inputs)+len(n.Outputs) > 0)
	}},
	{"node %s cannot have both ForEach and Batch", func(n *Node) bool { return n.Batch && n.ForEach != "" }},
	{"node %s has JoinsRunning and needs ForEach and the scope of a module", func(n *Node) bool {
		return n.JoinsRunning && (n.ForEach == "" || n.Scope == ScopeAll)
	}},
}

func (c *checker) edges() {
	for _, e := range c.g.Edges {
		c.ends(e)
		c.junctions(e)
		c.conditions(e)
		c.places(e)
		c.used.add("fan-out", string(e.ForEach))
		c.used.add("fact", string(e.When))
		c.used.add("fact", string(e.Unless))
		c.used.add("trigger", string(e.On))
	}
}

// ends checks the start and the end of e.
func (c *checker) ends(e Edge) {
	if (e.On == "") == (e.From == "") {
		c.bad("the edge to %s needs exactly one of On and From", e.To)
	}
	if _, ok := c.g.Node(e.From); e.From != "" && !ok {
		c.bad("edge from unknown node %s", e.From)
	}
	if _, ok := c.g.Node(e.To); !ok {
		c.bad("edge to unknown node %s", e.To)
	}
}

// junctions checks that e does not treat a junction as a node with a task.
func (c *checker) junctions(e Edge) {
	if to, ok := c.g.Node(e.To); ok && to.Junction && (e.Place != Stack || e.ForEach != "") {
		c.bad("the edge to junction %s has Place or ForEach; only the edges from the junction can", e.To)
	}
	if from, ok := c.g.Node(e.From); ok && from.Junction && (e.When != "" || e.Unless != "") {
		c.bad("the edge from junction %s has When or Unless; a junction has no facts", e.From)
	}
}

// conditions checks that the node or trigger at which e starts allows the conditions and options of e.
func (c *checker) conditions(e Edge) {
	if e.CancelsPending && (e.From == "" || e.Place != Stack || e.ForEach != "") {
		c.bad("the edge to %s has CancelsPending and must lead from a node and have no Place and no ForEach", e.To)
	}
	if e.On != "" && (e.When != "" || e.Unless != "" || e.ForEach != "") {
		c.bad("the edge on %q has When, Unless or ForEach; a trigger has no facts and no items", e.On)
	}
}

// places checks the Place of e or, if e leads to a junction, of the edges that are taken instead of
// e. An edge from a trigger cannot use Stack, because there is no finished task. An edge from a
// node cannot use BindingQueue, because only the event of a trigger has the queue of a binding. The
// engine would treat such edges as if they had the Place Tail.
func (c *checker) places(e Edge) {
	from, known := c.g.Node(e.From)
	for _, last := range c.g.selectEdges(func(other Edge) bool { return other == e }, 0) {
		switch to, ok := c.g.Node(last.To); {
		case !ok || to.Junction:
		case e.On != "" && last.Place == Stack:
			c.bad("trigger %q leads to %s by an edge without Place; a trigger has no finished task whose stack could be used", e.On, last.To)
		case known && !from.Junction && last.Place == BindingQueue:
			c.bad("node %s leads to %s by an edge with Place BindingQueue; only the event of a trigger has the queue of a binding", e.From, last.To)
		}
	}
}

func (c *checker) reach() {
	reached := map[NodeID]bool{}
	for grew := true; grew; {
		grew = false
		for _, e := range c.g.Edges {
			if (e.On != "" || reached[e.From]) && !reached[e.To] {
				reached[e.To], grew = true, true
			}
		}
	}
	for _, n := range c.g.Nodes {
		if !reached[n.ID] {
			c.bad("node %s is reached from no trigger", n.ID)
		}
		if n.Junction && c.circles(n.ID) {
			c.bad("junction %s leads back to itself", n.ID)
		}
	}
}

// circles reports whether a path of junctions leads from id back to id.
func (c *checker) circles(id NodeID) bool {
	at, seen := []NodeID{id}, map[NodeID]bool{}
	for len(at) > 0 {
		var next []NodeID
		for _, e := range c.g.Edges {
			n, ok := c.g.Node(e.To)
			if !ok || !n.Junction || !slices.Contains(at, e.From) {
				continue
			}
			if e.To == id {
				return true
			}
			if !seen[e.To] {
				seen[e.To] = true
				next = append(next, e.To)
			}
		}
		at = next
	}
	return false
}

func (c *checker) declare() {
	describe(c, "trigger", c.g.Triggers)
	describe(c, "fact", c.g.Facts)
	describe(c, "fan-out", c.g.FanOuts)
	describe(c, "input", c.g.Inputs)
	describe(c, "output", c.g.Outputs)
}

func describe[K ~string](c *checker, kind string, docs map[K]string) {
	for _, name := range slices.Sorted(maps.Keys(c.used[kind])) {
		if docs[K(name)] == "" {
			c.bad("%s %q is used but not described", kind, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		if !c.used[kind][string(name)] {
			c.bad("%s %q is described but not used", kind, name)
		}
	}
}
