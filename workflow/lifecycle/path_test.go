package lifecycle

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/workflow/graph"
)

// path returns the numbers of the nodes that a task executes in its slot, beginning with first. facts has the facts
// that nodes report. Nodes in another slot follow after a plus sign. The parameter wanted names the fan-outs of edges
// whose tasks are executed.
func path(first []graph.Edge, facts map[graph.NodeID][]graph.Fact, wanted ...graph.FanOut) string {
	var numbers []string
	var visit func(edges []graph.Edge)
	visit = func(edges []graph.Edge) {
		for _, e := range edges {
			if e.ForEach != "" && !slices.Contains(wanted, e.ForEach) {
				continue
			}
			n, _ := Graph.Node(e.To)
			if e.From != "" && e.Place != graph.Stack {
				numbers = append(numbers, "+"+n.Number)
				continue
			}
			numbers = append(numbers, n.Number)
			if !e.Loop {
				visit(Graph.Next(e.To, facts[e.To]))
			}
		}
	}
	visit(first)
	return strings.Join(numbers, " ")
}

// at returns the edges with which a run begins at a node.
func at(id graph.NodeID) []graph.Edge { return []graph.Edge{{To: id}} }

func TestStepsFollowEachOther(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first  []graph.Edge
		facts  map[graph.NodeID][]graph.Fact
		wanted []graph.FanOut
		want   string
	}{
		"a start without modules": {Graph.Begin(OnStart), nil, nil, "1 2 3 4 8"},
		"a start with a module of each kind": {
			Graph.Begin(OnStart),
			map[graph.NodeID][]graph.Fact{ModuleRun: {JustEnabled}, ReleaseCheck: {Outdated}, ModuleDelete: {Unwanted}},
			[]graph.FanOut{Defining, Enabled, Disabled, Unknown},
			"1 2 3 4 4a 5 5a 5b 5c 5d 5e 5f 6 6a 6b 6c 6d 7 8",
		},
		"releases that the first converge has kept":         {at(DiscoverModules), map[graph.NodeID][]graph.Fact{DiscoverModules: {LeftOver}}, nil, "4 8 +3"},
		"a purge of a module whose directory is back":       {at(ModulePurge), map[graph.NodeID][]graph.Fact{ModulePurge: {Restored}}, nil, "7 +3"},
		"hooks after all modules that change values":        {at(GlobalAfterAll), map[graph.NodeID][]graph.Fact{GlobalAfterAll: {GlobalChanged}}, nil, "8 +3"},
		"a module that has started and is up to date":       {at(ModuleRun), map[graph.NodeID][]graph.Fact{ModuleRun: {AlreadyStarted}}, nil, "5 5c 5d 5f"},
		"a module that has started and is outdated":         {at(ModuleRun), map[graph.NodeID][]graph.Fact{ModuleRun: {AlreadyStarted}, ReleaseCheck: {Outdated}}, nil, "5 5c 5d 5e 5f"},
		"a module whose hooks change its values":            {at(ModuleAfterHelm), map[graph.NodeID][]graph.Fact{ModuleAfterHelm: {ModuleChanged}}, nil, "5f 5"},
		"a module that is disabled meanwhile":               {at(ModuleRun), nil, nil, "5"},
		"a module that is deleted":                          {at(ModuleDelete), map[graph.NodeID][]graph.Fact{ModuleDelete: {Unwanted}}, nil, "6 6a 6b 6c 6d"},
		"a deletion of a module that is wanted again":       {at(ModuleDelete), nil, nil, "6"},
		"an event that changes nothing":                     {Graph.Begin(OnModuleKubeEvent), nil, nil, "10"},
		"an event that changes values of its module":        {Graph.Begin(OnModuleKubeEvent), map[graph.NodeID][]graph.Fact{ModuleKubernetesEvent: {ModuleChanged}}, nil, "10 +5"},
		"an event that changes global values":               {Graph.Begin(OnModuleKubeEvent), map[graph.NodeID][]graph.Fact{ModuleKubernetesEvent: {GlobalChanged}}, nil, "10 +3"},
		"an event of a global hook":                         {Graph.Begin(OnGlobalKubeEvent), map[graph.NodeID][]graph.Fact{GlobalKubernetesEvent: {GlobalChanged}}, nil, "9 +3"},
		"a tick of a global hook":                           {Graph.Begin(OnGlobalSchedule), map[graph.NodeID][]graph.Fact{GlobalScheduleEvent: {GlobalChanged}}, nil, "11 +3"},
		"a tick of a module hook":                           {Graph.Begin(OnModuleSchedule), map[graph.NodeID][]graph.Fact{ModuleScheduleEvent: {ModuleChanged, GlobalChanged}}, nil, "12 +3 +5"},
		"a release that lost objects":                       {Graph.Begin(OnResourcesAbsent), nil, nil, "+5"},
		"a ConfigMap that changes nothing":                  {Graph.Begin(OnConfigMap), nil, nil, "16"},
		"a ConfigMap with another global section":           {Graph.Begin(OnConfigMap), map[graph.NodeID][]graph.Fact{ConfigMapChanged: {GlobalChanged}}, []graph.FanOut{Changed, ChangedUnstarted}, "16 +3"},
		"a ConfigMap with another flag":                     {Graph.Begin(OnConfigMap), map[graph.NodeID][]graph.Fact{ConfigMapChanged: {FlagsChanged}}, nil, "16 +3"},
		"a ConfigMap with another flag and section":         {Graph.Begin(OnConfigMap), map[graph.NodeID][]graph.Fact{ConfigMapChanged: {FlagsChanged}}, []graph.FanOut{Changed, ChangedUnstarted}, "16 +3 5 +5"},
		"a ConfigMap that disables modules while one fails": {Graph.Begin(OnConfigMap), map[graph.NodeID][]graph.Fact{ModuleDelete: {Unwanted}}, []graph.FanOut{SwitchedOff}, "16 6 6a 6b 6c 6d"},
		"corrected files of a module":                       {Graph.Begin(OnModuleMended), nil, nil, "3 4 8"},
		"other addons":                                      {Graph.Begin(OnAddonsChanged), nil, nil, "3 4 8"},
		"a reload that a person requests":                   {Graph.Begin(OnReloadRequest), nil, nil, "3 4 8"},
		"a run of a module that a person requests":          {Graph.Begin(OnRunRequest), nil, nil, "5"},
	} {
		if diff := cmp.Diff(test.want, path(test.first, test.facts, test.wanted...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	// If a module is enabled again after its release was deleted, its afterDeleteHelm hooks run first,
	// and then its run starts over.
	var next []graph.NodeID
	for _, e := range Graph.Next(ModuleRun, []graph.Fact{HalfDeleted}) {
		next = append(next, e.To)
	}
	if want := []graph.NodeID{ModuleAfterDelete, ModuleRun}; !slices.Equal(next, want) {
		t.Errorf("after the deletion was interrupted, module-run leads to %v, want %v", next, want)
	}
}

func TestAFailedRunOfAModuleStartsOverAtItsFirstStep(t *testing.T) {
	t.Parallel()
	for _, n := range Graph.Nodes {
		want := graph.NodeID("")
		switch {
		case strings.HasPrefix(n.Number, "5") && n.ID != ModuleRun && n.ID != ModuleSynchronization:
			want = ModuleRun
		case n.ID == ModuleBeforeDelete || n.ID == ReleaseDelete:
			want = ModuleDelete
		}
		if n.RetryFrom != want {
			t.Errorf("after a failure of %s %s the run starts over at %q, want %q", n.Number, n.ID, n.RetryFrom, want)
		}
	}
}

// TestOnlyEventsWaitInQueuesOfBindings checks the edges to the nodes for events and schedule ticks. These edges must
// begin at a trigger and have the Place BindingQueue, and their nodes must have Batch. No other edge may have this
// Place, and no other node may have Batch.
func TestOnlyEventsWaitInQueuesOfBindings(t *testing.T) {
	t.Parallel()
	for _, e := range Graph.Edges {
		n, _ := Graph.Node(e.To)
		if bound := e.Place == graph.BindingQueue; bound != (n.Scope == graph.ScopeBinding) || bound != n.Batch || bound && e.On == "" {
			t.Errorf("the edge from %q%s to %s has the place %q, and the node has the scope %q and Batch %t", e.On, e.From, e.To, e.Place, n.Scope, n.Batch)
		}
	}
}

func TestWorkOfAPersonOvertakesTheWaitingTasks(t *testing.T) {
	t.Parallel()
	want := map[graph.Trigger]graph.Place{
		OnStart: graph.Front, OnConfigMap: graph.Front, OnRunRequest: graph.Front, OnReloadRequest: graph.Rewind,
		OnModuleMended: graph.Tail, OnAddonsChanged: graph.Tail, OnResourcesAbsent: graph.Tail,
	}
	for trigger := range Graph.Triggers {
		edges := Graph.Begin(trigger)
		if len(edges) != 1 {
			t.Errorf("trigger %q has %d edges", trigger, len(edges))
			continue
		}
		place, known := want[trigger]
		if !known {
			place = graph.BindingQueue
		}
		if edges[0].Place != place {
			t.Errorf("trigger %q puts its task at %q, want %q", trigger, edges[0].Place, place)
		}
	}
}

func TestWaitingTasksOfAModuleAreCanceledOnlyByItsDeletion(t *testing.T) {
	t.Parallel()
	var from []graph.NodeID
	for _, e := range Graph.Edges {
		if e.CancelsPending {
			from = append(from, e.From)
		}
	}
	if want := []graph.NodeID{ModuleDelete}; !slices.Equal(from, want) {
		t.Errorf("the edges from %v cancel tasks, want %v", from, want)
	}
}

func TestHooksGetTheirOwnSectionsAndNoOthers(t *testing.T) {
	t.Parallel()
	for _, n := range Graph.Nodes {
		hooks := n.ForEach == ByOrder || n.ForEach == Bindings || n.Batch
		global := strings.HasPrefix(string(n.ID), "global-")
		if !hooks {
			continue
		}
		if !n.Has(ConfigGlobal) || !n.Has(ValuesGlobal) {
			t.Errorf("the hooks of %s do not get the global values", n.ID)
		}
		if n.Has(ConfigModule) == global || n.Has(ValuesModule) == global || n.Has(EnabledAll) == global {
			t.Errorf("the hooks of %s get values of a module: %t, want %t", n.ID, global, !global)
		}
		if n.Has(EventObject) != strings.HasSuffix(string(n.ID), "-kubernetes-event") || n.Has(Objects) != (n.ForEach == Bindings) {
			t.Errorf("the hooks of %s have the inputs %v", n.ID, n.Inputs)
		}
	}
}
