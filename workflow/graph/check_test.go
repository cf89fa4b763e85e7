package graph_test

import (
	"testing"

	"addon-operator/workflow/graph"
)

// errand returns a valid graph with every kind of declaration. A bell is the trigger. The first node looks into every
// room. If a room is dirty, the next node cleans a room, and a junction leads from there back to the first node.
func errand() *graph.Graph {
	return &graph.Graph{
		Name: "errand",
		Nodes: []graph.Node{
			{ID: "look", Number: "1", Doc: "look into every room", ForEach: "rooms", Inputs: []graph.Input{"key"}},
			{ID: "clean", Number: "2", Doc: "clean one room", Scope: graph.ScopeModule, RetryFrom: "look", Outputs: []graph.Output{"report"}},
			{ID: "rest", Number: "3", Doc: "rest"},
			{ID: "again", Number: "4", Doc: "there is more to do", Junction: true},
		},
		Edges: []graph.Edge{
			{On: "bell", To: "look", Place: graph.Front},
			{From: "look", To: "clean", When: "dirty"},
			{From: "look", To: "rest", Unless: "dirty"},
			{From: "clean", To: "again"},
			{From: "again", To: "look", Place: graph.Tail, Loop: true},
		},
		Triggers: map[graph.Trigger]string{"bell": "somebody rang"},
		Facts:    map[graph.Fact]string{"dirty": "a room is not clean"},
		FanOuts:  map[graph.FanOut]string{"rooms": "the rooms, by number"},
		Inputs:   map[graph.Input]string{"key": "opens every room"},
		Outputs:  map[graph.Output]string{"report": "what was found"},
	}
}

func TestCheckTakesAWholeGraph(t *testing.T) {
	t.Parallel()
	if err := errand().Check(); err != nil {
		t.Error(err)
	}
}

func TestCheckFindsEachDefect(t *testing.T) {
	t.Parallel()
	const look, clean, rest, again = 0, 1, 2, 3 // nodes
	const bell, dirty, tidy, done, more = 0, 1, 2, 3, 4
	tests := []struct {
		name string
		harm func(*graph.Graph)
		want string
	}{
		{
			"node twice",
			func(g *graph.Graph) { g.Nodes = append(g.Nodes, g.Nodes[rest]) },
			`graph errand: node rest is declared twice`,
		},
		{
			"no number",
			func(g *graph.Graph) { g.Nodes[rest].Number = "" },
			`graph errand: node rest needs a number and a doc`,
		},
		{
			"no doc",
			func(g *graph.Graph) { g.Nodes[rest].Doc = "" },
			`graph errand: node rest needs a number and a doc`,
		},
		{
			"back to nowhere",
			func(g *graph.Graph) { g.Nodes[clean].RetryFrom = "bed" },
			`graph errand: node clean retries from the unknown node bed`,
		},
		{
			"junction with items",
			func(g *graph.Graph) { g.Nodes[again].ForEach = "rooms" },
			`graph errand: junction again has no task, so it cannot have ForEach, RetryFrom, Unique, Batch, JoinsRunning, Inputs or Outputs`,
		},
		{
			"junction that retries from a node",
			func(g *graph.Graph) { g.Nodes[again].RetryFrom = "look" },
			`graph errand: junction again has no task, so it cannot have ForEach, RetryFrom, Unique, Batch, JoinsRunning, Inputs or Outputs`,
		},
		{
			"junction that is unique",
			func(g *graph.Graph) { g.Nodes[again].Unique = true },
			`graph errand: junction again has no task, so it cannot have ForEach, RetryFrom, Unique, Batch, JoinsRunning, Inputs or Outputs`,
		},
		{
			"junction with a batch",
			func(g *graph.Graph) { g.Nodes[again].Batch = true },
			`graph errand: junction again has no task, so it cannot have ForEach, RetryFrom, Unique, Batch, JoinsRunning, Inputs or Outputs`,
		},
		{
			"junction with an input",
			func(g *graph.Graph) { g.Nodes[again].Inputs = []graph.Input{"key"} },
			`graph errand: junction again has no task, so it cannot have ForEach, RetryFrom, Unique, Batch, JoinsRunning, Inputs or Outputs`,
		},
		{
			"junction with an output",
			func(g *graph.Graph) { g.Nodes[again].Outputs = []graph.Output{"report"} },
			`graph errand: junction again has no task, so it cannot have ForEach, RetryFrom, Unique, Batch, JoinsRunning, Inputs or Outputs`,
		},
		{
			"junction that joins running tasks",
			func(g *graph.Graph) { g.Nodes[again].JoinsRunning = true },
			"graph errand: junction again has no task, so it cannot have ForEach, RetryFrom, Unique, Batch, JoinsRunning, Inputs or Outputs\n" +
				"graph errand: node again has JoinsRunning and needs ForEach and the scope of a module",
		},
		{
			"items and a batch",
			func(g *graph.Graph) { g.Nodes[look].Batch = true },
			`graph errand: node look cannot have both ForEach and Batch`,
		},
		{
			"joins running tasks without items",
			func(g *graph.Graph) { g.Nodes[clean].JoinsRunning = true },
			`graph errand: node clean has JoinsRunning and needs ForEach and the scope of a module`,
		},
		{
			"joins running tasks without a module",
			func(g *graph.Graph) { g.Nodes[look].JoinsRunning = true },
			`graph errand: node look has JoinsRunning and needs ForEach and the scope of a module`,
		},
		{
			"edge from two sides",
			func(g *graph.Graph) { g.Edges[done].On = "bell" },
			`graph errand: the edge to again needs exactly one of On and From`,
		},
		{
			"edge from no side",
			func(g *graph.Graph) { g.Edges = append(g.Edges, graph.Edge{To: "rest"}) },
			`graph errand: the edge to rest needs exactly one of On and From`,
		},
		{
			"edge from nowhere",
			func(g *graph.Graph) { g.Edges = append(g.Edges, graph.Edge{From: "bed", To: "rest"}) },
			`graph errand: edge from unknown node bed`,
		},
		{
			"edge to nowhere",
			func(g *graph.Graph) { g.Edges = append(g.Edges, graph.Edge{From: "rest", To: "bed"}) },
			`graph errand: edge to unknown node bed`,
		},
		{
			"place at a junction",
			func(g *graph.Graph) { g.Edges[done].Place = graph.Tail },
			`graph errand: the edge to junction again has Place or ForEach; only the edges from the junction can`,
		},
		{
			"items at a junction",
			func(g *graph.Graph) { g.Edges[done].ForEach = "rooms" },
			`graph errand: the edge to junction again has Place or ForEach; only the edges from the junction can`,
		},
		{
			"fact behind a junction",
			func(g *graph.Graph) { g.Edges[more].When = "dirty" },
			`graph errand: the edge from junction again has When or Unless; a junction has no facts`,
		},
		{
			"cancels pending tasks on the way to another place",
			func(g *graph.Graph) {
				g.Edges = append(g.Edges, graph.Edge{From: "clean", To: "rest", CancelsPending: true, Place: graph.Tail})
			},
			`graph errand: the edge to rest has CancelsPending and must lead from a node and have no Place and no ForEach`,
		},
		{
			"cancels pending tasks for items",
			func(g *graph.Graph) {
				g.Edges = append(g.Edges, graph.Edge{From: "clean", To: "rest", CancelsPending: true, ForEach: "rooms"})
			},
			`graph errand: the edge to rest has CancelsPending and must lead from a node and have no Place and no ForEach`,
		},
		{
			"trigger that cancels pending tasks",
			func(g *graph.Graph) { g.Edges[bell].Place, g.Edges[bell].CancelsPending = graph.Stack, true },
			"graph errand: the edge to look has CancelsPending and must lead from a node and have no Place and no ForEach\n" +
				`graph errand: trigger "bell" leads to look by an edge without Place; a trigger has no finished task whose stack could be used`,
		},
		{
			"trigger with a fact",
			func(g *graph.Graph) { g.Edges[bell].When = "dirty" },
			`graph errand: the edge on "bell" has When, Unless or ForEach; a trigger has no facts and no items`,
		},
		{
			"trigger with items",
			func(g *graph.Graph) { g.Edges[bell].ForEach = "rooms" },
			`graph errand: the edge on "bell" has When, Unless or ForEach; a trigger has no facts and no items`,
		},
		{
			"trigger without a place",
			func(g *graph.Graph) { g.Edges[bell].Place = graph.Stack },
			`graph errand: trigger "bell" leads to look by an edge without Place; a trigger has no finished task whose stack could be used`,
		},
		{
			"trigger that leads through a junction without a place",
			func(g *graph.Graph) {
				g.Edges = append(g.Edges, graph.Edge{On: "bell", To: "again"}, graph.Edge{From: "again", To: "rest"})
			},
			`graph errand: trigger "bell" leads to rest by an edge without Place; a trigger has no finished task whose stack could be used`,
		},
		{
			"finished node that names the queue of a binding",
			func(g *graph.Graph) {
				g.Edges = append(g.Edges, graph.Edge{From: "clean", To: "rest", Place: graph.BindingQueue})
			},
			`graph errand: node clean leads to rest by an edge with Place BindingQueue; only the event of a trigger has the queue of a binding`,
		},
		{
			"finished node that names the queue of a binding behind a junction",
			func(g *graph.Graph) {
				g.Edges[more].Place = graph.BindingQueue
			},
			`graph errand: node clean leads to look by an edge with Place BindingQueue; only the event of a trigger has the queue of a binding`,
		},
		{
			"node that nothing leads to",
			func(g *graph.Graph) { g.Nodes = append(g.Nodes, graph.Node{ID: "sing", Number: "5", Doc: "sing"}) },
			`graph errand: node sing is reached from no trigger`,
		},
		{
			"nodes that lead to each other only",
			func(g *graph.Graph) {
				g.Nodes = append(g.Nodes, graph.Node{ID: "sing", Number: "5", Doc: "sing"}, graph.Node{ID: "dance", Number: "6", Doc: "dance"})
				g.Edges = append(g.Edges, graph.Edge{From: "sing", To: "dance"}, graph.Edge{From: "dance", To: "sing"})
			},
			"graph errand: node sing is reached from no trigger\n" +
				"graph errand: node dance is reached from no trigger",
		},
		{
			"junction to itself",
			func(g *graph.Graph) { g.Edges = append(g.Edges, graph.Edge{From: "again", To: "again"}) },
			`graph errand: junction again leads back to itself`,
		},
		{
			"junctions in a circle",
			func(g *graph.Graph) {
				g.Nodes = append(g.Nodes, graph.Node{ID: "once more", Number: "5", Doc: "more still", Junction: true})
				g.Edges = append(g.Edges, graph.Edge{From: "again", To: "once more"}, graph.Edge{From: "once more", To: "again"})
			},
			"graph errand: junction again leads back to itself\n" +
				"graph errand: junction once more leads back to itself",
		},
		{
			"trigger without a meaning",
			func(g *graph.Graph) { delete(g.Triggers, "bell") },
			`graph errand: trigger "bell" is used but not described`,
		},
		{
			"fact with an empty meaning",
			func(g *graph.Graph) { g.Facts["dirty"] = "" },
			`graph errand: fact "dirty" is used but not described`,
		},
		{
			"fact that only an exception names",
			func(g *graph.Graph) { g.Edges[tidy].Unless = "noisy" },
			`graph errand: fact "noisy" is used but not described`,
		},
		{
			"fan-out without a meaning",
			func(g *graph.Graph) { delete(g.FanOuts, "rooms") },
			`graph errand: fan-out "rooms" is used but not described`,
		},
		{
			"input without a meaning",
			func(g *graph.Graph) { delete(g.Inputs, "key") },
			`graph errand: input "key" is used but not described`,
		},
		{
			"output without a meaning",
			func(g *graph.Graph) { delete(g.Outputs, "report") },
			`graph errand: output "report" is used but not described`,
		},
		{
			"trigger that begins nothing",
			func(g *graph.Graph) { g.Triggers["alarm"] = "there is smoke" },
			`graph errand: trigger "alarm" is described but not used`,
		},
		{
			"facts that no edge asks for",
			func(g *graph.Graph) { g.Facts["wet"], g.Facts["dry"] = "it rains", "it does not" },
			"graph errand: fact \"dry\" is described but not used\n" +
				"graph errand: fact \"wet\" is described but not used",
		},
		{
			"fan-out that nothing is repeated over",
			func(g *graph.Graph) { g.FanOuts["doors"] = "the doors" },
			`graph errand: fan-out "doors" is described but not used`,
		},
		{
			"input that no node gets",
			func(g *graph.Graph) { g.Inputs["lamp"] = "gives light" },
			`graph errand: input "lamp" is described but not used`,
		},
		{
			"output that no node hands back",
			func(g *graph.Graph) { g.Outputs["song"] = "is heard" },
			`graph errand: output "song" is described but not used`,
		},
		{
			"edge that asks for what is not declared",
			func(g *graph.Graph) { g.Edges[dirty].When = "dusty" },
			`graph errand: fact "dusty" is used but not described`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := errand()
			tt.harm(g)
			err := g.Check()
			if err == nil {
				t.Fatalf("Check found nothing, want %s", tt.want)
			}
			if err.Error() != tt.want {
				t.Errorf("Check says\n%s\nwant\n%s", err, tt.want)
			}
		})
	}
}

func TestCheckReportsAllDefectsAtOnce(t *testing.T) {
	t.Parallel()
	g := errand()
	g.Nodes[1].RetryFrom = "bed"
	g.Edges[0].ForEach = "rooms"
	g.Outputs["song"] = "is heard"
	want := "graph errand: node clean retries from the unknown node bed\n" +
		"graph errand: the edge on \"bell\" has When, Unless or ForEach; a trigger has no facts and no items\n" +
		"graph errand: output \"song\" is described but not used"
	if err := g.Check(); err == nil || err.Error() != want {
		t.Errorf("Check says\n%v\nwant\n%s", err, want)
	}
}

func TestCheckEndsOnAnEmptyGraph(t *testing.T) {
	t.Parallel()
	if err := (&graph.Graph{}).Check(); err != nil {
		t.Error(err)
	}
}
