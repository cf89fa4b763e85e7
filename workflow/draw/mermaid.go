package draw

import (
	"fmt"
	"strings"

	"addon-operator/workflow/graph"
)

// mermaidHead sets the distances between nodes, so that a graph of about thirty nodes fits on one
// page.
const mermaidHead = `---
config:
  flowchart:
    nodeSpacing: 15
    rankSpacing: 30
    padding: 8
    subGraphTitleMargin:
      top: 4
      bottom: 16
---
flowchart TB
`

// Mermaid returns g, which must have passed Check, as a mermaid flowchart: a frame for each group, flags for triggers,
// round boxes for junctions. A solid arrow means that the next task uses the slot of the finished task. A dotted arrow
// means that the next task is put in another slot or queue. The box of a node names the node at which a failed run
// starts over, because arrows back would hide the other arrows. Nodes with a state show the state as text and color.
func Mermaid(g *graph.Graph, states States) string {
	var b strings.Builder
	b.WriteString(mermaidHead)
	keys := mermaidKeys(g)
	for _, t := range triggers(g) {
		fmt.Fprintf(&b, "  %s>%s]\n", keys[t], mermaidLabel(string(t)))
	}
	for i, part := range groups(g) {
		indent := "  "
		if part.name != "" {
			indent += "  "
			fmt.Fprintf(&b, "  subgraph group%d [%s]\n", i+1, mermaidLabel(part.name))
		}
		for _, n := range part.nodes {
			fmt.Fprintf(&b, "%s%s%s\n", indent, keys[n.ID], mermaidBox(g, n, states[n.ID]))
		}
		if part.name != "" {
			b.WriteString("  end\n")
		}
	}
	for _, e := range g.Edges {
		var from any = e.From
		if e.On != "" {
			from = e.On
		}
		arrow := "-->"
		if e.Place != graph.Stack {
			arrow = "-.->"
		}
		if say := terms(e); len(say) > 0 {
			arrow += "|" + mermaidLabel(say...) + "|"
		}
		fmt.Fprintf(&b, "  %s %s %s\n", keys[from], arrow, keys[e.To])
	}
	mermaidColours(&b, g, states, keys)
	return b.String()
}

// mermaidBox returns the box of n with its text.
func mermaidBox(g *graph.Graph, n *graph.Node, s State) string {
	say := []string{title(g, n.ID)}
	if n.ForEach != "" {
		say = append(say, "each of "+string(n.ForEach))
	}
	if n.RetryFrom != "" {
		say = append(say, "on error back to "+short(g, n.RetryFrom))
	}
	if text := s.line(); text != "" {
		say = append(say, text)
	}
	if n.Junction {
		return "([" + mermaidLabel(say...) + "])"
	}
	return "[" + mermaidLabel(say...) + "]"
}

// mermaidColours writes the colors of the states, and assigns them to nodes.
func mermaidColours(b *strings.Builder, g *graph.Graph, states States, keys map[any]string) {
	for _, c := range colours {
		var in []string
		for _, n := range g.Nodes {
			if states[n.ID].Tone == c.tone {
				in = append(in, keys[n.ID])
			}
		}
		if len(in) > 0 {
			fmt.Fprintf(b, "  classDef %s fill:%s,stroke:%s,color:%s\n", c.tone, c.fill, c.border, c.text)
			fmt.Fprintf(b, "  class %s %s\n", strings.Join(in, ","), c.tone)
		}
	}
}

// mermaidKeys returns a unique mermaid name for every node and every trigger. The prefixes keep the
// names apart from mermaid's keywords, such as end.
func mermaidKeys(g *graph.Graph) map[any]string {
	keys, taken := map[any]string{}, map[string]bool{}
	add := func(of any, key string) {
		key = strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
				return r
			}
			return '_'
		}, key)
		for taken[key] {
			key += "_"
		}
		keys[of], taken[key] = key, true
	}
	for _, n := range g.Nodes {
		add(n.ID, "node_"+string(n.ID))
	}
	for _, t := range triggers(g) {
		add(t, "on_"+string(t))
	}
	return keys
}

// mermaidLabel returns lines as the text of a box or an arrow.
func mermaidLabel(lines ...string) string {
	escape := strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "&", "#amp;", "`", "#96;")
	for i, l := range lines {
		lines[i] = escape.Replace(flat(l))
	}
	return `"` + strings.Join(lines, "<br/>") + `"`
}
