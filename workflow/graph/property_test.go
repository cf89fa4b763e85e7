package graph_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/workflow/graph"
)

// someGraph returns a random graph with up to six nodes and twelve edges. Some of the nodes are junctions. The graph
// does not declare its facts and triggers.
func someGraph(t *rapid.T) *graph.Graph {
	g := &graph.Graph{Name: "some"}
	var ids []graph.NodeID
	for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
		id := graph.NodeID(fmt.Sprint("n", i))
		ids = append(ids, id)
		g.Nodes = append(g.Nodes, graph.Node{ID: id, Number: "1", Doc: "work", Junction: rapid.Bool().Draw(t, "junction")})
	}
	facts := rapid.SampledFrom([]graph.Fact{"", "", "x", "y"})
	for range rapid.IntRange(0, 12).Draw(t, "edges") {
		e := graph.Edge{
			To: rapid.SampledFrom(ids).Draw(t, "to"), Place: rapid.SampledFrom([]graph.Place{graph.Stack, graph.Stack, graph.Tail}).Draw(t, "place"),
			Loop: rapid.IntRange(0, 4).Draw(t, "loop") == 0,
		}
		if rapid.IntRange(0, 4).Draw(t, "trigger") == 0 {
			e.On = "bell"
		} else {
			e.From, e.When, e.Unless = rapid.SampledFrom(ids).Draw(t, "from"), facts.Draw(t, "when"), facts.Draw(t, "unless")
		}
		g.Edges = append(g.Edges, e)
	}
	return g
}

// reachable returns the pairs of nodes that are connected by a path of one or more edges. The path has only
// edges for which the function among returns true.
func reachable(g *graph.Graph, among func(graph.Edge) bool) map[[2]graph.NodeID]bool {
	pairs := map[[2]graph.NodeID]bool{}
	for _, e := range g.Edges {
		if e.From != "" && among(e) {
			pairs[[2]graph.NodeID{e.From, e.To}] = true
		}
	}
	for _, over := range g.Nodes {
		for _, from := range g.Nodes {
			for _, to := range g.Nodes {
				if pairs[[2]graph.NodeID{from.ID, over.ID}] && pairs[[2]graph.NodeID{over.ID, to.ID}] {
					pairs[[2]graph.NodeID{from.ID, to.ID}] = true
				}
			}
		}
	}
	return pairs
}

func TestARunReachesTheNodesThatEdgesOfItsSlotConnect(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := someGraph(t)
		pairs := reachable(g, func(e graph.Edge) bool { return e.Place == graph.Stack && !e.Loop })
		for _, from := range g.Nodes {
			for _, to := range g.Nodes {
				if want := from.ID == to.ID || pairs[[2]graph.NodeID{from.ID, to.ID}]; g.Leads(from.ID, to.ID) != want {
					t.Errorf("%s leads to %s: %t, want %t, in %+v", from.ID, to.ID, !want, want, g.Edges)
				}
			}
		}
	})
}

func TestCheckFindsEveryCircleOfJunctions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := someGraph(t)
		junction := func(id graph.NodeID) bool {
			n, _ := g.Node(id)
			return n.Junction
		}
		pairs := reachable(g, func(e graph.Edge) bool { return junction(e.From) && junction(e.To) })
		text := fmt.Sprint(g.Check(), "\n")
		for _, n := range g.Nodes {
			found := strings.Contains(text, "graph some: junction "+string(n.ID)+" leads back to itself\n")
			if want := pairs[[2]graph.NodeID{n.ID, n.ID}]; found != want {
				t.Errorf("a circle of %s is found: %t, want %t, in %+v", n.ID, found, want, g.Edges)
			}
		}
	})
}

func TestCheckFindsEveryNodeThatNoTriggerReaches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := someGraph(t)
		pairs := reachable(g, func(graph.Edge) bool { return true })
		text := fmt.Sprint(g.Check(), "\n")
		for _, n := range g.Nodes {
			reached := slices.ContainsFunc(g.Edges, func(e graph.Edge) bool {
				return e.On != "" && (e.To == n.ID || pairs[[2]graph.NodeID{e.To, n.ID}])
			})
			if found := strings.Contains(text, "graph some: node "+string(n.ID)+" is reached from no trigger\n"); found == reached {
				t.Errorf("node %s is reached: %t, and Check reports the opposite: %s", n.ID, reached, text)
			}
		}
	})
}

// TestNoTaskIsAtAJunction takes the edges of random graphs in which no junction leads back to itself. The conditions of
// each taken edge must be true, and the edge must not lead to a junction.
func TestNoTaskIsAtAJunction(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := someGraph(t)
		if strings.Contains(fmt.Sprint(g.Check()), "leads back to itself") {
			t.Skip("junctions in a circle")
		}
		facts := rapid.SliceOfN(rapid.SampledFrom([]graph.Fact{"x", "y"}), 0, 2).Draw(t, "facts")
		taken := g.Begin("bell")
		for _, n := range g.Nodes {
			next := g.Next(n.ID, facts)
			for _, e := range next {
				if e.From == n.ID && (e.When != "" && !slices.Contains(facts, e.When) || e.Unless != "" && slices.Contains(facts, e.Unless)) {
					t.Errorf("with %v, edge %+v is taken", facts, e)
				}
			}
			taken = append(taken, next...)
		}
		for _, e := range taken {
			if n, ok := g.Node(e.To); !ok || n.Junction {
				t.Errorf("edge %+v leads to a junction, in %+v", e, g.Edges)
			}
		}
	})
}

func TestASubjectOfAConfigurationHasAQueueOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		subject     graph.Subject
		text, queue string
	}{
		{graph.Subject{Configuration: "all"}, "all", "configuration/all"},
		{graph.Subject{Configuration: "ops/team"}, "ops/team", "configuration/ops/team"},
		{graph.Subject{Module: "web", Hook: "a.sh", Binding: "pods"}, "web/a.sh pods", ""},
		{graph.Subject{}, "", ""},
	} {
		if got := test.subject.Queue(); got != test.queue {
			t.Errorf("the queue of %v is %q, want %q", test.subject, got, test.queue)
		}
		if got := test.subject.String(); got != test.text {
			t.Errorf("the subject reads %q, want %q", got, test.text)
		}
	}
}

func TestASubjectKeepsOnlyTheFieldsOfItsScope(t *testing.T) {
	t.Parallel()
	hook := graph.Subject{Module: "web", Hook: "a.sh", Binding: "pods"}
	configuration := graph.Subject{Configuration: "all"}
	for _, test := range []struct {
		subject graph.Subject
		scope   graph.Scope
		want    graph.Subject
	}{
		{configuration, graph.ScopeConfiguration, configuration},
		{configuration, graph.ScopeAll, graph.Subject{}},
		{configuration, graph.ScopeModule, graph.Subject{}},
		{hook, graph.ScopeConfiguration, graph.Subject{}},
	} {
		got := test.subject.Trim(test.scope)
		if got != test.want || got.Trim(test.scope) != got {
			t.Errorf("%v in scope %q is %v, want %v", test.subject, test.scope, got, test.want)
		}
	}
	if got, want := hook.OfHook(), (graph.Subject{Module: "web", Hook: "a.sh"}); got != want {
		t.Errorf("the hook of the binding is %v, want %v", got, want)
	}
}

// TestFieldsOfASubjectAndOfAnItemKeepTheirNames compares the JSON of subjects and items with the JSON that older
// versions have stored.
func TestFieldsOfASubjectAndOfAnItemKeepTheirNames(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]any{
		`{"module":"m","hook":"h","binding":"b","configuration":"c"}`: graph.Subject{Module: "m", Hook: "h", Binding: "b", Configuration: "c"},
		`{}`: graph.Subject{},
		`{"subject":{"module":"m"},"queue":"q","wait":true,"group":"g","width":2}`: graph.Item{
			Subject: graph.Subject{Module: "m"}, Queue: "q", Wait: true, Group: "g", Width: 2,
		},
		`{"subject":{}}`: graph.Item{},
	} {
		text, err := json.Marshal(v)
		if err != nil || string(text) != want {
			t.Errorf("it is stored as %s, want %s, error %v", text, want, err)
		}
	}
}

func TestEachModuleIsAnItem(t *testing.T) {
	t.Parallel()
	want := []graph.Item{{Subject: graph.Subject{Module: "b"}}, {Subject: graph.Subject{Module: "a"}}}
	if diff := cmp.Diff(want, graph.ModuleItems([]string{"b", "a"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if items := graph.ModuleItems(nil); len(items) != 0 {
		t.Errorf("no module has the items %v", items)
	}
}
