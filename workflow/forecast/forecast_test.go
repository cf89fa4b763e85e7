package forecast_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/forecast"
	"addon-operator/workflow/graph"
)

// The nodes and facts of the test's graph.
const (
	plan, module, upgrade, list, end graph.NodeID = "plan", "module", "upgrade", "list", "end"

	changed graph.Fact = "changed"
	ended   graph.Fact = "ended"

	modules graph.FanOut = "modules"
	hooks   graph.FanOut = "hooks"
)

var testGraph = &graph.Graph{
	Name: "test",
	Nodes: []graph.Node{
		{ID: plan}, {ID: module, Scope: graph.ScopeModule}, {ID: upgrade, Scope: graph.ScopeModule}, {ID: list, ForEach: hooks}, {ID: end},
	},
	Edges: []graph.Edge{
		{From: plan, To: module, ForEach: modules},
		{From: module, To: upgrade, When: changed},
		{From: plan, To: list},
		{From: list, To: end, When: ended},
		{From: end, To: plan, When: changed, Place: graph.Tail},
		{From: end, To: plan, Loop: true},
	},
}

// A step returns the result of its function.
type step func(t workflow.Task) (workflow.Outcome, error)

func (s step) Do(_ context.Context, t workflow.Task) (workflow.Outcome, error) { return s(t) }

// An applier also writes its outcome.
type applier struct {
	step

	apply func(tx *store.Tx, out workflow.Outcome) ([]graph.Fact, error)
}

func (a applier) Apply(tx *store.Tx, _ workflow.Task, out workflow.Outcome) ([]graph.Fact, error) {
	return a.apply(tx, out)
}

// A lister returns hooks as the items of a fan-out.
type lister struct {
	step

	items []graph.Item
	err   error
}

func (l lister) Items(*store.Tx, workflow.Task) ([]graph.Item, json.RawMessage, error) {
	return l.items, json.RawMessage(`"note"`), l.err
}

func (l lister) End(_ *store.Tx, t workflow.Task, facts []graph.Fact) ([]graph.Fact, error) {
	if t.FanOut.Next != len(l.items) || t.FanOut.Len != len(l.items) || string(t.FanOut.Note) != `"note"` || len(facts) > 0 {
		return nil, errors.New("the fan-out has not ended")
	}
	return []graph.Fact{ended}, nil
}

func nothing(workflow.Task) (workflow.Outcome, error) { return workflow.Outcome{}, nil }

func items(names ...string) (all []graph.Item) {
	for _, name := range names {
		all = append(all, graph.Item{Subject: graph.Subject{Module: name}})
	}
	return all
}

// steps returns steps that find two modules, one of which has changed.
func steps() map[graph.NodeID]workflow.Step {
	return map[graph.NodeID]workflow.Step{
		plan: step(func(workflow.Task) (workflow.Outcome, error) {
			return workflow.Outcome{Items: map[graph.FanOut][]graph.Item{modules: items("a", "b")}}, nil
		}),
		module: step(func(t workflow.Task) (out workflow.Outcome, _ error) {
			if t.Subject.Module == "b" {
				out.Facts = []graph.Fact{changed}
			}
			return out, nil
		}),
		upgrade: step(nothing),
		list:    lister{step: nothing, items: items("x", "y")},
		end:     step(nothing),
	}
}

// run passes a forecast of the test's graph with the given steps to the function from, and returns the text of each
// result.
func run(t *testing.T, steps map[graph.NodeID]workflow.Step, from func(*forecast.Forecast) error) (did []string, err error) {
	t.Helper()
	db, err := store.OpenMemory(new(store.Memory), store.Options{Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &forecast.Forecast{
		DB: db, Implementation: workflow.Implementation{Graph: testGraph, Steps: steps}, Run: 7,
		Done: func(r forecast.Result) {
			text := strings.TrimSpace(string(r.Node.ID) + " " + r.Subject.String())
			for _, item := range r.Items {
				text += " [" + item.Subject.Module + "]"
			}
			if r.Err != nil {
				text += ": " + strings.SplitN(r.Err.Error(), "\n", 2)[0]
			}
			did = append(did, text)
		},
	}
	err = from(f)
	return did, err
}

func fromPlan(f *forecast.Forecast) error { return f.From(context.Background(), plan) }

func expect(t *testing.T, want, did []string, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, did); diff != "" {
		t.Errorf("(-want +did):\n%s", diff)
	}
}

func TestEdgesAreFollowedInTheirOrderIfTheirFactsHold(t *testing.T) {
	t.Parallel()
	did, err := run(t, steps(), fromPlan)
	expect(t, []string{"plan", "module a", "module b", "upgrade b", "list [x] [y]", "end"}, did, err)
}

func TestOnlyFollowsNoEdge(t *testing.T) {
	t.Parallel()
	did, err := run(t, steps(), func(f *forecast.Forecast) error { return f.Only(t.Context(), plan) })
	expect(t, []string{"plan"}, did, err)
}

func TestSkippedItemsAreNotCarriedOut(t *testing.T) {
	t.Parallel()
	did, err := run(t, steps(), func(f *forecast.Forecast) error {
		f.Skip = func(to graph.NodeID, s graph.Subject) bool { return to == module && s.Module == "b" }
		return fromPlan(f)
	})
	expect(t, []string{"plan", "module a", "list [x] [y]", "end"}, did, err)
}

// TestRunsAtTheTailAreBounded uses steps with which each run requests another run. The forecast
// must end after three runs.
func TestRunsAtTheTailAreBounded(t *testing.T) {
	t.Parallel()
	all := steps()
	all[plan] = step(nothing)
	all[end] = step(func(workflow.Task) (workflow.Outcome, error) {
		return workflow.Outcome{Facts: []graph.Fact{changed}}, nil
	})
	did, err := run(t, all, fromPlan)
	one := []string{"plan", "list [x] [y]", "end"}
	expect(t, append(append(append([]string{}, one...), one...), one...), did, err)
}

func TestAFailingModuleStopsOnlyItsOwnNodes(t *testing.T) {
	t.Parallel()
	all := steps()
	all[module] = step(func(t workflow.Task) (out workflow.Outcome, err error) {
		if out.Facts = []graph.Fact{changed}; t.Subject.Module == "a" {
			err = errors.New("no chart")
		}
		return out, err
	})
	did, err := run(t, all, fromPlan)
	expect(t, []string{"plan", "module a: no chart", "module b", "upgrade b", "list [x] [y]", "end"}, did, err)
}

func TestAnyOtherFailureEndsTheForecast(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]map[graph.NodeID]workflow.Step{
		"plan: no modules":         {plan: step(func(workflow.Task) (workflow.Outcome, error) { return workflow.Outcome{}, errors.New("no modules") })},
		"plan: step panicked: bug": {plan: step(func(workflow.Task) (workflow.Outcome, error) { panic("bug") })},
		"list: no hooks":           {list: lister{step: nothing, err: errors.New("no hooks")}},
		"list: the step of node list cannot select the items of its fan-out": {list: step(nothing)},
		"end: not written": {end: applier{nothing, func(*store.Tx, workflow.Outcome) ([]graph.Fact, error) {
			return nil, errors.New("not written")
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := steps()
			maps.Copy(all, broken)
			if _, err := run(t, all, fromPlan); err == nil || !strings.HasPrefix(err.Error(), name) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestACanceledForecastEnds makes a module fail because the context has ended. The forecast must
// not continue with the next module.
func TestACanceledForecastEnds(t *testing.T) {
	t.Parallel()
	all := steps()
	ctx, cancel := context.WithCancel(t.Context())
	all[module] = step(func(workflow.Task) (workflow.Outcome, error) {
		cancel()
		return workflow.Outcome{}, ctx.Err()
	})
	did, err := run(t, all, func(f *forecast.Forecast) error { return f.From(ctx, plan) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	expect(t, []string{"plan", "module a: context canceled"}, did, nil)
}

// TestStepsReadWhatEarlierStepsWrote uses a step whose Apply writes to the store and reports a
// fact, and a next step that reads from the store. The next step must read what Apply has written.
func TestStepsReadWhatEarlierStepsWrote(t *testing.T) {
	t.Parallel()
	read := ""
	all := steps()
	all[module] = applier{
		func(workflow.Task) (workflow.Outcome, error) { return workflow.Outcome{Detail: "written"}, nil },
		func(tx *store.Tx, out workflow.Outcome) ([]graph.Fact, error) {
			return []graph.Fact{changed}, store.Save(tx, store.ModuleKey("a"), store.Module{Why: out.Detail})
		},
	}
	did, err := run(t, all, func(f *forecast.Forecast) error {
		all[upgrade] = step(func(task workflow.Task) (workflow.Outcome, error) {
			if task.Run != 7 || task.Try != 1 || task.Graph != "test" || len(task.Batch) != 1 {
				t.Errorf("task %+v", task)
			}
			return workflow.Outcome{}, f.DB.View(func(tx *store.Tx) error {
				m, _, err := store.Load[store.Module](tx, store.ModuleKey("a"))
				read = m.Why
				return err
			})
		})
		return fromPlan(f)
	})
	expect(t, []string{"plan", "module a", "upgrade a", "module b", "upgrade b", "list [x] [y]", "end"}, did, err)
	if read != "written" {
		t.Errorf("read %q", read)
	}
}

func TestAnUnknownNodeIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := run(t, steps(), func(f *forecast.Forecast) error { return f.Only(t.Context(), "none") }); err == nil || err.Error() != "graph test has no node none" {
		t.Errorf("error %v", err)
	}
}

// A preparer is a lister that is prepared before its items are selected.
type preparer struct {
	lister

	err   error
	apply func(*store.Tx, workflow.Outcome) error
}

func (p preparer) Prepare(context.Context, workflow.Task) (workflow.Outcome, error) {
	return workflow.Outcome{Detail: "prepared"}, p.err
}

func (p preparer) ApplyPrepared(tx *store.Tx, _ workflow.Task, out workflow.Outcome) error {
	return p.apply(tx, out)
}

func (p preparer) Items(tx *store.Tx, t workflow.Task) ([]graph.Item, json.RawMessage, error) {
	m, _, err := store.Load[store.Module](tx, store.ModuleKey("a"))
	if m.Why != "prepared" || !t.Prepared {
		return nil, nil, errors.New("the node is not prepared")
	}
	items, note, _ := p.lister.Items(tx, t)
	return items, note, err
}

func TestANodeIsPreparedBeforeItsItemsAreSelected(t *testing.T) {
	t.Parallel()
	all := steps()
	prepared := preparer{lister{step: nothing, items: items("x")}, nil, func(tx *store.Tx, out workflow.Outcome) error {
		return store.Save(tx, store.ModuleKey("a"), store.Module{Why: out.Detail})
	}}
	all[list] = prepared
	did, err := run(t, all, fromPlan)
	expect(t, []string{"plan", "module a", "module b", "upgrade b", "list [x]", "end"}, did, err)

	for want, broken := range map[string]preparer{
		"list: no chart":    {prepared.lister, errors.New("no chart"), prepared.apply},
		"list: not written": {prepared.lister, nil, func(*store.Tx, workflow.Outcome) error { return errors.New("not written") }},
	} {
		all[list] = broken
		did, err := run(t, all, fromPlan)
		if err == nil || err.Error() != want || did[len(did)-1] != want {
			t.Errorf("error %v, want %q, after %q", err, want, did)
		}
	}
}

// TestAJunctionAndANodeThatJoinsTasksOnlyLeadOn removes the step of a node, because junctions and
// nodes that join tasks have no step. The forecast must still follow the edges of the node.
func TestAJunctionAndANodeThatJoinsTasksOnlyLeadOn(t *testing.T) {
	t.Parallel()
	all := steps()
	delete(all, plan)
	did, err := run(t, all, fromPlan)
	expect(t, []string{"plan", "list [x] [y]", "end"}, did, err)
}

func TestFactsOfTheOutcomeAndOfItsWritesCount(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		outcome, written []graph.Fact
		upgraded         bool
	}{
		"no fact": {nil, nil, false}, "the outcome": {[]graph.Fact{changed}, nil, true}, "the writes": {nil, []graph.Fact{changed}, true}, "another fact": {[]graph.Fact{ended}, []graph.Fact{ended}, false},
	} {
		all := steps()
		all[module] = applier{
			func(workflow.Task) (workflow.Outcome, error) { return workflow.Outcome{Facts: test.outcome}, nil },
			func(*store.Tx, workflow.Outcome) ([]graph.Fact, error) { return test.written, nil },
		}
		did, err := run(t, all, fromPlan)
		if upgraded := slices.Contains(did, "upgrade a"); err != nil || upgraded != test.upgraded {
			t.Errorf("%s: it did %q, error %v", name, did, err)
		}
	}
}

// TestWritesOfAFailedStepAreUndone uses a step whose Apply writes a record and then fails. The copy of the store must
// not have the record.
func TestWritesOfAFailedStepAreUndone(t *testing.T) {
	t.Parallel()
	all := steps()
	all[module] = applier{nothing, func(tx *store.Tx, _ workflow.Outcome) ([]graph.Fact, error) {
		return nil, errors.Join(store.Save(tx, store.ModuleKey("a"), store.Module{Why: "half"}), errors.New("not written"))
	}}
	did, err := run(t, all, func(f *forecast.Forecast) error {
		err := fromPlan(f)
		return errors.Join(err, f.DB.View(func(tx *store.Tx) error {
			if m, found, err := store.Load[store.Module](tx, store.ModuleKey("a")); found || err != nil {
				t.Errorf("the copy has the record %+v, error %v", m, err)
			}
			return nil
		}))
	})
	expect(t, []string{"plan", "module a: not written", "module b: not written", "list [x] [y]", "end"}, did, err)
}
