package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

var update = flag.Bool("update", false, "write the golden files")

// A fixture is a real engine with the graph of the lifecycle and a store in memory. The test sets the
// functions that its steps call.
type fixture struct {
	t   testing.TB
	mem *store.Memory
	db  *store.DB
	e   *workflow.Engine

	mu    sync.Mutex
	do    map[string]doing // keys are "node subject" or, for all other subjects of a node, "node"
	items map[graph.NodeID][]graph.Item
	apply map[graph.NodeID]func(*store.Tx, workflow.Task) error
}

type doing func(context.Context, workflow.Task) (workflow.Outcome, error)

// A step is the implementation of one node in a fixture.
type step struct {
	w    *fixture
	node graph.NodeID
}

func (s step) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	s.w.mu.Lock()
	do := s.w.do[strings.TrimSpace(string(s.node)+" "+t.Subject.String())]
	if do == nil {
		do = s.w.do[string(s.node)]
	}
	s.w.mu.Unlock()
	if do == nil {
		return workflow.Outcome{}, nil
	}
	return do(ctx, t)
}

func (s step) Items(_ *store.Tx, t workflow.Task) (items []graph.Item, _ json.RawMessage, _ error) {
	for _, m := range s.w.items[s.node] {
		if m.Subject.Module == t.Subject.Module {
			items = append(items, m)
		}
	}
	return items, nil, nil
}

func (s step) Apply(tx *store.Tx, t workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
	if apply := s.w.apply[s.node]; apply != nil {
		return nil, apply(tx, t)
	}
	return nil, nil
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	w := &fixture{
		t: t, mem: new(store.Memory), do: map[string]doing{}, items: map[graph.NodeID][]graph.Item{},
		apply: map[graph.NodeID]func(*store.Tx, workflow.Task) error{},
	}
	w.says(string(lifecycle.ModuleRun), lifecycle.AlreadyStarted)
	w.says(string(lifecycle.ReleaseCheck), lifecycle.Outdated)
	w.open()
	t.Cleanup(w.close)
	return w
}

// open opens the store with a new epoch and a new engine.
func (w *fixture) open() {
	w.t.Helper()
	var err error
	if w.db, err = store.OpenMemory(w.mem, store.Options{}); err != nil {
		w.t.Fatal(err)
	}
	steps := map[graph.NodeID]workflow.Step{}
	for _, n := range lifecycle.Graph.Nodes {
		if !n.Junction && !n.JoinsRunning {
			steps[n.ID] = step{w, n.ID}
		}
	}
	w.e, err = workflow.New(w.db, workflow.Observer{}, workflow.Implementation{Graph: lifecycle.Graph, Steps: steps})
	if err != nil {
		w.t.Fatal(err)
	}
}

// close stops the engine and closes the store. Running attempts are interrupted.
func (w *fixture) close() {
	w.t.Helper()
	w.e.Stop()
	if err := w.db.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *fixture) start(events ...workflow.Event) {
	w.t.Helper()
	if err := w.e.Start(func(*store.Tx) ([]workflow.Event, error) { return events, nil }); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *fixture) raise(events ...workflow.Event) {
	w.t.Helper()
	if err := w.db.Update(func(tx *store.Tx) error { return w.e.Raise(tx, events...) }); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *fixture) set(what string, do doing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.do[what] = do
}

func (w *fixture) says(what string, facts ...graph.Fact) {
	w.set(what, func(context.Context, workflow.Task) (workflow.Outcome, error) {
		return workflow.Outcome{Facts: facts}, nil
	})
}

// takes makes the given step run for the time d and then succeed.
func (w *fixture) takes(what string, d time.Duration) {
	w.set(what, func(ctx context.Context, _ workflow.Task) (workflow.Outcome, error) {
		select {
		case <-time.After(d):
			return workflow.Outcome{}, nil
		case <-ctx.Done():
			return workflow.Outcome{}, ctx.Err()
		}
	})
}

func (w *fixture) fails(what, how string) {
	w.set(what, func(context.Context, workflow.Task) (workflow.Outcome, error) {
		return workflow.Outcome{}, errors.New(how)
	})
}

func (w *fixture) discovers(names ...string) {
	w.set(string(lifecycle.DiscoverModules), func(context.Context, workflow.Task) (workflow.Outcome, error) {
		return workflow.Outcome{Items: map[graph.FanOut][]graph.Item{lifecycle.Enabled: modules(names...)}}, nil
	})
}

func modules(names ...string) (out []graph.Item) {
	for _, n := range names {
		out = append(out, graph.Item{Subject: graph.Subject{Module: n}})
	}
	return out
}

func hooks(module string, names ...string) (out []graph.Item) {
	for _, n := range names {
		out = append(out, graph.Item{Subject: graph.Subject{Module: module, Hook: n}})
	}
	return out
}

// sleep advances the fake clock by d, and waits until all goroutines are blocked.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func on(trigger graph.Trigger, what ...string) workflow.Event {
	ev := workflow.Event{On: trigger}
	for i, into := range []*string{&ev.Subject.Module, &ev.Subject.Hook, &ev.Subject.Binding} {
		if i < len(what) {
			*into = what[i]
		}
	}
	return ev
}

var onStart = workflow.Event{On: lifecycle.OnStart, Cause: store.Cause{Detail: "each start converges"}}

func onConfigMap(version string) workflow.Event {
	return workflow.Event{On: lifecycle.OnConfigMap, Cause: store.Cause{
		Object: "ConfigMap addons/addon-operator", ResourceVersion: version, Event: "Modified",
	}}
}

// snapshot returns the run with the given number, as a running operator shows it; 0 means the
// default run.
func (w *fixture) snapshot(id uint64) *inspect.Run {
	w.t.Helper()
	return w.read(inspect.Reader{Live: true}, id)
}

func (w *fixture) read(r inspect.Reader, id uint64) (run *inspect.Run) {
	w.t.Helper()
	r.Graphs = []*graph.Graph{lifecycle.Graph}
	err := w.db.View(func(tx *store.Tx) (err error) {
		run, err = r.Run(tx, inspect.Request{Run: id})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// list returns the text of the list of runs, as a running operator shows it.
func (w *fixture) list() string {
	w.t.Helper()
	var runs []inspect.Summary
	if err := w.db.View(func(tx *store.Tx) (err error) {
		runs, err = (&inspect.Reader{Live: true, Graphs: []*graph.Graph{lifecycle.Graph}}).Runs(tx, 30)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	l := layout
	l.Now = w.db.Now()
	return inspect.ListText(runs, l)
}

// shows compares the text of run number id to the golden file with the given name.
func (w *fixture) shows(golden string, id uint64) {
	w.t.Helper()
	compare(w.t, golden, inspect.Text(w.snapshot(id), layout))
}

var layout = inspect.Layout{Program: "addon-operator"}

// compare compares text with a golden file, and checks that no line is too wide. Commands may be wider, because they
// are not wrapped.
func compare(t testing.TB, golden, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 && !strings.Contains(line, "addon-operator ") && !strings.HasPrefix(strings.TrimSpace(line), "kubectl ") {
			t.Errorf("%s: a line is %d columns wide: %s", golden, n, line)
		}
	}
	compareAny(t, golden, text)
}

func compareAny(t testing.TB, golden, text string) {
	t.Helper()
	path := filepath.Join("testdata", golden)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path) //nolint:gosec // a file of the test
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", golden, diff)
	}
}

// names returns n names that begin with prefix.
func names(prefix string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%02d", prefix, i+1))
	}
	return out
}
