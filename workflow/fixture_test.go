package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// A fixture is an engine with a store in memory. A test sets the behavior of its steps, and the
// steps record their runs. By default, the store is checked after every commit.
type fixture struct {
	t     testing.TB
	mem   *store.Memory
	db    *store.DB
	e     *workflow.Engine
	steps []workflow.Implementation
	begun time.Time
	clock func() time.Time // clock of the store; nil means the system clock

	mu            sync.Mutex
	notes         []note
	do            map[string]func(context.Context, workflow.Task) (workflow.Outcome, error)
	items         map[graph.NodeID]func(*store.Tx, workflow.Task) ([]graph.Item, error)
	apply         func(*store.Tx, workflow.Task, workflow.Outcome) ([]graph.Fact, error)
	effect        func(context.Context, workflow.Task, workflow.Effect) error
	end           func(*store.Tx, workflow.Task, []graph.Fact) ([]graph.Fact, error)
	prepare       func(context.Context, workflow.Task) (workflow.Outcome, error)
	applyPrepared func(*store.Tx, workflow.Task, workflow.Outcome) error
	looped        func(store.Task)
	quarantined   func(store.QuarantinedItem)
	recorded      func(store.Record)
	ended         func(store.Run)
	broken        []error
	fragile       bool // if true, the test does not fail if the engine cannot process a queue
	unsound       bool // if true, the store can have damaged records, so it is not checked
	sparse        bool // if true, the store is checked only after every fourth commit, because checks take most of the time
}

// A note records that a run of a step has begun: the name of the step, the time from the beginning of
// the test to the start of the run, and the task.
type note struct {
	what string // "node subject"
	at   time.Duration
	task workflow.Task
}

// A step is the implementation of one node in a fixture.
type step struct {
	w    *fixture
	node graph.NodeID
}

func (s step) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	do := s.w.called(s.node, t)
	if do == nil {
		return workflow.Outcome{}, nil
	}
	return do(ctx, t)
}

// called records that the step of node runs for t. called returns the function that the test has set for the step; nil
// if there is none.
func (w *fixture) called(node graph.NodeID, t workflow.Task) func(context.Context, workflow.Task) (workflow.Outcome, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what := name(string(node), t.Subject)
	w.notes = append(w.notes, note{what: what, at: time.Since(w.begun), task: t})
	if do := w.do[what]; do != nil {
		return do
	}
	return w.do[string(node)]
}

func (s step) Items(tx *store.Tx, t workflow.Task) ([]graph.Item, json.RawMessage, error) {
	if s.w.items[s.node] == nil {
		return nil, nil, nil
	}
	items, err := s.w.items[s.node](tx, t)
	return items, nil, err
}

func (s step) Apply(tx *store.Tx, t workflow.Task, out workflow.Outcome) ([]graph.Fact, error) {
	if s.w.apply == nil {
		return nil, nil
	}
	return s.w.apply(tx, t, out)
}

func (s step) Effect(ctx context.Context, t workflow.Task, e workflow.Effect) error {
	var effect func(context.Context, workflow.Task, workflow.Effect) error
	s.w.locked(func() { effect = s.w.effect })
	if effect == nil {
		return nil
	}
	return effect(ctx, t, e)
}

func (s step) End(tx *store.Tx, t workflow.Task, facts []graph.Fact) ([]graph.Fact, error) {
	if s.w.end == nil {
		return nil, nil
	}
	return s.w.end(tx, t, facts)
}

// preparing is a step that also has the methods of a Preparer, which call the functions prepare and
// applyPrepared of the fixture.
type preparing struct{ step }

func (s preparing) Prepare(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	s.w.called("prepare "+s.node, t)
	return s.w.prepare(ctx, t)
}

func (s preparing) ApplyPrepared(tx *store.Tx, t workflow.Task, out workflow.Outcome) error {
	return s.w.applyPrepared(tx, t, out)
}

func name(node string, s graph.Subject) string {
	return strings.TrimSpace(node + " " + s.String())
}

// newFixture returns a fixture for graphs. The engine of the fixture is not started yet, and is
// stopped at the end of the test.
func newFixture(t testing.TB, graphs ...*graph.Graph) *fixture {
	t.Helper()
	w := &fixture{
		t: t, mem: new(store.Memory), begun: time.Now(),
		do:    map[string]func(context.Context, workflow.Task) (workflow.Outcome, error){},
		items: map[graph.NodeID]func(*store.Tx, workflow.Task) ([]graph.Item, error){},
	}
	for _, g := range graphs {
		w.steps = append(w.steps, workflow.Implementation{Graph: g, Steps: map[graph.NodeID]workflow.Step{}})
		for _, n := range g.Nodes {
			if !n.Junction && !n.JoinsRunning {
				w.bind(g, n.ID, step{w, n.ID})
			}
		}
	}
	w.open()
	t.Cleanup(w.close)
	return w
}

// bind replaces the step of node.
func (w *fixture) bind(g *graph.Graph, node graph.NodeID, s workflow.Step) {
	for _, b := range w.steps {
		if b.Graph == g {
			b.Steps[node] = s
		}
	}
}

// open opens the store with a new epoch and a new engine.
func (w *fixture) open() {
	w.t.Helper()
	w.mem.After = nil
	var err error
	if w.db, err = store.OpenMemory(w.mem, store.Options{Clock: w.clock}); err != nil {
		w.t.Fatal(err)
	}
	db := w.db
	w.mem.After = func(n int) error {
		if w.unsound || w.sparse && n%4 != 0 {
			return nil
		}
		if err := db.Check(); err != nil {
			w.t.Errorf("after commit %d: %v", n, err)
		}
		return nil
	}
	w.e = w.engine()
}

// engine returns a new engine for the store of the fixture.
func (w *fixture) engine() *workflow.Engine {
	w.t.Helper()
	e, err := workflow.New(w.db, workflow.Observer{
		Broken: func(queue string, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.broken = append(w.broken, err)
			if !w.fragile {
				w.t.Errorf("queue %q: %v", queue, err)
			}
		},
		Recorded: func(r store.Record) {
			if w.recorded != nil {
				w.recorded(r)
			}
		},
		Ended: func(run store.Run) {
			if w.ended != nil {
				w.ended(run)
			}
		},
		Quarantined: func(q store.QuarantinedItem) {
			if w.quarantined != nil {
				w.quarantined(q)
			}
		},
		Looped: func(t store.Task) {
			if w.looped != nil {
				w.looped(t)
			}
		},
	}, w.steps...)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// close stops the engine and closes the store. Running attempts are interrupted.
func (w *fixture) close() {
	w.t.Helper()
	w.e.Stop()
	if w.db.Err() == nil && !w.unsound {
		if err := w.db.Check(); err != nil {
			w.t.Error(err)
		}
	}
	if err := w.db.Close(); err != nil {
		w.t.Error(err)
	}
}

// restart closes the store and opens it again, with an engine that is not started.
func (w *fixture) restart() {
	w.t.Helper()
	w.close()
	w.open()
}

// start starts the engine with events, and waits until all goroutines are blocked.
func (w *fixture) start(events ...workflow.Event) {
	w.t.Helper()
	if err := w.e.Start(func(*store.Tx) ([]workflow.Event, error) { return events, nil }); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// raise raises events in one transaction, and waits until all goroutines are blocked.
func (w *fixture) raise(events ...workflow.Event) {
	w.t.Helper()
	if err := w.db.Update(func(tx *store.Tx) error { return w.e.Raise(tx, events...) }); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// withdraw removes those waiting events of a hook that the function match accepts; all of them if
// match is nil. Then withdraw waits until all goroutines are blocked.
func (w *fixture) withdraw(queue, module, hook string, match func(*store.Task) bool) {
	w.t.Helper()
	if match == nil {
		match = func(*store.Task) bool { return true }
	}
	if err := w.db.Update(func(tx *store.Tx) error {
		return w.e.Withdraw(tx, delivered(queue, module, hook, match))
	}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// delivered returns the withdrawal of those waiting events of a hook that the function match accepts.
func delivered(queue, module, hook string, match func(*store.Task) bool) workflow.Withdrawal {
	return workflow.Withdrawal{Queue: queue, Subject: graph.Subject{Module: module, Hook: hook}, Why: "it is delivered", Match: match}
}

// ran returns the names of the steps that have begun since the last call of ran or took, as "node
// subject".
func (w *fixture) ran() []string {
	var out []string
	for _, n := range w.took() {
		out = append(out, n.what)
	}
	return out
}

// took returns the notes since the last call of took or ran.
func (w *fixture) took() []note {
	w.mu.Lock()
	defer w.mu.Unlock()
	notes := w.notes
	w.notes = nil
	return notes
}

// expect waits until all goroutines are blocked, and expects that exactly the steps in want have
// begun since the last call of ran or took, in this order.
func (w *fixture) expect(want ...string) {
	w.t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, w.ran()); diff != "" {
		w.t.Errorf("what ran (-want +got):\n%s", diff)
	}
}

// expectAny is like expect, but the steps can run in any order, because they are in several queues.
func (w *fixture) expectAny(want ...string) {
	w.t.Helper()
	synctest.Wait()
	ran := w.ran()
	slices.Sort(ran)
	slices.Sort(want)
	if diff := cmp.Diff(want, ran); diff != "" {
		w.t.Errorf("what ran (-want +got):\n%s", diff)
	}
}

// expectAt is like expect, but each text in want begins with the start of the step, in seconds since the beginning of
// the test.
func (w *fixture) expectAt(want ...string) {
	w.t.Helper()
	synctest.Wait()
	var got []string
	for _, n := range w.took() {
		got = append(got, fmt.Sprintf("%v %s", n.at.Seconds(), n.what))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("what ran, and when (-want +got):\n%s", diff)
	}
}

// sleep lets d pass, and waits until all goroutines are blocked.
func (w *fixture) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// gate makes each run of the given step wait until the returned function is called with the result of
// this run. Each call ends one run. A run also ends, with an error, if its context ends. The name of
// the step is a node or "node subject".
func (w *fixture) gate(what string) (open func(workflow.Outcome, error)) {
	type end struct {
		out workflow.Outcome
		err error
	}
	ends := make(chan end)
	w.set(what, func(ctx context.Context, _ workflow.Task) (workflow.Outcome, error) {
		select {
		case e := <-ends:
			return e.out, e.err
		case <-ctx.Done():
			return workflow.Outcome{}, ctx.Err()
		}
	})
	return func(out workflow.Outcome, err error) {
		ends <- end{out, err}
		synctest.Wait()
	}
}

func (w *fixture) set(what string, do func(context.Context, workflow.Task) (workflow.Outcome, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.do[what] = do
}

// locked calls fn with the mutex of the fixture locked, so that fn can change variables that steps
// read.
func (w *fixture) locked(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
}

// reports makes each run of the given step succeed and report facts.
func (w *fixture) reports(what string, facts ...graph.Fact) {
	w.set(what, returns(workflow.Outcome{Facts: facts}))
}

// returns creates the function of a step that succeeds with the outcome out.
func returns(out workflow.Outcome) func(context.Context, workflow.Task) (workflow.Outcome, error) {
	return func(context.Context, workflow.Task) (workflow.Outcome, error) { return out, nil }
}

// fails makes the given step fail n times. After that, the step succeeds and reports facts.
func (w *fixture) fails(what string, n int, facts ...graph.Fact) {
	w.set(what, func(context.Context, workflow.Task) (workflow.Outcome, error) {
		if n--; n >= 0 {
			return workflow.Outcome{}, fmt.Errorf("%s fails as the test requires", what)
		}
		return workflow.Outcome{Facts: facts}, nil
	})
}

// lists sets the items of the fan-out of node.
func (w *fixture) lists(node graph.NodeID, items ...graph.Item) {
	w.items[node] = func(*store.Tx, workflow.Task) ([]graph.Item, error) { return items, nil }
}

// hooks returns an item for each hook.
func hooks(names ...string) (out []graph.Item) {
	for _, n := range names {
		out = append(out, graph.Item{Subject: graph.Subject{Hook: n}})
	}
	return out
}

// bindings returns an item for each binding of a global hook. The items run in the given queue, and
// the fan-out waits for them.
func bindings(hook, queue string, names ...string) (out []graph.Item) {
	for _, n := range names {
		out = append(out, graph.Item{Subject: graph.Subject{Hook: hook, Binding: n}, Queue: queue, Wait: true})
	}
	return out
}

// modules returns an item for each module.
func modules(names ...string) (out []graph.Item) {
	for _, n := range names {
		out = append(out, graph.Item{Subject: graph.Subject{Module: n}})
	}
	return out
}

// newGraph returns a graph, and fills in the descriptions that its check requires.
func newGraph(nodes []graph.Node, edges ...graph.Edge) *graph.Graph {
	g := &graph.Graph{
		Name: "test", Doc: "a graph of a test", Nodes: nodes, Edges: edges,
		Triggers: map[graph.Trigger]string{}, Facts: map[graph.Fact]string{}, FanOuts: map[graph.FanOut]string{},
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		n.Number, n.Doc = fmt.Sprint(i+1), "do "+string(n.ID)
		if n.ForEach != "" {
			g.FanOuts[n.ForEach] = "a list"
		}
	}
	for _, e := range edges {
		for _, f := range []graph.Fact{e.When, e.Unless} {
			if f != "" {
				g.Facts[f] = "a fact"
			}
		}
		if e.ForEach != "" {
			g.FanOuts[e.ForEach] = "a list"
		}
		if e.On != "" {
			g.Triggers[e.On] = "a trigger"
		}
	}
	return g
}

// on returns an event of trigger. The other arguments are the module, the hook and the binding of
// the event, in this order; the last ones can be omitted.
func on(trigger graph.Trigger, what ...string) workflow.Event {
	ev := workflow.Event{On: trigger}
	for i, into := range []*string{&ev.Subject.Module, &ev.Subject.Hook, &ev.Subject.Binding} {
		if i < len(what) {
			*into = what[i]
		}
	}
	return ev
}

// about returns ev as a Modified event of the named object.
func about(ev workflow.Event, object string) workflow.Event {
	ev.Object = &store.ObjectRef{Event: "Modified", Kind: "ConfigMap", Name: object, UID: "uid-" + object}
	return ev
}

// in returns ev with the given queue.
func in(queue string, ev workflow.Event) workflow.Event {
	ev.Queue = queue
	return ev
}
