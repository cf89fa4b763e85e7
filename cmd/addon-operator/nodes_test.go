package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// unnamed has the files that treat some nodes of the lifecycle in a special way, and so must name
// these nodes. The value of a file is the list of the nodes that the file need not name.
var unnamed = map[string][]graph.NodeID{
	"observe.go": {
		lifecycle.EnsureCRDs, lifecycle.ModuleOnStartup, lifecycle.ModuleSynchronization, lifecycle.ModuleBeforeHelm, lifecycle.ModuleAfterHelm,
		lifecycle.ModuleDelete, lifecycle.ModuleRetire, lifecycle.ModuleBeforeDelete, lifecycle.ReleaseDelete, lifecycle.ModuleAfterDelete,
		lifecycle.GlobalAfterAll, lifecycle.GlobalKubernetesEvent, lifecycle.ModuleKubernetesEvent,
		lifecycle.GlobalScheduleEvent, lifecycle.ModuleScheduleEvent, lifecycle.ConfigMapChanged,
	},
	"planner/planner.go": {
		lifecycle.GlobalSynchronization, lifecycle.DiscoverModules, lifecycle.ModuleOnStartup, lifecycle.ModuleSynchronization,
		lifecycle.ModuleBeforeHelm, lifecycle.ReleaseUpgrade, lifecycle.ModuleAfterHelm, lifecycle.ModuleRetire, lifecycle.ModuleBeforeDelete,
		lifecycle.ReleaseDelete, lifecycle.ModuleAfterDelete, lifecycle.GlobalAfterAll, lifecycle.GlobalKubernetesEvent,
		lifecycle.ModuleKubernetesEvent, lifecycle.GlobalScheduleEvent, lifecycle.ModuleScheduleEvent,
	},
	"crashtest/target.go": {
		lifecycle.GlobalOnStartup, lifecycle.GlobalSynchronization, lifecycle.GlobalBeforeAll, lifecycle.DiscoverModules, lifecycle.ModuleRun,
		lifecycle.ModuleOnStartup, lifecycle.ModuleSynchronization, lifecycle.ModuleBeforeHelm, lifecycle.ModuleAfterHelm,
		lifecycle.ModuleDelete, lifecycle.ModuleRetire, lifecycle.ModuleBeforeDelete, lifecycle.ModuleAfterDelete, lifecycle.ModulePurge,
		lifecycle.GlobalAfterAll, lifecycle.GlobalKubernetesEvent, lifecycle.ModuleKubernetesEvent, lifecycle.ConfigMapChanged,
	},
}

// TestEachNodeIsNamedWhereItMustBe fails for a new node until each file in unnamed names the node,
// or has the node in its list. So a person must decide which of the files treat the node in a
// special way.
func TestEachNodeIsNamedWhereItMustBe(t *testing.T) {
	t.Parallel()
	for file, not := range unnamed {
		named := namedNodes(t, file)
		for _, n := range lifecycle.Graph.Nodes {
			switch isNamed := slices.Contains(named, n.ID); {
			case n.Junction:
			case !isNamed && !slices.Contains(not, n.ID):
				t.Errorf("%s does not name node %s: name it there, or list it in unnamed", file, n.ID)
			case isNamed && slices.Contains(not, n.ID):
				t.Errorf("%s names node %s, which unnamed lists", file, n.ID)
			}
		}
	}
}

// namedNodes returns the nodes of the lifecycle whose constants a file uses.
func namedNodes(t *testing.T, file string) (nodes []graph.NodeID) {
	t.Helper()
	ids := map[string]graph.NodeID{}
	ast.Inspect(parsed(t, "../../workflow/lifecycle/graph.go"), func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.SelectorExpr); ok && kind.Sel.Name == "NodeID" {
			text, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				t.Fatalf("the ID of node %s is no literal", spec.Names[0])
			}
			id, err := strconv.Unquote(text.Value)
			if err != nil {
				t.Fatal(err)
			}
			ids[spec.Names[0].Name] = graph.NodeID(id)
		}
		return true
	})
	ast.Inspect(parsed(t, file), func(n ast.Node) bool {
		if name, ok := n.(*ast.SelectorExpr); ok {
			if from, ok := name.X.(*ast.Ident); ok && from.Name == "lifecycle" && ids[name.Sel.Name] != "" {
				nodes = append(nodes, ids[name.Sel.Name])
			}
		}
		return true
	})
	if len(nodes) == 0 {
		t.Fatalf("%s names no node", file)
	}
	return nodes
}

// parsed returns the syntax tree of a Go file.
func parsed(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestEachNodeHasTheTaskTypeOfAddonOperator(t *testing.T) {
	t.Parallel()
	for _, n := range lifecycle.Graph.Nodes {
		if !n.Junction && debugapi.TaskType(string(n.ID)) == string(n.ID) {
			t.Errorf("the tasks of node %s have no type", n.ID)
		}
	}
}

func TestExactlyTheNodesThatRunHooksHaveAnEventType(t *testing.T) {
	t.Parallel()
	for _, n := range lifecycle.Graph.Nodes {
		runsHooks := slices.Contains(n.Outputs, lifecycle.HookMetrics)
		if has := eventType(n.ID) != ""; has != runsHooks {
			t.Errorf("node %s has an event type: %t, want %t", n.ID, has, runsHooks)
		}
	}
}
