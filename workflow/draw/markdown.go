package draw

import (
	"slices"
	"strings"
	"unicode"

	"addon-operator/workflow/graph"
)

// Markdown returns the reference page of g, which must have passed Check: the
// drawing, how to read it, a section for each node with all that the graph
// says of it, and the meaning of every name the graph declares.
func Markdown(g *graph.Graph) string {
	p := page{g: g}
	p.put("# The " + g.Name + " graph")
	p.put("Generated from the code; do not edit: `go test ./workflow/draw -update` writes it anew.")
	p.put(sentence(g.Doc))
	p.put("## Drawing")
	p.put("```mermaid\n" + Mermaid(g, nil) + "```")
	p.reading()
	p.put("## Nodes")
	for _, part := range groups(g) {
		if part.name != "" {
			p.put("### " + prose(part.name))
		}
		for _, n := range part.nodes {
			p.node(n)
		}
	}
	p.names()
	return strings.TrimSuffix(p.String(), "\n")
}

// A page is markdown under way.
type page struct {
	strings.Builder
	g *graph.Graph
}

// put writes block, if there is anything in it.
func (p *page) put(block string) {
	if block != "" {
		p.WriteString(block + "\n\n")
	}
}

// reading explains the drawing.
func (p *page) reading() {
	p.put("A box is a node: a step that is done as a task, which waits in a queue until it is its turn. " +
		"A flag is a trigger, a cause from outside. A round box is a signal, a place where arrows meet. " +
		"A task that is done gives way to the tasks of every arrow that holds, in the order in which *leads to* lists them: " +
		"a solid arrow puts its task on the place of the finished one, before all that waits behind it; " +
		"a dotted one puts it elsewhere. An arrow holds *if* its fact was found or *unless* it was; " +
		"*each of* a list is one task that stands for all members of the list.")
	var rows []string
	for _, w := range legend {
		if slices.ContainsFunc(p.g.Edges, w.on) {
			rows = append(rows, row(w.word, prose(w.meaning)))
		}
	}
	if len(rows) > 0 {
		p.table("on an arrow | means", rows)
	}
}

// node writes the section of n.
func (p *page) node(n *graph.Node) {
	p.put("#### " + title(p.g, n.ID))
	p.put(sentence(n.Doc))
	var items []string
	add := func(name, text string) {
		if text != "" {
			items = append(items, "- **"+name+"** "+text)
		}
	}
	list := func(name string, entries []string) {
		switch len(entries) {
		case 0:
		case 1:
			add(name, entries[0])
		default:
			items = append(items, "- **"+name+"**\n  - "+strings.Join(entries, "\n  - "))
		}
	}
	add("about", subjects[n.Scope])
	list("follows", p.before(n.ID))
	if n.ForEach != "" {
		add("repeated over", named(n.ForEach, p.g.FanOuts))
	}
	list("given", meanings(n.Inputs, p.g.Inputs))
	list("may hand back", meanings(n.Outputs, p.g.Outputs))
	list("leads to", p.after(n.ID))
	add("on error", p.failure(n))
	list("besides", traits(n))
	p.put(strings.Join(items, "\n"))
}

// before returns what leads to the node.
func (p *page) before(id graph.NodeID) []string {
	var out []string
	for _, e := range p.g.Edges {
		if e.To != id {
			continue
		}
		from := p.link(e.From)
		if e.On != "" {
			from = "trigger *" + prose(string(e.On)) + "*"
		}
		out = append(out, strings.Join(append([]string{from}, emphasised(e)...), ", "))
	}
	return out
}

// after returns what the node leads to.
func (p *page) after(id graph.NodeID) []string {
	var out []string
	for _, e := range p.g.Edges {
		if e.From == id {
			out = append(out, strings.Join(append([]string{p.link(e.To)}, emphasised(e)...), ", "))
		}
	}
	return out
}

// failure says where the run goes when the node fails.
func (p *page) failure(n *graph.Node) string {
	wait := ", after a delay that grows"
	if n.FixedDelay {
		wait = ", after the same delay each time"
	}
	switch {
	case n.Junction || n.JoinsRunning:
		return ""
	case n.RetryFrom != "":
		return "the run starts over at " + p.link(n.RetryFrom) + wait
	default:
		return "it is tried again itself" + wait
	}
}

// link returns a link to the section of the node.
func (p *page) link(id graph.NodeID) string {
	return "[" + title(p.g, id) + "](#" + anchor(p.g, id) + ")"
}

// anchor returns what links to the section of the node name, as GitHub makes
// it of the heading.
func anchor(g *graph.Graph, id graph.NodeID) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, title(g, id))
}

// subjects says what the tasks of a node of each scope are about.
var subjects = map[graph.Scope]string{
	graph.ScopeModule:  "one module or release",
	graph.ScopeBinding: "one binding of one hook",

	graph.ScopeConfiguration: "one addons configuration",
}

// traits says what is special about n.
func traits(n *graph.Node) []string {
	var out []string
	for _, t := range []struct {
		has bool
		say string
	}{
		{n.Junction, "a signal: it has no step and makes no task"},
		{n.Unique, "once: of equal tasks that wait, the one nearer the head stays"},
		{n.Batch, "ranges: one run takes all adjacent tasks of the same hook"},
		{n.JoinsRunning, "adopts: it starts no member of its list, it waits for their end"},
		{n.Uninterruptible, "finishes: a cut lets a run that has come so far go to its end"},
		{n.WakesFailed, "revives: when it is done, what failed elsewhere is tried again at once"},
	} {
		if t.has {
			out = append(out, t.say)
		}
	}
	return out
}

// emphasised returns the terms of e as markdown.
func emphasised(e graph.Edge) []string {
	say := terms(e)
	for i, t := range say {
		say[i] = "*" + prose(t) + "*"
	}
	return say
}

// meanings returns each name with its meaning.
func meanings[K ~string](names []K, docs map[K]string) []string {
	var out []string
	for _, name := range names {
		out = append(out, named(name, docs))
	}
	return out
}

// named returns one name with its meaning.
func named[K ~string](name K, docs map[K]string) string {
	return "*" + prose(string(name)) + "* — " + prose(docs[name])
}
