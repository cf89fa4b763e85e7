package draw

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"addon-operator/workflow/graph"
)

// Width is the maximum number of columns of [Text].
const Width = 80

// Text returns g as an outline for a terminal, at most [Width] columns wide. The outline begins
// with the triggers. Then the outline has the nodes of each group with their descriptions, their
// edges (->) and the nodes at which a failed run starts over (<-). The outline ends with the
// meanings of the arrows and of words on the edges. The line of a node with a state begins with the
// icon of the state and shows the state after the name. Control characters in the texts of g and
// states are replaced by spaces.
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
	o.legend()
	return o.String()
}

// An outline builds a text whose lines have at most [Width] columns.
type outline struct {
	strings.Builder
	g      *graph.Graph
	column int // width of the longest number of a node
}

// heading begins a part of the outline. name may be empty.
func (o *outline) heading(name string) {
	o.WriteString("\n")
	if name != "" {
		o.line("", name)
	}
}

// legend writes the words that the edges use, with their meanings in one column.
func (o *outline) legend() {
	lines := [][2]string{}
	for _, w := range legend {
		if slices.ContainsFunc(o.g.Edges, w.on) {
			lines = append(lines, [2]string{w.word, w.meaning})
		}
	}
	lines = append(
		lines, [2]string{"->", "leads to, when done; without a word about its place, the next task uses the slot of the finished task"},
		[2]string{"<-", "the run starts over there, when failed; without this line, only the step is tried again"},
	)
	widest := 0
	for _, line := range lines {
		widest = max(widest, utf8.RuneCountInString(line[0]))
	}
	for _, line := range lines {
		o.line(fmt.Sprintf("  %-*s  ", widest, line[0]), line[1])
	}
}

// node writes n, its state, its description and its edges.
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

// edges writes a line for each edge for which the function among returns true.
func (o *outline) edges(among func(graph.Edge) bool) {
	for _, e := range o.g.Edges {
		if among(e) {
			o.line(o.indent()+"-> ", strings.Join(append([]string{title(o.g, e.To)}, terms(e)...), ", "))
		}
	}
}

// indent returns the indentation of the lines about a node.
func (o *outline) indent() string { return strings.Repeat(" ", o.column+4) }

// line writes a line that begins with lead and continues with text. If the text does not fit on this line, its
// further lines are indented by the width of lead.
func (o *outline) line(lead, text string) {
	wide := utf8.RuneCountInString(lead)
	for _, part := range wrap(flat(text), max(Width-wide, 1)) {
		o.WriteString(strings.TrimRight(lead+part, " ") + "\n")
		lead = strings.Repeat(" ", wide)
	}
}

// wrap breaks text between words into lines of at most width characters. wrap also breaks words
// that are longer than width. wrap returns at least one line.
func wrap(text string, width int) []string {
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
