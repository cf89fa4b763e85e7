package draw_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/workflow/draw"
	"addon-operator/workflow/graph"
)

// hostile generates texts with characters that have a meaning in a drawing or on a page.
var hostile = rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
	"", `"`, `\`, `\"`, `\\`, "a\nb", "a\r\nb", "</div>", "<br/>", "&quot;", "#35;", "`code`", "a|b", "[a](b)", "end", "]", "])", "-->", "%%{init}%%", "classDef x", "\x1b[31m", "*a*", "_a_", "日本",
}))

// someDrawing returns a graph and states with random texts. other is the ID of one of its two nodes.
func someDrawing(t *rapid.T, other graph.NodeID) (*graph.Graph, draw.States) {
	text := func(what string) string { return hostile.Draw(t, what) }
	g := &graph.Graph{
		Name: text("name"), Doc: text("doc"),
		Nodes: []graph.Node{
			{ID: "first", Number: "1", Group: text("group"), Doc: text("doc of a node"), ForEach: graph.FanOut("each" + text("fan-out")), RetryFrom: other},
			{ID: other, Number: "2", Doc: text("doc of another node")},
		},
		Edges: []graph.Edge{
			{On: graph.Trigger("on" + text("trigger")), To: "first", Place: graph.Front}, {From: "first", To: other, When: graph.Fact(text("fact")), Unless: graph.Fact(text("exception"))},
		},
	}
	state := draw.State{Tone: rapid.SampledFrom([]draw.Tone{draw.Plain, draw.Done, draw.Failed}).Draw(t, "tone"), Icon: text("icon"), Word: text("word"), Detail: text("detail")}
	return g, draw.States{other: state, "first": state}
}

// Patterns for the lines of a drawing in the language of Graphviz.
var (
	dotText  = `"(?:[^"\\]|\\.)*"`
	dotValue = `(?:` + dotText + `|[\w.#]+)`
	dotAttrs = ` \[\w+=` + dotValue + `(?:, \w+=` + dotValue + `)*\]`
	dotLine  = regexp.MustCompile(`^(?:digraph ` + dotText + ` \{|\s*\}|  (?:graph|node|edge)` + dotAttrs + `|  subgraph cluster\d+ \{|    label=` + dotText + `|    color=gray60|` +
		`\s+` + dotText + dotAttrs + `|  ` + dotText + ` -> ` + dotText + `(?:` + dotAttrs + `)?)$`)
)

func TestNoTextBreaksOutOfADrawingForGraphviz(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g, states := someDrawing(t, graph.NodeID("x"+hostile.Draw(t, "node")))
		for line := range strings.Lines(draw.DOT(g, states)) {
			if line = strings.TrimSuffix(line, "\n"); !dotLine.MatchString(line) {
				t.Errorf("the line is not one of a drawing: %q", line)
			}
		}
	})
}

// Patterns for the lines of a mermaid drawing after its heading.
var (
	mermaidText = `"(?:[^"<>&` + "`" + `]|<br/>)*"`
	mermaidLine = regexp.MustCompile(`^(?:  on_\w+>` + mermaidText + `\]|  subgraph group\d+ \[` + mermaidText + `\]|  end|\s+node_\w+(?:\[` + mermaidText + `\]|\(\[` + mermaidText + `\]\))|` +
		`  \w+ -\.?->(?:\|` + mermaidText + `\|)? \w+|  classDef \w+ fill:#\w+,stroke:#\w+,color:#\w+|  class \w+(?:,\w+)* \w+)$`)
)

func TestNoTextBreaksOutOfAMermaidDrawing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g, states := someDrawing(t, graph.NodeID("x"+hostile.Draw(t, "node")))
		_, drawing, _ := strings.Cut(draw.Mermaid(g, states), "flowchart TB\n")
		for line := range strings.Lines(drawing) {
			if line = strings.TrimSuffix(line, "\n"); !mermaidLine.MatchString(line) {
				t.Errorf("the line is not one of a drawing: %q", line)
			}
		}
	})
}

// TestNoTextBreaksOutOfAPage checks that the page has the headings and the tables that the code writes, and no others.
func TestNoTextBreaksOutOfAPage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g, _ := someDrawing(t, "other")
		g.Facts = map[graph.Fact]string{g.Edges[1].When: hostile.Draw(t, "meaning")}
		_, page, _ := strings.Cut(draw.Markdown(g), "## Nodes\n")
		border := regexp.MustCompile(`(?:^|[^\\])\|`)
		for block := range strings.SplitSeq(page, "\n\n") {
			for line := range strings.Lines(block) {
				n := len(border.FindAllString(line, -1))
				if isTable := strings.Contains(block, "\n|---"); isTable && n != 4 {
					t.Errorf("a row has %d borders, want 4: %q", n, line)
				}
				if strings.ContainsAny(line, "<>") {
					t.Errorf("the page has HTML: %q", line)
				}
			}
		}
	})
}

func TestColoursOfANodeAreThoseOfItsState(t *testing.T) {
	t.Parallel()
	g := &graph.Graph{Name: "g", Nodes: []graph.Node{{ID: "a", Number: "1"}, {ID: "b", Number: "2"}, {ID: "c", Number: "3"}, {ID: "d", Number: "4"}}}
	states := draw.States{"a": {Tone: draw.Failed, Icon: "✖", Word: "failed"}, "b": {Tone: draw.Done, Detail: "web"}, "c": {Word: "dropped"}, "unknown": {Tone: draw.Failed}}
	_, drawing, _ := strings.Cut(draw.Mermaid(g, states), "flowchart TB\n")
	want := `  node_a["1 a<br/>✖ failed"]
  node_b["2 b<br/>web"]
  node_c["3 c<br/>dropped"]
  node_d["4 d"]
  classDef done fill:#d3f2d9,stroke:#2da44e,color:#10391c
  class node_b done
  classDef failed fill:#ffd7d5,stroke:#cf222e,color:#5c0f14
  class node_a failed
`
	if diff := cmp.Diff(want, drawing); diff != "" {
		t.Errorf("mermaid (-want +got):\n%s", diff)
	}
	var nodes []string
	for line := range strings.Lines(draw.DOT(g, states)) {
		if strings.HasPrefix(line, `  "`) {
			nodes = append(nodes, strings.TrimSpace(line))
		}
	}
	wantNodes := []string{
		`"a" [label="1 a\n✖ failed", style=filled, fillcolor="#ffd7d5", color="#cf222e", fontcolor="#5c0f14"]`,
		`"b" [label="2 b\nweb", style=filled, fillcolor="#d3f2d9", color="#2da44e", fontcolor="#10391c"]`,
		`"c" [label="3 c\ndropped"]`, `"d" [label="4 d"]`,
	}
	if diff := cmp.Diff(wantNodes, nodes); diff != "" {
		t.Errorf("DOT (-want +got):\n%s", diff)
	}
}

func TestOnlyTheWordsThatEdgesUseAreExplained(t *testing.T) {
	t.Parallel()
	for word, edge := range map[string]graph.Edge{
		"front": {Place: graph.Front}, "tail": {Place: graph.Tail}, "binding queue": {Place: graph.BindingQueue}, "rewind": {Place: graph.Rewind}, "cancels pending": {CancelsPending: true}, "loop": {Loop: true},
	} {
		edge.From, edge.To = "a", "a"
		g := &graph.Graph{Name: "g", Nodes: []graph.Node{{ID: "a", Number: "1"}}, Edges: []graph.Edge{edge}}
		_, words, _ := strings.Cut(draw.Text(g, nil), "\nwords\n")
		var explained []string
		for line := range strings.Lines(words) {
			if name, _, ok := strings.Cut(strings.TrimPrefix(line, "  "), "  "); ok && !strings.HasPrefix(line, "   ") {
				explained = append(explained, name)
			}
		}
		if diff := cmp.Diff([]string{word, "->", "<-"}, explained); diff != "" {
			t.Errorf("%s (-want +got):\n%s", word, diff)
		}
		if page := draw.Markdown(g); !strings.Contains(page, "\n| "+word+" | ") || strings.Count(page, "| on an arrow | means |") != 1 {
			t.Errorf("the page does not explain %q:\n%s", word, page)
		}
	}
}

func TestOneGroupHasOneHeadingWhereItBegins(t *testing.T) {
	t.Parallel()
	g := &graph.Graph{Name: "g", Nodes: []graph.Node{{ID: "a", Number: "1", Group: "x"}, {ID: "b", Number: "2", Group: "y"}, {ID: "c", Number: "3", Group: "x"}, {ID: "d", Number: "4"}}}
	var headings []string
	for line := range strings.Lines(draw.Markdown(g)) {
		if strings.HasPrefix(line, "###") {
			headings = append(headings, strings.TrimSpace(line))
		}
	}
	want := []string{"### x", "#### 1 a", "#### 3 c", "### y", "#### 2 b", "#### 4 d"}
	if diff := cmp.Diff(want, headings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAGraphWithoutWordsOnItsEdgesHasNoTableOfThem(t *testing.T) {
	t.Parallel()
	g := &graph.Graph{Name: "g", Nodes: []graph.Node{{ID: "a", Number: "1"}, {ID: "b", Number: "2"}}, Edges: []graph.Edge{{From: "a", To: "b", When: "x"}}}
	if page := draw.Markdown(g); strings.Contains(page, "on an arrow") {
		t.Errorf("the page explains words that it does not have:\n%s", page)
	}
}

func TestNodesOfAMermaidDrawingAreNamedWithPlainLetters(t *testing.T) {
	t.Parallel()
	g := &graph.Graph{Name: "g", Nodes: []graph.Node{{ID: "azAZ09", Number: "1"}, {ID: "a-é", Number: "2"}, {ID: "a_`", Number: "3"}}}
	_, drawing, _ := strings.Cut(draw.Mermaid(g, nil), "flowchart TB\n")
	want := "  node_azAZ09[\"1 azAZ09\"]\n  node_a__[\"2 a-é\"]\n  node_a___[\"3 a_#96;\"]\n"
	if diff := cmp.Diff(want, drawing); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
