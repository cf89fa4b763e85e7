// Package graph is the vocabulary in which workflows are declared: nodes, the
// edges between them, the facts on which edges are taken, and the triggers
// that begin a run. A graph is data. It imports nothing of ours, so that the
// docs, the inspect command and tests read a workflow without the machinery
// that runs it.
package graph

import "slices"

// A NodeID names one node of a graph.
type NodeID string

// A Trigger names a cause from outside a graph that begins a run through it.
type Trigger string

// A Fact names something a step found to be so. Edges route on facts, never on
// code.
type Fact string

// A FanOut names the items for which a node or an edge is repeated.
type FanOut string

// An Input names something a step is given to work on.
type Input string

// An Output names something a step may hand back.
type Output string

// A Scope says how much of a subject a node is about. The engine trims a
// subject to it when an edge leads from a narrower node to a wider one.
type Scope string

// The scopes, from widest to narrowest.
const (
	ScopeAll     Scope = ""        // the whole cluster's worth of modules
	ScopeModule  Scope = "module"  // one module or release
	ScopeBinding Scope = "binding" // one binding of one hook

	// ScopeConfiguration is apart from these: one addons configuration. Its tasks have a queue of their
	// own, so that a configuration whose repository hangs delays no other.
	ScopeConfiguration Scope = "configuration"
)

// A Place says where an edge puts the task it leads to.
type Place string

// The places an edge can put a task.
const (
	Stack        Place = ""              // on the stack of the finished task, before the tasks behind it
	Tail         Place = "tail"          // a new slot at the tail of the main queue, or of the configuration's queue
	Front        Place = "front"         // a new slot at the front of the main queue, or of the configuration's queue
	BindingQueue Place = "binding queue" // a new slot at the tail of the queue the hook's binding names
	Rewind       Place = "rewind"        // takes a run that has passed the node back to it; without such a run, the same as Tail
)

// A Subject is what a task is about: a module, a hook, a binding, an addons
// configuration, or nothing. Hook is set with an empty Module for a global hook.
type Subject struct {
	Module  string `json:"module,omitempty"`
	Hook    string `json:"hook,omitempty"`
	Binding string `json:"binding,omitempty"`
	// Configuration is the name of a ClusterAddonsConfiguration, or namespace and name of an
	// AddonsConfiguration, joined by a slash. No other field is set with it.
	Configuration string `json:"configuration,omitempty"`
}

// configurationQueue begins the names of the queues of configurations.
const configurationQueue = "configuration/"

// Queue returns the name of the queue that s has to itself, empty if it has none.
func (s Subject) Queue() string {
	if s.Configuration == "" {
		return ""
	}
	return configurationQueue + s.Configuration
}

// Trim returns s without what is narrower than scope.
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

// An Item is one entry of a list: whom it is about, the queue it belongs to
// (empty: the list's own) and, when it is sent to another queue, whether the
// list waits for its end.
type Item struct {
	Subject Subject `json:"subject"`
	Queue   string  `json:"queue,omitempty"`
	Wait    bool    `json:"wait,omitempty"`
	// AllowFailure is the allowFailure of the item's binding.
	AllowFailure bool `json:"lenient,omitempty"`
	// Group and Width form a parallel group of adjacent items of an edge's fan-out with
	// the same Group. At most Width of them run at the same time, each in its own lane.
	// The item after the group waits for all of them. With a Width below 2 there is no
	// group.
	Group string `json:"group,omitempty"`
	Width int    `json:"width,omitempty"`
}

// A Node is one step of a graph.
type Node struct {
	ID     NodeID
	Number string // its number in the lifecycle steps document, such as "5" or "5c"
	Group  string // the heading it is drawn under
	Scope  Scope  // what its tasks are about
	Doc    string // one line, imperative

	// ForEach names the items for which the node is repeated, one after another, in
	// their order.
	ForEach FanOut
	// Inputs and Outputs are what the document lists as the step's input and output.
	Inputs  []Input
	Outputs []Output
	// RetryFrom is where the run starts over when the step failed, after a delay;
	// at the node itself when empty.
	RetryFrom NodeID
	// FixedDelay nodes are tried again after the same delay each time.
	FixedDelay bool
	// Unique makes of equal tasks that wait in a queue the one nearer the head.
	Unique bool
	// Batch lets one claim cover the adjacent tasks of the same hook.
	Batch bool
	// Uninterruptible is set where a cut lets a run that has come so far go to its end.
	Uninterruptible bool
	// JoinsRunning makes the node's list of the tasks of its subject's module that run
	// in other queues: it starts none, it waits for their end.
	JoinsRunning bool
	// WakesFailed lets failing tasks be tried again at once when the node is done and
	// has reported a fact: something is as it was not before.
	WakesFailed bool
	// Lane lets a run that begins at the node and fails go on in a lane of its own, where the engine
	// is told to continue after failures.
	Lane bool
	// Junction marks a named place where edges meet: it has no step and makes no
	// task.
	Junction bool
}

// An Edge leads from a trigger or a finished node to what follows it. All
// edges whose guard holds are taken, in the order written.
type Edge struct {
	On      Trigger // set instead of From where the cause lies outside the graph
	From    NodeID
	To      NodeID
	When    Fact   // taken only if the step reported it
	Unless  Fact   // not taken if the step reported it
	ForEach FanOut // taken once per item
	Place   Place
	// Loop marks the edges that close a circle. A run that takes one for the
	// third time in a row waits before it goes on, longer each time.
	Loop bool
	// CancelsPending takes the module's waiting tasks out of every queue before the
	// edge is taken, and lets those that run end without effect.
	CancelsPending bool
}

// A Graph is a named set of nodes and the edges between them.
type Graph struct {
	Name     string
	Doc      string
	Nodes    []Node
	Edges    []Edge
	Triggers map[Trigger]string // each with its meaning, as all that follow
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

// Has reports whether the node is given in.
func (n *Node) Has(in Input) bool { return slices.Contains(n.Inputs, in) }

// Next returns the edges to take when the node from has finished with facts,
// led through signals to the nodes behind them.
func (g *Graph) Next(from NodeID, facts []Fact) []Edge {
	return g.taken(func(e Edge) bool { return e.From == from && e.holds(facts) }, 0)
}

// Begin returns the edges that trigger on begins a run with, led through
// signals to the nodes behind them.
func (g *Graph) Begin(on Trigger) []Edge {
	return g.taken(func(e Edge) bool { return e.On == on && on != "" }, 0)
}

// taken returns the edges that hold, each that leads to a signal replaced by
// those that leave it. depth guards against signals in a circle, which Check
// refuses.
func (g *Graph) taken(holds func(Edge) bool, depth int) []Edge {
	var out []Edge
	for _, e := range g.Edges {
		if !holds(e) {
			continue
		}
		n, ok := g.Node(e.To)
		if !ok || !n.Junction || depth > len(g.Nodes) {
			out = append(out, e)
			continue
		}
		out = append(out, g.taken(func(next Edge) bool { return next.From == e.To && next.When == "" }, depth+1)...)
	}
	return out
}

func (e Edge) holds(facts []Fact) bool {
	return e.From != "" &&
		(e.When == "" || slices.Contains(facts, e.When)) &&
		(e.Unless == "" || !slices.Contains(facts, e.Unless))
}

// Leads reports whether a task at from comes to node to without leaving its
// place, as one that stands before to in the same run does.
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
