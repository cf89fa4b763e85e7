package webui

import (
	"fmt"
	"slices"
	"strings"

	"addon-operator/workflow/draw"
	"addon-operator/workflow/graph"
)

// Sizes in the drawing of a graph, in units of the viewBox of its SVG element.
const (
	railRow     = 34  // distance between the tops of two adjacent nodes
	railBox     = 26  // height of a node
	railWidth   = 300 // width of a node
	railTrack   = 11  // distance between two tracks of edges
	railHeading = 30  // height of a heading
	railCorner  = 6   // radius of the corners of edges
	railStem    = 20  // distance of a straight edge from the left side of a node
	railMargin  = 14  // distance between the nodes and the first track
)

// rails is the drawing of a graph. The nodes are below each other, in the order of the graph. The edges are
// in tracks beside the nodes: forward edges on the right, backward edges on the left. An edge to the next
// node is a straight line between the two nodes.
type rails struct {
	Width, Height int
	Headings      []railText
	Nodes         []railNode
	Edges         []railEdge
	About         string
}

// A railText is a heading in the drawing: the name of a group of nodes.
type railText struct {
	X, Y int
	Text string
}

// A railNode is a node in the drawing, with its position and its state in the run.
type railNode struct {
	X, Y, Width, Height int
	TextX, TextY        int
	StateX              int
	Label, Title, Tone  string
	State               string
	Begins              bool // set if the run began at this node
	group               string
	id                  graph.NodeID
}

// A railEdge is an edge in the drawing, with its SVG path.
type railEdge struct {
	Path, Title string
	// Taken is set if the run has reached the nodes at both ends of the edge.
	Taken bool
	// Elsewhere is set if the edge does not put its task on the stack of the finished task.
	Elsewhere bool

	from, to int // rows
	track    int
}

// newRails returns a drawing of g with the states of a run. trigger is the trigger of the run.
func newRails(g *graph.Graph, states draw.States, trigger string) *rails {
	r := &rails{}
	rows := r.rows(g)
	var forward, back []railEdge
	for _, e := range g.Edges {
		if e.On != "" {
			if string(e.On) == trigger {
				r.Nodes[rows[e.To]].Begins = true
			}
			continue
		}
		edge := railEdge{
			from: rows[e.From], to: rows[e.To], Title: edgeTitle(e), Elsewhere: e.Place != graph.Stack,
			Taken: states[e.From].Word != "" && states[e.To].Word != "",
		}
		if edge.to > edge.from {
			forward = append(forward, edge)
		} else {
			back = append(back, edge)
		}
	}
	left := assignTracks(back)*railTrack + railMargin + railCorner
	right := assignTracks(forward)*railTrack + railMargin + railCorner
	r.place(left, states)
	for _, e := range append(forward, back...) {
		e.Path = r.path(e)
		r.Edges = append(r.Edges, e)
	}
	r.Width = left + railWidth + right
	r.About = fmt.Sprintf("graph %s with %d nodes and %d edges; the outline below shows the same", g.Name, len(r.Nodes), len(r.Edges))
	return r
}

// rows adds the nodes of g to the drawing, and returns the row of each node, counted from 0.
func (r *rails) rows(g *graph.Graph) map[graph.NodeID]int {
	rows := map[graph.NodeID]int{}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		rows[n.ID] = i
		r.Nodes = append(r.Nodes, railNode{
			Label: strings.TrimSpace(n.Number + " " + string(n.ID)), Title: n.Doc, group: n.Group, id: n.ID, Height: railBox, Width: railWidth,
		})
	}
	return rows
}

// place sets the positions of the headings and of the nodes, and adds the states to the nodes. The argument left is the
// width of the space for backward edges.
func (r *rails) place(left int, states draw.States) {
	y := chartTop
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if n.group != "" && (i == 0 || r.Nodes[i-1].group != n.group) {
			r.Headings = append(r.Headings, railText{left + railStem + 8, y + railHeading - 12, n.group})
			y += railHeading
		}
		n.X, n.Y, n.TextX, n.TextY, n.StateX = left, y, left+10, y+railBox/2+4, left+railWidth-10
		state := states[n.id]
		n.Tone = tones[state.Tone]
		n.State = strings.TrimSpace(state.Icon + " " + state.Word)
		if state.Detail != "" {
			n.Title += "; " + state.Word + ": " + state.Detail
		}
		y += railRow
	}
	r.Height = y + chartTop
}

// assignTracks assigns each edge to the innermost track that is free for it. Edges that overlap can share a track only
// if they lead to the same node. An edge to the next node gets no track. assignTracks returns the number of tracks.
func assignTracks(edges []railEdge) int {
	slices.SortStableFunc(edges, func(a, b railEdge) int { return a.span() - b.span() })
	type stretch struct{ top, bottom, to int }
	var tracks [][]stretch
	for i := range edges {
		e := &edges[i]
		if e.to == e.from+1 {
			e.track = -1
			continue
		}
		s := stretch{min(e.from, e.to), max(e.from, e.to), e.to}
		at := slices.IndexFunc(tracks, func(track []stretch) bool {
			return !slices.ContainsFunc(track, func(other stretch) bool {
				return other.to != s.to && s.top <= other.bottom && other.top <= s.bottom
			})
		})
		if at < 0 {
			at = len(tracks)
			tracks = append(tracks, nil)
		}
		tracks[at] = append(tracks[at], s)
		e.track = at
	}
	return len(tracks)
}

func (e *railEdge) span() int { return max(e.from-e.to, e.to-e.from) }

// path returns the SVG path of an edge. The path leads from the side of a node to the track of the edge,
// along the track, and to the side of the other node. An edge without a track is a vertical line.
func (r *rails) path(e railEdge) string {
	from, to := &r.Nodes[e.from], &r.Nodes[e.to]
	if e.track < 0 {
		x := from.X + railStem
		return fmt.Sprintf("M%d %dV%d", x, from.Y+railBox, to.Y-1)
	}
	side, out := from.X+railWidth, railMargin+e.track*railTrack
	sign := 1
	if e.to <= e.from {
		side, sign = from.X, -1
	}
	track := side + sign*out
	// An edge begins in the lower half of a node, and ends in the upper half of the other node.
	y1, y2 := from.Y+railBox/2+5, to.Y+railBox/2-5
	c, down := railCorner, 1
	if y2 < y1 {
		down = -1
	}
	return fmt.Sprintf("M%d %dH%dQ%d %d %d %dV%dQ%d %d %d %dH%d", side, y1, track-sign*c, track, y1, track, y1+down*c,
		y2-down*c, track, y2, track-sign*c, y2, side+sign*2)
}

// edgeTitle describes an edge: its two nodes, the facts on which it depends, its fan-out, and the place of its task,
// unless the task is put on the stack of the finished task.
func edgeTitle(e graph.Edge) string {
	text := string(e.From) + " → " + string(e.To)
	if e.When != "" {
		text += ", if " + string(e.When)
	}
	if e.Unless != "" {
		text += ", unless " + string(e.Unless)
	}
	if e.ForEach != "" {
		text += ", each of " + string(e.ForEach)
	}
	if e.Place != graph.Stack {
		text += ", " + string(e.Place)
	}
	return text
}
