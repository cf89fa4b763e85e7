// Package graph declares the types of workflows: nodes, the edges between them, the facts on which
// edges depend, and the triggers that begin a run. A graph is data. The package imports no other
// package of this project. So programs that only read graphs, such as the generator of the docs, do
// not need the engine.
package graph

import "slices"

// A NodeID names one node of a graph. A NodeID is stored with the tasks of the node. Never change
// the NodeID of a node: the engine drops stored tasks whose NodeID the graph does not have.
type NodeID string

// A Trigger names an event outside a graph that begins a run of the graph.
type Trigger string

// A Fact names a statement that a step has found to be true. An edge depends only on facts, so the
// engine needs no code of a step to select edges.
type Fact string

// A FanOut names the items for which a node or an edge is repeated.
type FanOut string

// An Input names data that a step receives.
type Input string

// An Output names data that a step may return.
type Output string

// A Scope says which fields of a subject a node uses. When an edge leads to a node with a wider scope,
// the engine removes the other fields from the subject.
type Scope string

// Scopes, from widest to narrowest.
const (
	ScopeAll     Scope = ""        // all modules of the cluster
	ScopeModule  Scope = "module"  // one module or release
	ScopeBinding Scope = "binding" // one binding of one hook

	// ScopeConfiguration is one addons configuration; it is neither wider nor narrower than the
	// other scopes. The tasks of each configuration have a queue of their own, so that a
	// configuration with an unreachable repository does not delay others.
	ScopeConfiguration Scope = "configuration"
)

// A Place says where an edge puts its task.
type Place string

// Places of tasks. The edge to the first task of a run cannot have the place Stack, because a trigger has no finished
// task. Only this edge can have the place BindingQueue, because only the event of a trigger has the queue of a binding.
const (
	Stack        Place = ""              // on the stack of the finished task, before the tasks behind it
	Tail         Place = "tail"          // a new slot at the tail of the main queue, or of the configuration's queue
	Front        Place = "front"         // a new slot at the front of the main queue, or of the configuration's queue
	BindingQueue Place = "binding queue" // a new slot at the tail of the queue that the hook's binding names
	// Rewind makes each run that has begun the node go back to it. Unless a run keeps failing, it goes back at most
	// three times in a row. If no run goes back, the task joins a run that has yet to reach the node. If there is no
	// such run either, the task is put as with Tail.
	Rewind Place = "rewind"
)

// A Subject is what a task is about: a module, a hook, a binding, an addons configuration, or
// nothing. For a global hook, Hook is set, and Module is empty.
type Subject struct {
	Module  string `json:"module,omitempty"`
	Hook    string `json:"hook,omitempty"`
	Binding string `json:"binding,omitempty"`
	// Configuration is the name of a ClusterAddonsConfiguration, or namespace and name of an
	// AddonsConfiguration, joined by a slash. If Configuration is set, no other field is set.
	Configuration string `json:"configuration,omitempty"`
}

// configurationQueue is the prefix of the queues of configurations.
const configurationQueue = "configuration/"

// Queue returns the name of the queue that only tasks about s use; empty if there is none.
func (s Subject) Queue() string {
	if s.Configuration == "" {
		return ""
	}
	return configurationQueue + s.Configuration
}

// Trim returns s without the fields that nodes of the scope do not use.
func (s Subject) Trim(scope Scope) Subject {
	switch scope {
	case ScopeBinding:
		return s
	case ScopeModule:
		return Subject{Module: s.Module}
	case ScopeConfiguration:
		return Subject{Configuration: s.Configuration}
	default:
		return Subject{}
	}
}

// OfHook returns only the module and the hook of s. The result is empty if s has neither.
func (s Subject) OfHook() Subject { return Subject{Module: s.Module, Hook: s.Hook} }

// String returns the subject as people write it: "module/hook binding", or the
// name of the configuration.
func (s Subject) String() string {
	if s.Configuration != "" {
		return s.Configuration
	}
	out := s.Module
	if s.Hook != "" {
		if out != "" {
			out += "/"
		}
		out += s.Hook
	}
	if s.Binding != "" {
		if out != "" {
			out += " "
		}
		out += s.Binding
	}
	return out
}

// An Item is one item of a fan-out: its subject and its queue. Queue is empty for the queue of the
// fan-out task. For an item in another queue, Wait says whether the fan-out waits until the item has
// ended.
type Item struct {
	Subject Subject `json:"subject"`
	Queue   string  `json:"queue,omitempty"`
	Wait    bool    `json:"wait,omitempty"`
	// AllowFailure is the allowFailure of the item's binding.
	AllowFailure bool `json:"lenient,omitempty"`
	// Changed is set if the work of the item has changed. The results of tasks that have already
	// begun the item are then ignored. Changed matters only when the fan-out of a node is created,
	// and is not stored.
	Changed bool `json:"-"`
	// Adjacent items of an edge's fan-out with the same Group form a parallel group. At most Width
	// items of a parallel group run at the same time, each in its own queue. The item after the
	// group starts when each item of the group has ended or has moved to a retry queue. If Width is
	// below 2, there is no group.
	Group string `json:"group,omitempty"`
	Width int    `json:"width,omitempty"`
}

// ModuleItems returns an item for each module.
func ModuleItems(modules []string) []Item {
	items := make([]Item, len(modules))
	for i, name := range modules {
		items[i].Subject.Module = name
	}
	return items
}

// A Node is one step of a graph.
type Node struct {
	ID NodeID
	// Number is the number of the node in the drawing of its graph, such as "5" or "5c". In the lifecycle, metrics
	// count the failures of nodes 5 to 5f as failed runs of modules, and those of nodes 6 to 6d as failed deletions.
	Number string
	// Group is the heading under which the node is drawn. If a run of a module starts over after a
	// quarantine or a pause, in a new container, or when a new start run begins, it starts at the
	// first node of the group, unless RetryFrom names another node. After a quarantine or a pause, a
	// run of all modules also starts there, if the first node is Unique.
	Group string
	Scope Scope  // the kind of subject of its tasks
	Doc   string // one line, imperative

	// ForEach names the items for which the node is repeated in order.
	ForEach FanOut
	// Inputs are the data that the step receives, and Outputs are the data that it writes. Outputs
	// and most inputs only document the node. Package hookrun reads five inputs of the lifecycle. Objects and
	// SnapshotsAll decide which data the binding context of a hook has. These two and SnapshotsIncluded decide whether
	// the run of the hook waits for the snapshots. EnabledAll decides whether the values of the hook have
	// global.enabledModules. For hooks that run for events and ticks, EventObject decides whether logs and metrics name
	// the type of the binding "kubernetes" or "schedule". Whatever the inputs are, a hook receives its other values and
	// its config.
	Inputs  []Input
	Outputs []Output
	// RetryFrom is the node at which the run starts over, after a delay, if the step has failed. If
	// RetryFrom is empty, the node itself is retried.
	RetryFrom NodeID
	// FixedDelay makes the delay the same before every retry.
	FixedDelay bool
	// Unique drops one of two equal tasks that wait in the same queue. The task that is nearer to the
	// head stays.
	Unique bool
	// Batch lets one attempt process adjacent tasks of the same hook.
	Batch bool
	// Uninterruptible makes a rewind wait for the end of the task at the node. The task also
	// stays in a new container, and when a new start run begins.
	Uninterruptible bool
	// If JoinsRunning is set, the items of the fan-out are the tasks of the subject's module that
	// run in other queues. The fan-out does not start these tasks, but waits for their end.
	JoinsRunning bool
	// WakesFailed makes the engine retry failing tasks at once when a task of the node has succeeded
	// and reported a fact, because the change may let the failing tasks succeed.
	WakesFailed bool
	// If RetryQueue and the engine's ContinueOnFailure are set, the engine moves a failing run that
	// begins at the node to a retry queue, so that the tasks behind it can continue.
	RetryQueue bool
	// Junction marks a named node in which edges meet. A junction has no step and makes no task.
	Junction bool
}

// An Edge leads from a trigger or a finished node to the next node. All edges whose conditions are
// true are taken, in the order in which they are declared.
type Edge struct {
	On      Trigger // set instead of From if a trigger begins the run
	From    NodeID
	To      NodeID
	When    Fact   // if set, the edge is taken only if the step has reported this fact
	Unless  Fact   // if set, the edge is not taken if the step has reported this fact
	ForEach FanOut // the edge is taken once for each item
	Place   Place
	// Loop marks an edge that closes a loop. If a run takes the edge for the third time in a row,
	// the next task is delayed. The delay increases each time after that, up to 30 s.
	Loop bool
	// CancelsPending removes the older queued, held and deferred tasks of the module, except those
	// in the same slot, before the step of the next task starts. Running tasks end without a
	// result, and their remaining effects do not begin. The type pendingCancels of the engine does
	// this.
	CancelsPending bool
}

// A Graph is a named set of nodes and the edges between them.
type Graph struct {
	Name     string
	Doc      string
	Nodes    []Node
	Edges    []Edge
	Triggers map[Trigger]string // the meaning of each trigger; the maps below have the meanings of other names
	Facts    map[Fact]string
	FanOuts  map[FanOut]string
	Inputs   map[Input]string
	Outputs  map[Output]string
}

// Node returns the node named id, and whether the graph has it.
func (g *Graph) Node(id NodeID) (*Node, bool) {
	for i := range g.Nodes {
		if g.Nodes[i].ID == id {
			return &g.Nodes[i], true
		}
	}
	return nil, false
}

// Has reports whether input is one of the inputs of the node.
func (n *Node) Has(input Input) bool { return slices.Contains(n.Inputs, input) }

// Next returns the edges to take when the given node has finished and its step has reported facts.
// Instead of an edge to a junction, Next returns the edges from the junction.
func (g *Graph) Next(from NodeID, facts []Fact) []Edge {
	return g.selectEdges(func(e Edge) bool { return e.From == from && e.holds(facts) }, 0)
}

// Begin returns the edges with which the trigger begins a run. Instead of an edge to a junction,
// Begin returns the edges from the junction.
func (g *Graph) Begin(on Trigger) []Edge {
	return g.selectEdges(func(e Edge) bool { return e.On == on && on != "" }, 0)
}

// selectEdges returns the edges e for which match(e) is true. Instead of an edge to a junction, it
// returns the edges from the junction. depth stops the recursion in a loop of junctions, which
// Check rejects.
func (g *Graph) selectEdges(match func(Edge) bool, depth int) []Edge {
	var out []Edge
	for _, e := range g.Edges {
		if !match(e) {
			continue
		}
		n, ok := g.Node(e.To)
		if !ok || !n.Junction || depth > len(g.Nodes) {
			out = append(out, e)
			continue
		}
		out = append(out, g.selectEdges(func(next Edge) bool { return next.From == e.To && next.When == "" }, depth+1)...)
	}
	return out
}

func (e Edge) holds(facts []Fact) bool {
	return e.From != "" &&
		(e.When == "" || slices.Contains(facts, e.When)) &&
		(e.Unless == "" || !slices.Contains(facts, e.Unless))
}

// Leads reports whether a path of edges that have the place Stack and close no loop leads from one
// node to another. Leads returns true if both are the same node.
func (g *Graph) Leads(from, to NodeID) bool {
	seen := map[NodeID]bool{}
	var reaches func(NodeID) bool
	reaches = func(id NodeID) bool {
		if id == to {
			return true
		}
		if seen[id] {
			return false
		}
		seen[id] = true
		for _, e := range g.Edges {
			if e.From == id && e.Place == Stack && !e.Loop && reaches(e.To) {
				return true
			}
		}
		return false
	}
	return reaches(from)
}
