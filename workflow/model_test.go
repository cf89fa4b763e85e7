package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// An oracle is a testing.TB that collects failures instead of failing the test, so that rapid can
// look for a smaller case that fails. The function law runs the cleanups of an oracle.
type oracle struct {
	testing.TB
	wrong    []string
	cleanups []func()
}

func (o *oracle) Helper()           {}
func (o *oracle) Error(args ...any) { o.wrong = append(o.wrong, fmt.Sprint(args...)) }
func (o *oracle) Errorf(format string, args ...any) {
	o.wrong = append(o.wrong, fmt.Sprintf(format, args...))
}
func (o *oracle) Cleanup(fn func()) { o.cleanups = append(o.cleanups, fn) }
func (o *oracle) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// law is a property test: it calls story, in fake time, with values from draw, and fails if story
// reports a failure.
func law[T any](t *testing.T, draw func(*rapid.T) T, story func(o *oracle, drawn T)) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		drawn := draw(rt)
		o := &oracle{TB: t}
		synctest.Test(t, func(*testing.T) {
			story(o, drawn)
			for _, fn := range slices.Backward(o.cleanups) {
				fn()
			}
		})
		if len(o.wrong) > 0 {
			rt.Fatalf("%s", strings.Join(o.wrong, "\n"))
		}
	})
}

// A shape is a random graph without loops, so every run of it ends.
type shape struct {
	Nodes  []shapeNode
	Edges  []shapeEdge
	Raised []int // nodes of the raised events, in order
}

type shapeNode struct {
	Items int // number of items of its fan-out; -1 means no fan-out
	Once  bool
	Fails int // number of failures before the node succeeds
}

type shapeEdge struct {
	From, To int
	Items    int // number of items of its fan-out; -1 means no fan-out
	Put      graph.Place
}

func drawShape(rt *rapid.T) shape {
	n := rapid.IntRange(2, 6).Draw(rt, "nodes")
	var s shape
	for range n {
		s.Nodes = append(s.Nodes, shapeNode{
			Items: rapid.IntRange(-1, 3).Draw(rt, "members"), Once: rapid.Bool().Draw(rt, "once"), Fails: rapid.IntRange(0, 1).Draw(rt, "fails"),
		})
	}
	for range rapid.IntRange(0, 8).Draw(rt, "edges") {
		from := rapid.IntRange(0, n-2).Draw(rt, "from")
		to := rapid.IntRange(from+1, n-1).Draw(rt, "to")
		e := shapeEdge{From: from, To: to, Items: -1, Put: rapid.SampledFrom([]graph.Place{graph.Stack, graph.Stack, graph.Tail, graph.Front}).Draw(rt, "put")}
		if s.Nodes[from].Items < 0 {
			e.Items = rapid.IntRange(-1, 2).Draw(rt, "each")
		}
		s.Edges = append(s.Edges, e)
	}
	for range rapid.IntRange(1, 4).Draw(rt, "events") {
		s.Raised = append(s.Raised, rapid.IntRange(0, n-1).Draw(rt, "raised"))
	}
	return s
}

func nodeID(i int) graph.NodeID { return graph.NodeID(fmt.Sprint("n", i)) }

// graph returns the graph of s. Each node has a trigger of its own, which adds a task at the tail.
func (s shape) graph() *graph.Graph {
	var nodes []graph.Node
	var edges []graph.Edge
	for i, n := range s.Nodes {
		node := graph.Node{ID: nodeID(i), Scope: graph.ScopeModule, Unique: n.Once}
		if n.Items >= 0 {
			node.ForEach = graph.FanOut(fmt.Sprint("list ", i))
		}
		nodes = append(nodes, node)
		edges = append(edges, graph.Edge{On: graph.Trigger(fmt.Sprint("go ", i)), To: node.ID, Place: graph.Tail})
	}
	for i, e := range s.Edges {
		edge := graph.Edge{From: nodeID(e.From), To: nodeID(e.To), Place: e.Put}
		if e.Items >= 0 {
			edge.ForEach = graph.FanOut(fmt.Sprint("edge ", i))
		}
		edges = append(edges, edge)
	}
	return newGraph(nodes, edges...)
}

// A plainTask is a task of the model.
type plainTask struct {
	node    int
	subject string
	place   *plainPlace
	list    bool     // the task has a fan-out
	edge    bool     // the fan-out belongs to an edge, so each item is a task of its own
	items   []string // the remaining items
	begun   bool
}

// A plainPlace is a slot of the model: a stack of tasks. The last task of the slice is on top, and is
// processed first.
type plainPlace struct{ tasks []*plainTask }

// A plainQueue is the model of a queue: a slice of slots.
type plainQueue struct {
	s      shape
	places []*plainPlace
	ran    []string
	tries  map[string]int
}

func (q *plainQueue) tail() *plainPlace {
	q.places = append(q.places, &plainPlace{})
	return q.places[len(q.places)-1]
}

func (q *plainQueue) front() *plainPlace {
	q.places = slices.Insert(q.places, 0, &plainPlace{})
	return q.places[0]
}

// put adds t on top of place. Of two equal waiting tasks, only the one nearer to the head stays.
func (q *plainQueue) put(t *plainTask, place *plainPlace) {
	t.place = place
	place.tasks = append(place.tasks, t)
	var equal []*plainTask
	for _, p := range q.places {
		for _, other := range slices.Backward(p.tasks) {
			if q.s.Nodes[t.node].Once && other.node == t.node && other.subject == t.subject && !other.begun && !other.edge {
				equal = append(equal, other)
			}
		}
	}
	if len(equal) == 2 {
		q.remove(equal[1])
	}
}

func (q *plainQueue) remove(t *plainTask) {
	t.place.tasks = slices.DeleteFunc(t.place.tasks, func(other *plainTask) bool { return other == t })
}

// do processes the first task of the queue, or one item of this task. do reports whether there was
// a task.
func (q *plainQueue) do() bool {
	q.places = slices.DeleteFunc(q.places, func(p *plainPlace) bool { return len(p.tasks) == 0 })
	if len(q.places) == 0 {
		return false
	}
	tasks := q.places[0].tasks
	t := tasks[len(tasks)-1]
	t.begun = true
	n := q.s.Nodes[t.node]
	if n.Items >= 0 && !t.edge && !t.list {
		t.list, t.items = true, itemNames(n.Items)
	}
	switch {
	case t.edge && len(t.items) > 0:
		child := &plainTask{node: t.node, subject: t.items[0]}
		t.items = t.items[1:]
		q.put(child, t.place)
	case t.edge:
		q.remove(t)
	case t.list && len(t.items) > 0:
		if q.runs(t.node, t.items[0]) {
			t.items = t.items[1:]
		}
	case t.list || q.runs(t.node, t.subject):
		q.follow(t)
	}
	return true
}

// runs records one run of node, and reports whether the run succeeds.
func (q *plainQueue) runs(node int, subject string) bool {
	what := name(string(nodeID(node)), graph.Subject{Module: subject})
	q.ran = append(q.ran, what)
	q.tries[what]++
	return q.tries[what] > q.s.Nodes[node].Fails
}

// follow replaces t by the tasks that follow t. Tasks for the slot of t are stacked in that slot, the
// first one on top. All other tasks are added in the order of their edges.
func (q *plainQueue) follow(t *plainTask) {
	var here []*plainTask
	for _, e := range q.s.Edges {
		if e.From != t.node {
			continue
		}
		next := []*plainTask{{node: e.To, subject: t.subject}}
		switch {
		case e.Items >= 0 && e.Put == graph.Stack:
			next[0].list, next[0].edge, next[0].items = true, true, itemNames(e.Items)
			if e.Items == 0 {
				next = nil
			}
		case e.Items >= 0:
			next = nil
			for _, m := range itemNames(e.Items) {
				next = append(next, &plainTask{node: e.To, subject: m})
			}
		}
		for _, task := range next {
			switch e.Put {
			case graph.Stack:
				here = append(here, task)
			case graph.Front:
				q.put(task, q.front())
			default:
				q.put(task, q.tail())
			}
		}
	}
	q.remove(t)
	for _, task := range slices.Backward(here) {
		q.put(task, t.place)
	}
}

func itemNames(n int) (out []string) {
	for i := range n {
		out = append(out, string(rune('a'+i)))
	}
	return out
}

func TestQueueDoesWhatASliceOfStacksDoes(t *testing.T) {
	law(t, drawShape, func(o *oracle, s shape) {
		model := &plainQueue{s: s, tries: map[string]int{}}
		g := s.graph()
		w := newFixture(o, g)
		tries := map[string]int{}
		var events []workflow.Event
		for _, n := range s.Raised {
			model.put(&plainTask{node: n}, model.tail())
			events = append(events, on(graph.Trigger(fmt.Sprint("go ", n))))
		}
		for i, n := range s.Nodes {
			w.lists(nodeID(i), modules(itemNames(max(n.Items, 0))...)...)
			w.set(string(nodeID(i)), func(_ context.Context, t workflow.Task) (out workflow.Outcome, err error) {
				what := name(t.Node, t.Subject)
				if tries[what]++; tries[what] <= n.Fails {
					return out, errors.New("as the test requires")
				}
				out.Items = map[graph.FanOut][]graph.Item{}
				for i, e := range s.Edges {
					if e.Items >= 0 {
						out.Items[graph.FanOut(fmt.Sprint("edge ", i))] = modules(itemNames(e.Items)...)
					}
				}
				return out, nil
			})
		}
		for model.do() {
		}
		w.start(events...)
		w.sleep(24 * time.Hour)
		w.expect(model.ran...)
		w.expectPending("main")
		for _, run := range w.runs() {
			if run.Open != 0 || run.Ended.IsZero() {
				o.Errorf("run %d has not ended", run.ID)
			}
		}
	})
}
