package draw

import (
	"fmt"
	"strings"

	"addon-operator/workflow/graph"
)

// dotWidth is the maximum width of a line of a state, in characters. Graphviz does not break lines
// by itself.
const dotWidth = 40

// DOT returns g, which must have passed Check, in the language of Graphviz: a cluster for each
// group, flags for triggers, ellipses for junctions. A dashed arrow means that the next task does not
// use the slot of the finished task. A gray arrow leads to the node at which a failed run starts over.
// Nodes with a state show the state as text and color.
func DOT(g *graph.Graph, states States) string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n", dotString(g.Name))
	b.WriteString("  graph [newrank=true, nodesep=0.3, fontname=\"Helvetica\"]\n")
	b.WriteString("  node [shape=box, fontname=\"Helvetica\", fontsize=11]\n")
	b.WriteString("  edge [fontname=\"Helvetica\", fontsize=9]\n")
	for _, t := range triggers(g) {
		fmt.Fprintf(&b, "  %s [label=%s, shape=cds]\n", dotString("on "+string(t)), dotString(string(t)))
	}
	for i, part := range groups(g) {
		indent := "  "
		if part.name != "" {
			indent += "  "
			fmt.Fprintf(&b, "  subgraph cluster%d {\n    label=%s\n    color=gray60\n", i+1, dotString(part.name))
		}
		for _, n := range part.nodes {
			fmt.Fprintf(&b, "%s%s [%s]\n", indent, dotString(string(n.ID)), dotNode(g, n, states[n.ID]))
		}
		if part.name != "" {
			b.WriteString("  }\n")
		}
	}
	for _, e := range g.Edges {
		from := dotString(string(e.From))
		if e.On != "" {
			from = dotString("on " + string(e.On))
		}
		fmt.Fprintf(&b, "  %s -> %s%s\n", from, dotString(string(e.To)), dotEdge(e))
	}
	for _, n := range g.Nodes {
		if n.RetryFrom != "" {
			fmt.Fprintf(&b, "  %s -> %s [xlabel=\"on error\", color=gray60, fontcolor=gray40, constraint=false]\n",
				dotString(string(n.ID)), dotString(string(n.RetryFrom)))
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// dotNode returns the attributes of n.
func dotNode(g *graph.Graph, n *graph.Node, s State) string {
	say := []string{title(g, n.ID)}
	if n.ForEach != "" {
		say = append(say, "each of "+string(n.ForEach))
	}
	if text := s.line(); text != "" {
		say = append(say, wrap(text, dotWidth)...)
	}
	attrs := []string{"label=" + dotString(say...)}
	if n.Junction {
		attrs = append(attrs, "shape=ellipse")
	}
	for _, c := range colours {
		if c.tone == s.Tone {
			attrs = append(attrs, "style=filled", "fillcolor="+dotString(c.fill), "color="+dotString(c.border), "fontcolor="+dotString(c.text))
		}
	}
	return strings.Join(attrs, ", ")
}

// dotEdge returns the attributes of e in brackets; empty if there are none.
func dotEdge(e graph.Edge) string {
	var attrs []string
	if say := terms(e); len(say) > 0 {
		attrs = append(attrs, "label="+dotString(say...))
	}
	if e.Place != graph.Stack {
		attrs = append(attrs, "style=dashed")
	}
	if len(attrs) == 0 {
		return ""
	}
	return " [" + strings.Join(attrs, ", ") + "]"
}

// dotString returns lines as one quoted string.
func dotString(lines ...string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	for i, l := range lines {
		lines[i] = escape.Replace(flat(l))
	}
	return `"` + strings.Join(lines, `\n`) + `"`
}
