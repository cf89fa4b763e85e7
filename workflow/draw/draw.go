// Package draw draws graphs: as mermaid for pages, as DOT for Graphviz, as an outline for a
// terminal, and as the reference page of the docs. Package draw depends on package graph, but on no
// particular graph. The input of a drawing is a [graph.Graph] and, for a run in progress, the
// [States] of its nodes. The same input always gives the same bytes.
package draw

//go:generate go test . -run Drawings -update

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"addon-operator/workflow/graph"
)

// A Tone is the color of a node's state.
type Tone string

// Tones. A node with the tone Plain has the color of a node without a state.
const (
	Plain   Tone = ""
	Done    Tone = "done"
	Active  Tone = "active"
	Waiting Tone = "waiting"
	Failed  Tone = "failed"
)

// A State is the displayed state of a node in a run in progress. Icon and Word have the same
// meaning, so that the state can be read without colors or without icons.
type State struct {
	Tone   Tone
	Icon   string // one character wide, such as "✔"
	Word   string // such as "done"
	Detail string // details, such as the subject or the last error
}

// States has the state of each node that has one; nil if there is no run.
type States map[graph.NodeID]State

// line returns the state as one line, its icon first; empty if there is no state.
func (s State) line() string {
	text := strings.TrimSpace(s.Icon + " " + s.Word)
	if text != "" && s.Detail != "" {
		text += ": "
	}
	return flat(text + s.Detail)
}

// colours has the fill, border and text colors of each tone. The texts are readable on light and dark
// pages.
var colours = []struct {
	tone               Tone
	fill, border, text string
}{
	{Done, "#d3f2d9", "#2da44e", "#10391c"},
	{Active, "#cfe5ff", "#1f6feb", "#0b2a55"},
	{Waiting, "#fff2c4", "#bf8700", "#453000"},
	{Failed, "#ffd7d5", "#cf222e", "#5c0f14"},
}

// title returns the number and the name of a node.
func title(g *graph.Graph, id graph.NodeID) string {
	if n, ok := g.Node(id); ok {
		return strings.TrimSpace(n.Number + " " + string(n.ID))
	}
	return string(id)
}

// short returns the number of a node; the name if it has no number.
func short(g *graph.Graph, id graph.NodeID) string {
	number, _, _ := strings.Cut(title(g, id), " ")
	return number
}

// terms returns descriptions of e in a few words each: its conditions, its fan-out, its place, and
// whether it cancels pending tasks or closes a loop. The graph declares the names of facts and
// fan-outs. The legend explains the words for the place, the cancellation and the loop.
func terms(e graph.Edge) []string {
	var out []string
	if e.When != "" {
		out = append(out, "if "+string(e.When))
	}
	if e.Unless != "" {
		out = append(out, "unless "+string(e.Unless))
	}
	if e.ForEach != "" {
		out = append(out, "each of "+string(e.ForEach))
	}
	for _, w := range legend {
		if w.on(e) {
			out = append(out, w.word)
		}
	}
	return out
}

// legend explains the words on edges for a place, for CancelsPending and for Loop.
var legend = []struct {
	word, meaning string
	on            func(graph.Edge) bool
}{
	{
		"front", "the task gets a new slot at the front of the main queue, or of the configuration's queue",
		func(e graph.Edge) bool { return e.Place == graph.Front },
	},
	{
		"tail", "the task gets a new slot at the tail of the main queue, or of the configuration's queue",
		func(e graph.Edge) bool { return e.Place == graph.Tail },
	},
	{
		"binding queue", "the task gets a new slot at the tail of the queue that the hook's binding names",
		func(e graph.Edge) bool { return e.Place == graph.BindingQueue },
	},
	{
		"rewind", "a run that has begun the node goes back to it, at most three times in a row unless one of its tasks keeps failing; if no run goes back, the task joins a run that has not reached the node yet, or gets a new slot at the tail of the main queue",
		func(e graph.Edge) bool { return e.Place == graph.Rewind },
	},
	{
		"cancels pending", "the module's waiting tasks are canceled in all queues, and the results of its running tasks are dropped",
		func(e graph.Edge) bool { return e.CancelsPending },
	},
	{
		"loop", "the edge closes a loop; if a run takes it three times in a row or more, the next task is delayed, each time for longer, up to 30 s",
		func(e graph.Edge) bool { return e.Loop },
	},
}

// A group is the nodes drawn under one heading.
type group struct {
	name  string
	nodes []*graph.Node
}

// groups returns the nodes by heading, in the order in which the graph declares them.
func groups(g *graph.Graph) []group {
	var out []group
	for i := range g.Nodes {
		n := &g.Nodes[i]
		at := slices.IndexFunc(out, func(have group) bool { return have.name == n.Group })
		if at < 0 {
			at = len(out)
			out = append(out, group{name: n.Group})
		}
		out[at].nodes = append(out[at].nodes, n)
	}
	return out
}

// triggers returns the graph's triggers, in the order of their edges.
func triggers(g *graph.Graph) []graph.Trigger {
	var used []graph.Trigger
	for _, e := range g.Edges {
		used = append(used, e.On)
	}
	return ordered(used, g.Triggers)
}

// ordered returns each name once: first the used names in the order of their use, then the other
// declared names, sorted.
func ordered[K ~string](used []K, described map[K]string) []K {
	var out []K
	for _, name := range slices.Concat(used, slices.Sorted(maps.Keys(described))) {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// flat returns s on one line, without the control characters that a terminal would interpret.
func flat(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}
