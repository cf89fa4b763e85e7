package draw

import (
	"slices"
	"strings"
	"unicode"

	"addon-operator/workflow/graph"
)

// Markdown returns the reference page of g, which must have passed Check. The page has the drawing, an
// explanation of its symbols, a section for each node, and the meaning of each declared name.
func Markdown(g *graph.Graph) string {
	p := page{g: g}
	p.put("# The " + g.Name + " graph")
	p.put("Generated from the code; do not edit: `go test ./workflow/draw -update` writes it.")
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

// A page builds a markdown page.
type page struct {
	strings.Builder
	g *graph.Graph
}

// put writes the given block of the page, unless the block is empty.
func (p *page) put(block string) {
	if block != "" {
		p.WriteString(block + "\n\n")
	}
}

// reading writes the part of the page that explains the symbols in the drawing.
func (p *page) reading() {
	p.put("A box is a node: a step, which runs as a task of a queue. A flag is a trigger: a cause outside the graph. " +
		"A round box is a junction: a node where arrows meet; it has no task. " +
		"A finished task is replaced by the tasks of all arrows whose condition holds, in the order of *leads to*. " +
		"A solid arrow puts its task on the stack of the finished task, before the tasks behind it. " +
		"A dotted arrow puts its task in another slot or queue. " +
		"*if* holds when the step reports the fact. *unless* holds when the step does not report it. " +
		"*each of* is a fan-out: one task represents all items, except on a dotted arrow, where each item gets a task of its own.")
	if slices.ContainsFunc(p.g.Nodes, func(n graph.Node) bool { return n.Scope == graph.ScopeBinding }) {
		p.put("After an error, a hook is not retried if its binding has `allowFailure: true`, unless the operator could not start the hook.")
	}
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
		add("for each of", named(n.ForEach, p.g.FanOuts))
	}
	list("inputs", meanings(n.Inputs, p.g.Inputs))
	list("outputs", meanings(n.Outputs, p.g.Outputs))
	list("leads to", p.after(n.ID))
	add("on error", p.failure(n))
	list("properties", traits(n))
	p.put(strings.Join(items, "\n"))
}

// before returns the edges to the node.
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

// after returns the edges from the node.
func (p *page) after(id graph.NodeID) []string {
	var out []string
	for _, e := range p.g.Edges {
		if e.From == id {
			out = append(out, strings.Join(append([]string{p.link(e.To)}, emphasised(e)...), ", "))
		}
	}
	return out
}

// failure returns a clause that names the work that is retried if n fails; empty if n has no step.
func (p *page) failure(n *graph.Node) string {
	wait := ", with an increasing delay"
	if n.FixedDelay {
		wait = ", with a constant delay"
	}
	switch {
	case n.Junction || n.JoinsRunning:
		return ""
	case n.RetryFrom != "":
		return "the run starts again at " + p.link(n.RetryFrom) + wait
	default:
		return "the step is retried" + wait
	}
}

// link returns a link to the section of the node.
func (p *page) link(id graph.NodeID) string {
	return "[" + title(p.g, id) + "](#" + anchor(p.g, id) + ")"
}

// anchor returns the link target that GitHub computes from the heading of the node's section.
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

// subjects describes the subject of a task for each scope.
var subjects = map[graph.Scope]string{
	graph.ScopeModule:  "one module or release",
	graph.ScopeBinding: "one binding of one hook",

	graph.ScopeConfiguration: "one addons configuration",
}

// traits returns descriptions of the options that n has.
func traits(n *graph.Node) []string {
	var out []string
	for _, t := range []struct {
		has bool
		say string
	}{
		{n.Junction, "junction: it has no step and no task"},
		{n.Unique, "unique: of equal waiting tasks, only the one nearest to the head stays"},
		{n.Batch, "batch: one attempt can process several adjacent tasks of the same hook"},
		{n.JoinsRunning, "joins running: it waits for items that already run, and starts none"},
		{n.Uninterruptible, "uninterruptible: a rewind waits for the end of a task at this node"},
		{n.WakesFailed, "wakes failed: when its step reports a fact, all failed tasks are retried at once"},
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
