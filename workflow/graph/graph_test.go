package graph_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/workflow/graph"
)

// to returns, for each edge, the node to which the edge leads and, unless it is Stack, the Place of the edge.
func to(edges []graph.Edge) []string {
	var out []string
	for _, e := range edges {
		name := string(e.To)
		if e.Place != graph.Stack {
			name += " " + string(e.Place)
		}
		out = append(out, name)
	}
	return out
}

func TestEdgesAreTakenAsFactsHold(t *testing.T) {
	t.Parallel()
	g := &graph.Graph{
		Nodes: []graph.Node{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}, {ID: "e"}},
		Edges: []graph.Edge{
			{From: "a", To: "b", When: "x"},
			{From: "a", To: "c", Unless: "x"},
			{From: "a", To: "d", When: "y", Unless: "x"},
			{From: "b", To: "a"},
			{From: "a", To: "e"},
		},
	}
	tests := []struct {
		name  string
		facts []graph.Fact
		want  []string
	}{
		{"no fact", nil, []string{"c", "e"}},
		{"the fact asked for", []graph.Fact{"x"}, []string{"b", "e"}},
		{"another fact", []graph.Fact{"y"}, []string{"c", "d", "e"}},
		{"an exception counts more than what is asked for", []graph.Fact{"y", "x"}, []string{"b", "e"}},
		{"a fact that no edge knows", []graph.Fact{"z"}, []string{"c", "e"}},
		{"a fact reported twice takes its edge once", []graph.Fact{"x", "x"}, []string{"b", "e"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, to(g.Next("a", tt.facts))); diff != "" {
				t.Errorf("edges taken (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEdgesLeadThroughJunctions(t *testing.T) {
	t.Parallel()
	g := &graph.Graph{
		Nodes: []graph.Node{
			{ID: "a"},
			{ID: "b"},
			{ID: "c"},
			{ID: "near", Junction: true},
			{ID: "far", Junction: true},
		},
		Edges: []graph.Edge{
			{On: "bell", To: "near"},
			{On: "bell", To: "c", Place: graph.Front},
			{On: "horn", To: "a", Place: graph.BindingQueue},
			{From: "a", To: "near", When: "x"},
			{From: "a", To: "b"},
			{From: "near", To: "b", Place: graph.Tail},
			{From: "near", To: "far"},
			{From: "far", To: "c", Place: graph.Rewind},
		},
	}
	for _, tt := range []struct {
		name  string
		edges []graph.Edge
		want  []string
	}{
		{"a trigger, in the order written", g.Begin("bell"), []string{"b tail", "c rewind", "c front"}},
		{"a trigger without a junction", g.Begin("horn"), []string{"a binding queue"}},
		{"a node, through junctions behind junctions", g.Next("a", []graph.Fact{"x"}), []string{"b tail", "c rewind", "b"}},
		{"a node whose fact was not found", g.Next("a", nil), []string{"b"}},
		{"a node with no way out", g.Next("c", nil), nil},
		{"an unknown trigger", g.Begin("drum"), nil},
		{"no trigger begins nothing, as edges from nodes have none", g.Begin(""), nil},
		{"no node leads nowhere, as edges on triggers have none", g.Next("", nil), nil},
	} {
		if diff := cmp.Diff(tt.want, to(tt.edges)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestSignalsInACircleEnd(t *testing.T) {
	t.Parallel()
	g := &graph.Graph{
		Nodes: []graph.Node{{ID: "a", Junction: true}, {ID: "b", Junction: true}},
		Edges: []graph.Edge{{On: "bell", To: "a"}, {From: "a", To: "b"}, {From: "b", To: "a"}},
	}
	if got := g.Begin("bell"); len(got) != 1 {
		t.Errorf("Begin took %d edges, want the one at which it gave up", len(got))
	}
}

func TestTakenEdgesKeepWhatTheySay(t *testing.T) {
	t.Parallel()
	g := errand()
	want := []graph.Edge{{From: "again", To: "look", Place: graph.Tail, Loop: true}}
	if diff := cmp.Diff(want, g.Next("clean", nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLeadsKeepsToItsPlace(t *testing.T) {
	t.Parallel()
	g := &graph.Graph{
		Nodes: []graph.Node{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}, {ID: "e"}, {ID: "f"}},
		Edges: []graph.Edge{
			{On: "bell", To: "a"},
			{From: "a", To: "b", When: "x"},
			{From: "b", To: "c", ForEach: "rooms"},
			{From: "c", To: "b"},
			{From: "c", To: "d", Place: graph.Tail},
			{From: "c", To: "e", Loop: true},
			{From: "d", To: "f"},
		},
	}
	for _, tt := range []struct {
		name     string
		from, to graph.NodeID
		want     bool
	}{
		{"itself", "a", "a", true},
		{"next, whatever the fact", "a", "b", true},
		{"over several, each of a list", "a", "c", true},
		{"back in a circle", "c", "b", true},
		{"not against the arrow", "b", "a", false},
		{"not to another place", "c", "d", false},
		{"not behind another place", "a", "f", false},
		{"not by closing a loop", "a", "e", false},
		{"not from an unknown node", "z", "a", false},
	} {
		if got := g.Leads(tt.from, tt.to); got != tt.want {
			t.Errorf("%s: Leads(%s, %s) = %v", tt.name, tt.from, tt.to, got)
		}
	}
}

func TestNodeIsFoundByItsName(t *testing.T) {
	t.Parallel()
	g := errand()
	n, ok := g.Node("clean")
	if !ok || n != &g.Nodes[1] {
		t.Errorf("Node(clean) = %v, %v", n, ok)
	}
	if n, ok := g.Node("bed"); ok || n != nil {
		t.Errorf("Node(bed) = %v, %v", n, ok)
	}
}

func TestNodeKnowsWhatItIsGiven(t *testing.T) {
	t.Parallel()
	n := graph.Node{Inputs: []graph.Input{"key"}}
	if !n.Has("key") || n.Has("report") {
		t.Errorf("Has: key %v, report %v", n.Has("key"), n.Has("report"))
	}
}

func TestSubjectIsTrimmedToTheScope(t *testing.T) {
	t.Parallel()
	full := graph.Subject{Module: "nginx", Hook: "10-labels.sh", Binding: "namespaces"}
	global := graph.Subject{Hook: "10-labels.sh", Binding: "namespaces"}
	for _, tt := range []struct {
		subject graph.Subject
		scope   graph.Scope
		want    graph.Subject
	}{
		{full, graph.ScopeBinding, full},
		{full, graph.ScopeModule, graph.Subject{Module: "nginx"}},
		{full, graph.ScopeAll, graph.Subject{}},
		{global, graph.ScopeBinding, global},
		{global, graph.ScopeModule, graph.Subject{}},
	} {
		if got := tt.subject.Trim(tt.scope); got != tt.want {
			t.Errorf("%v trimmed to %q = %v, want %v", tt.subject, tt.scope, got, tt.want)
		}
	}
}

func TestSubjectReadsAsPeopleWriteIt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		subject graph.Subject
		want    string
	}{
		{graph.Subject{}, ""},
		{graph.Subject{Module: "nginx"}, "nginx"},
		{graph.Subject{Hook: "10-labels.sh"}, "10-labels.sh"},
		{graph.Subject{Module: "nginx", Hook: "10-labels.sh"}, "nginx/10-labels.sh"},
		{graph.Subject{Hook: "10-labels.sh", Binding: "namespaces"}, "10-labels.sh namespaces"},
		{graph.Subject{Module: "nginx", Hook: "10-labels.sh", Binding: "namespaces"}, "nginx/10-labels.sh namespaces"},
		{graph.Subject{Binding: "namespaces"}, "namespaces"},
	} {
		if got := tt.subject.String(); got != tt.want {
			t.Errorf("%#v reads %q, want %q", tt.subject, got, tt.want)
		}
	}
}
