// Package forecast computes what a run would do. A forecast executes the steps of a graph in the
// order of its edges, on a copy of a store. A forecast executes no effects, and does not run the
// items of a fan-out that a node declares. In the lifecycle, these items are hooks, kubernetes
// bindings or running tasks.
package forecast

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// mostRounds is the maximum number of slots whose tasks a forecast executes. The first slot begins
// with the first node, and each edge to the tail adds a slot.
const mostRounds = 3

// A Forecast is a run on a copy of a store.
type Forecast struct {
	// DB is the copy of the store, to which steps write.
	DB *store.DB
	// Implementation is the graph with its steps. The steps must not change anything outside of DB.
	Implementation workflow.Implementation
	// Run is the number of the run.
	Run uint64
	// Skip is called before each item of an edge's fan-out, and returns true if the item must be
	// skipped. Skip can be nil.
	Skip func(to graph.NodeID, s graph.Subject) bool
	// Done is called after each node, with the result of the node. If a node of a module has failed,
	// the forecast does not follow its edges.
	Done func(Result)

	later []task
}

// A Result is the result of a node.
type Result struct {
	Node    *graph.Node
	Subject graph.Subject
	Outcome workflow.Outcome
	Facts   []graph.Fact
	// Items are the items of the fan-out that the node declares. The forecast has not run the steps
	// of these items.
	Items []graph.Item
	Err   error
}

type task struct {
	node    graph.NodeID
	subject graph.Subject
}

// From executes the given node and the nodes that follow from it, but follows no loop edges, and
// executes the tasks of at most mostRounds slots. If a node fails, From stops and returns the error.
// But if the scope of the failed node is one module, and ctx has not ended, From continues with the
// other modules, and reports the error only in the Result.
func (f *Forecast) From(ctx context.Context, first graph.NodeID) error {
	f.later = []task{{node: first}}
	for round := 0; len(f.later) > 0 && round < mostRounds; round++ {
		next := f.later[0]
		f.later = f.later[1:]
		if err := f.follow(ctx, next); err != nil {
			return err
		}
	}
	return nil
}

// Only executes the node with the given ID, and does not follow its edges.
func (f *Forecast) Only(ctx context.Context, id graph.NodeID) error {
	return f.carryOut(ctx, task{node: id}).Err
}

// follow executes a task and all tasks that follow from it in its slot.
func (f *Forecast) follow(ctx context.Context, t task) error {
	r := f.carryOut(ctx, t)
	if r.Err != nil {
		if r.Node.Scope != graph.ScopeModule || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", r.Node.ID, r.Err)
		}
		return nil
	}
	for _, edge := range f.Implementation.Graph.Edges {
		if edge.From != t.node || edge.Loop || !holds(edge, r.Facts) {
			continue
		}
		for _, next := range f.tasks(edge, t, r) {
			if edge.Place == graph.Tail {
				f.later = append(f.later, next)
				continue
			}
			if err := f.follow(ctx, next); err != nil {
				return err
			}
		}
	}
	return nil
}

// holds reports whether the conditions of an edge are true after its node has reported facts.
func holds(edge graph.Edge, facts []graph.Fact) bool {
	return (edge.When == "" || slices.Contains(facts, edge.When)) && (edge.Unless == "" || !slices.Contains(facts, edge.Unless))
}

// tasks returns the tasks to which an edge from t leads.
func (f *Forecast) tasks(edge graph.Edge, t task, r Result) (next []task) {
	if edge.ForEach == "" {
		return []task{{edge.To, t.subject}}
	}
	for _, item := range r.Outcome.Items[edge.ForEach] {
		if f.Skip == nil || !f.Skip(edge.To, item.Subject) {
			next = append(next, task{edge.To, item.Subject})
		}
	}
	return next
}

// carryOut executes one node.
func (f *Forecast) carryOut(ctx context.Context, t task) (r Result) {
	node, known := f.Implementation.Graph.Node(t.node)
	if !known {
		return Result{Node: &graph.Node{ID: t.node}, Err: fmt.Errorf("graph %s has no node %s", f.Implementation.Graph.Name, t.node)}
	}
	r = Result{Node: node, Subject: t.subject}
	defer func() {
		if p := recover(); p != nil {
			r.Err = fmt.Errorf("step panicked: %v\n%s", p, debug.Stack())
		}
		if f.Done != nil {
			f.Done(r)
		}
	}()
	step, bound := f.Implementation.Steps[t.node]
	if !bound {
		return r // a junction, or a node that only waits for running tasks; no task runs in a copy of a store
	}
	work := f.task(t)
	if node.ForEach != "" {
		r.Items, r.Facts, r.Err = f.list(ctx, step, work)
		return r
	}
	if r.Outcome, r.Err = step.Do(ctx, work); r.Err == nil {
		r.Facts, r.Err = f.apply(step, work, r.Outcome)
		r.Facts = append(r.Facts, r.Outcome.Facts...)
	}
	return r
}

func (f *Forecast) task(t task) workflow.Task {
	stored := store.Task{
		ID: store.ID{Epoch: f.DB.Epoch(), N: 1}, Graph: f.Implementation.Graph.Name, Node: string(t.node), Subject: t.subject, Run: f.Run,
	}
	return workflow.Task{Task: stored, Batch: []*store.Task{&stored}, Try: 1, Previous: workflow.None}
}

// apply writes an outcome to the copy of the store.
func (f *Forecast) apply(step workflow.Step, t workflow.Task, o workflow.Outcome) (facts []graph.Fact, err error) {
	applier, ok := step.(workflow.Applier)
	if !ok {
		return nil, nil
	}
	err = f.DB.Update(func(tx *store.Tx) error {
		facts, err = applier.Apply(tx, t, o)
		return err
	})
	return facts, err
}

// list selects the items of a node's fan-out, but does not run them. list ends the fan-out as if no
// item had reported a fact.
func (f *Forecast) list(ctx context.Context, step workflow.Step, t workflow.Task) (items []graph.Item, facts []graph.Fact, err error) {
	if preparer, ok := step.(workflow.Preparer); ok {
		o, err := preparer.Prepare(ctx, t)
		if err == nil {
			err = f.DB.Update(func(tx *store.Tx) error { return preparer.ApplyPrepared(tx, t, o) })
		}
		if err != nil {
			return nil, nil, err
		}
		t.Prepared = true
	}
	lister, ok := step.(workflow.FanOuter)
	if !ok {
		return nil, nil, fmt.Errorf("the step of node %s cannot select the items of its fan-out", t.Node)
	}
	err = f.DB.Update(func(tx *store.Tx) error {
		var note json.RawMessage
		if items, note, err = lister.Items(tx, t); err != nil {
			return err
		}
		t.FanOut = &store.FanOut{Len: len(items), Next: len(items), Note: note}
		if ender, ok := step.(workflow.Ender); ok {
			facts, err = ender.End(tx, t, nil)
		}
		return err
	})
	return items, facts, err
}
