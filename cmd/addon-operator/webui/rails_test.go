package webui

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/workflow/addons"
	"addon-operator/workflow/draw"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// randomGraph returns a graph with n nodes in groups and random edges.
func randomGraph(random *rand.Rand, n int) *graph.Graph {
	g := &graph.Graph{Name: "random"}
	for i := range n {
		g.Nodes = append(g.Nodes, graph.Node{ID: graph.NodeID(fmt.Sprint("n", i)), Group: fmt.Sprint("g", i/4)})
	}
	for range 2 * n {
		g.Edges = append(g.Edges, graph.Edge{From: g.Nodes[random.IntN(n)].ID, To: g.Nodes[random.IntN(n)].ID})
	}
	return g
}

// pathNumber matches a command of an SVG path with its numbers.
var pathNumber = regexp.MustCompile(`([MHVQ])([-0-9 ]+)`)

// pointsOf returns the x and y coordinates in an SVG path.
func pointsOf(t *testing.T, path string) (xs, ys []int) {
	t.Helper()
	for _, found := range pathNumber.FindAllStringSubmatch(path, -1) {
		for i, text := range strings.Fields(found[2]) {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if found[1] == "H" || found[1] != "V" && i%2 == 0 {
				xs = append(xs, n)
			} else {
				ys = append(ys, n)
			}
		}
	}
	return xs, ys
}

// TestEdgesOfADrawingDoNotRunOverEachOther draws the graphs of the operator and random graphs. Nodes and edges must be
// inside the drawing, nodes must not overlap, and edges that overlap in a track must lead to the same node.
func TestEdgesOfADrawingDoNotRunOverEachOther(t *testing.T) {
	t.Parallel()
	graphs := []*graph.Graph{lifecycle.Graph, addons.Graph}
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test with a fixed seed
		graphs = append(graphs, randomGraph(random, 2+random.IntN(20)))
	}
	for i, g := range graphs {
		name := fmt.Sprintf("graph %d, %s", i, g.Name)
		r := newRails(g, draw.States{}, "")
		if len(r.Nodes) != len(g.Nodes) {
			t.Fatalf("%s: %d of %d nodes are drawn", name, len(r.Nodes), len(g.Nodes))
		}
		for i, n := range r.Nodes {
			if n.X < 0 || n.X+n.Width > r.Width || n.Y < 0 || n.Y+n.Height > r.Height || i > 0 && n.Y < r.Nodes[i-1].Y+r.Nodes[i-1].Height {
				t.Errorf("%s: node %d is at %+v", name, i, n)
			}
		}
		for i, e := range r.Edges {
			xs, ys := pointsOf(t, e.Path)
			for _, x := range xs {
				if x < 0 || x > r.Width {
					t.Errorf("%s: the edge %s leaves the drawing, which is %d wide: %s", name, e.Title, r.Width, e.Path)
				}
			}
			for _, y := range ys {
				if y < 0 || y > r.Height {
					t.Errorf("%s: the edge %s leaves the drawing, which is %d high: %s", name, e.Title, r.Height, e.Path)
				}
			}
			for _, other := range r.Edges[:i] {
				side := e.to > e.from == (other.to > other.from)
				rows := min(e.from, e.to) <= max(other.from, other.to) && min(other.from, other.to) <= max(e.from, e.to)
				if side && e.track >= 0 && e.track == other.track && rows && e.to != other.to {
					t.Errorf("%s: %s and %s share a track", name, e.Title, other.Title)
				}
			}
		}
	}
}

func TestEdgesRunBesideTheNodesUnlessTheyLeadToTheNextOne(t *testing.T) {
	t.Parallel()
	g := &graph.Graph{Name: "g", Nodes: []graph.Node{{ID: "a"}, {ID: "b"}, {ID: "c"}}, Edges: []graph.Edge{
		{From: "a", To: "b"}, {From: "a", To: "c"}, {From: "c", To: "a"}, {From: "b", To: "b"},
	}}
	r := newRails(g, draw.States{}, "")
	left := r.Nodes[0].X
	got := map[string]string{}
	for _, e := range r.Edges {
		xs, _ := pointsOf(t, e.Path)
		lowest, highest := xs[0], xs[0]
		for _, x := range xs {
			lowest, highest = min(lowest, x), max(highest, x)
		}
		switch {
		case lowest >= left+railWidth:
			got[e.Title] = "right"
		case highest <= left:
			got[e.Title] = "left"
		case lowest == highest:
			got[e.Title] = "straight"
		default:
			got[e.Title] = e.Path
		}
	}
	want := map[string]string{"a → b": "straight", "a → c": "right", "c → a": "left", "b → b": "left"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := "graph g with 3 nodes and 4 edges; the outline below shows the same"; r.About != want {
		t.Errorf("the drawing is described as %q", r.About)
	}
}

func TestADrawingMarksWhereTheRunBeganAndWhatItHasReached(t *testing.T) {
	t.Parallel()
	g := &graph.Graph{
		Name:  "g",
		Nodes: []graph.Node{{ID: "a", Number: "1", Doc: "the first"}, {ID: "b", Doc: "the second"}, {ID: "c"}},
		Edges: []graph.Edge{
			{On: "start", To: "a", Place: graph.Tail}, {On: "reload", To: "b", Place: graph.Tail}, {From: "a", To: "b"}, {From: "b", To: "c", Place: graph.Front},
		},
	}
	states := draw.States{
		"a": {Tone: draw.Done, Icon: "✔", Word: "done"}, "b": {Tone: draw.Failed, Icon: "✖", Word: "failed", Detail: "no such host"},
	}
	r := newRails(g, states, "start")
	type node struct {
		Label, Title, Tone, State string
		Begins                    bool
	}
	var nodes []node
	for _, n := range r.Nodes {
		nodes = append(nodes, node{n.Label, n.Title, n.Tone, n.State, n.Begins})
	}
	want := []node{
		{"1 a", "the first", "good", "✔ done", true},
		{"b", "the second; failed: no such host", "bad", "✖ failed", false},
		{"c", "", "none", "", false},
	}
	if diff := cmp.Diff(want, nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	taken, elsewhere := map[string]bool{}, map[string]bool{}
	for _, e := range r.Edges {
		taken[e.Title], elsewhere[e.Title] = e.Taken, e.Elsewhere
	}
	titled := "b → c, " + string(graph.Front)
	if diff := cmp.Diff(map[string]bool{"a → b": true, titled: false}, taken); diff != "" {
		t.Errorf("taken edges (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"a → b": false, titled: true}, elsewhere); diff != "" {
		t.Errorf("edges to another place (-want +got):\n%s", diff)
	}
}

func TestEachGroupOfNodesHasOneHeading(t *testing.T) {
	t.Parallel()
	g := &graph.Graph{Nodes: []graph.Node{{ID: "a", Group: "one"}, {ID: "b", Group: "one"}, {ID: "c", Group: "two"}, {ID: "d"}, {ID: "e", Group: "two"}}}
	r := newRails(g, draw.States{}, "")
	var headings []string
	for _, h := range r.Headings {
		headings = append(headings, h.Text)
	}
	if diff := cmp.Diff([]string{"one", "two", "two"}, headings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i, want := range []int{36, 70, 134, 168, 232} {
		if got := r.Nodes[i].Y; got != want {
			t.Errorf("node %d is at %d, want %d", i, got, want)
		}
	}
	for i, want := range []int{24, 122, 220} {
		if got := r.Headings[i].Y; got != want {
			t.Errorf("heading %d is at %d, want %d", i, got, want)
		}
	}
}

func TestTheTitleOfAnEdgeSaysWhenItIsTaken(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]graph.Edge{
		"a → b":                        {From: "a", To: "b"},
		"a → b, if changed":            {From: "a", To: "b", When: "changed"},
		"a → b, unless changed":        {From: "a", To: "b", Unless: "changed"},
		"a → b, each of enabled":       {From: "a", To: "b", ForEach: "enabled"},
		"a → b, " + string(graph.Tail): {From: "a", To: "b", Place: graph.Tail},
		"a → b, if x, unless y, each of z, " + string(graph.Front): {From: "a", To: "b", When: "x", Unless: "y", ForEach: "z", Place: graph.Front},
	} {
		if got := edgeTitle(e); got != want {
			t.Errorf("the title is %q, want %q", got, want)
		}
	}
}
