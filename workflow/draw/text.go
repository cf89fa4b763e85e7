package draw

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"addon-operator/workflow/graph"
)

// Width is how many columns [Text] uses at most.
const Width = 80

// Text returns g as an outline for a terminal, at most [Width] columns wide:
// the triggers, then the nodes of each group with what they do, where they lead
// (->) and where a failed run starts over (<-), then what the words mean. A
// node that has a state begins with its icon and says it behind its name.
// Nothing in g or states reaches the terminal as a control character.
func Text(g *graph.Graph, states States) string {
	o := outline{g: g}
	for _, n := range g.Nodes {
		o.column = max(o.column, utf8.RuneCountInString(n.Number))
	}
	o.line("", g.Name+": "+g.Doc)
	if all := triggers(g); len(all) > 0 {
		o.heading("triggers")
		for _, t := range all {
			o.line("  ", string(t))
			o.edges(func(e graph.Edge) bool { return e.On == t })
		}
	}
	for _, part := range groups(g) {
		o.heading(part.name)
		for _, n := range part.nodes {
			o.node(n, states[n.ID])
		}
	}
	o.heading("words")
	for _, w := range legend {
		if slices.ContainsFunc(g.Edges, w.on) {
			o.line(fmt.Sprintf("  %-8s", w.word), w.meaning)
		}
	}
	o.line(fmt.Sprintf("  %-8s", "->"), "leads to, when done; an edge with no word about its place keeps that of the finished task")
	o.line(fmt.Sprintf("  %-8s", "<-"), "starts over there, when failed; any other node is tried again itself")
	return o.String()
}

// An outline is text made of lines that fit the width.
type outline struct {
	strings.Builder
	g      *graph.Graph
	column int // as wide as the longest number
}

// heading begins a part of the outline, which may have no name.
func (o *outline) heading(name string) {
	o.WriteString("\n")
	if name != "" {
		o.line("", name)
	}
}

// node writes n, its state, what it does and where it leads.
func (o *outline) node(n *graph.Node, s State) {
	icon, name := flat(s.Icon), string(n.ID)
	if icon == "" {
		icon = " "
	}
	if s.Word != "" {
		name += " [" + s.Word + "]"
	}
	o.line(fmt.Sprintf("%s %*s  ", icon, o.column, n.Number), name+" "+s.Detail)
	does := n.Doc
	if n.ForEach != "" {
		does += " (each of " + string(n.ForEach) + ")"
	}
	o.line(o.indent(), does)
	o.edges(func(e graph.Edge) bool { return e.From == n.ID })
	if n.RetryFrom != "" {
		o.line(o.indent()+"<- ", title(o.g, n.RetryFrom)+", on error")
	}
}

// edges writes the edges that are among those asked for.
func (o *outline) edges(among func(graph.Edge) bool) {
	for _, e := range o.g.Edges {
		if among(e) {
			o.line(o.indent()+"-> ", strings.Join(append([]string{title(o.g, e.To)}, terms(e)...), ", "))
		}
	}
}

// indent is what stands before all that is said of a node.
func (o *outline) indent() string { return strings.Repeat(" ", o.column+4) }

// line writes text behind lead, and what does not fit below it, indented as
// far as lead is wide.
func (o *outline) line(lead, text string) {
	wide := utf8.RuneCountInString(lead)
	for _, part := range fold(flat(text), max(Width-wide, 1)) {
		o.WriteString(strings.TrimRight(lead+part, " ") + "\n")
		lead = strings.Repeat(" ", wide)
	}
}

// fold cuts text between words into lines of at most width characters, and
// within a word that is longer than a line. It returns one line at least.
func fold(text string, width int) []string {
	var lines []string
	at := ""
	for word := range strings.FieldsSeq(text) {
		if at != "" && utf8.RuneCountInString(at)+1+utf8.RuneCountInString(word) > width {
			lines, at = append(lines, at), ""
		}
		for runes := []rune(word); len(runes) > width; runes = []rune(word) {
			lines, word = append(lines, string(runes[:width])), string(runes[width:])
		}
		at = strings.TrimLeft(at+" "+word, " ")
	}
	return append(lines, at)
}
