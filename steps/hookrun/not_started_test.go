package hookrun_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"addon-operator/steps/hookio"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// syncedIn returns the start in which the binding pods was synchronized.
func (b *runBench) syncedIn() uint64 {
	b.t.Helper()
	var record store.Binding
	if err := b.s.DB.View(func(tx *store.Tx) (err error) {
		record, _, err = store.Load[store.Binding](tx, store.BindingKey("web", "hooks/hook.sh", "pods"))
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	return record.SyncedIn
}

// waiting returns the task in queue main.
func (b *runBench) waiting() (waiting *store.Task) {
	b.t.Helper()
	if err := b.s.DB.View(func(tx *store.Tx) error {
		for t, err := range store.Tasks(tx, "main") {
			if err != nil {
				return err
			}
			waiting = t
		}
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
	return waiting
}

// synchronize runs the Synchronization of the binding pods with an engine. The binding allows failures. The records of
// its attempts are sent to the returned channel.
func (b *runBench) synchronize() (*workflow.Engine, <-chan store.Record) {
	b.t.Helper()
	g := &graph.Graph{
		Name: "test", Doc: "a Synchronization",
		Nodes:    []graph.Node{{Number: "1", ID: "sync", Doc: "run a Synchronization", Scope: graph.ScopeBinding}},
		Edges:    []graph.Edge{{On: "sync", To: "sync", Place: graph.BindingQueue}},
		Triggers: map[graph.Trigger]string{"sync": "a Synchronization"},
	}
	step := b.hooks.Step(lifecycle.ModuleSynchronization)
	applier, ok := step.(workflow.Applier)
	if !ok {
		b.t.Fatal("the step saves nothing")
	}
	records := make(chan store.Record, 8)
	e, err := workflow.New(b.s.DB, workflow.Observer{Recorded: func(r store.Record) { records <- r }},
		workflow.Join(g, workflow.Steps{"sync": synchronization{applier, step}}))
	if err != nil {
		b.t.Fatal(err)
	}
	pods := graph.Subject{Module: "web", Hook: "hooks/hook.sh", Binding: "pods"}
	if err := e.Start(func(*store.Tx) ([]workflow.Event, error) {
		return []workflow.Event{{On: "sync", Subject: pods, Queue: "main", Payload: json.RawMessage(`{}`), AllowFailure: true}}, nil
	}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(e.Stop)
	return e, records
}

func TestASynchronizationThatWasNotStartedIsRetriedThoughItsFailureIsAllowed(t *testing.T) {
	values := func(b *runBench, text string) {
		scantest.Write(b.t, filepath.Dir(filepath.Dir(b.path)), "values.yaml", text)
		scantest.Scan(b.t, b.s)
	}
	mode := func(b *runBench, mode os.FileMode) {
		if err := os.Chmod(b.path, mode); err != nil {
			b.t.Fatal(err)
		}
	}
	for name, test := range map[string]struct{ spoil, mend func(b *runBench) }{
		"snapshots are missing": {
			func(b *runBench) { b.snapshots.missing = errors.New("the list of Pods is forbidden") },
			func(b *runBench) { b.snapshots.missing = nil },
		},
		"the module cannot be loaded": {
			func(b *runBench) { values(b, "web: [") }, func(b *runBench) { values(b, "web: {size: 1}") },
		},
		"the file is not executable": {
			func(b *runBench) { mode(b, 0o600) }, func(b *runBench) { mode(b, 0o700) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRunBench(t, "web", moduleHook, "")
			test.spoil(b)
			e, records := b.synchronize()
			if r := <-records; r.State != store.Failed || b.syncedIn() != 0 {
				t.Fatalf("the first attempt is %s, %s; synchronized in start %d", r.State, r.Error, b.syncedIn())
			}
			test.mend(b)
			if err := e.Retry(b.waiting().ID, "", "mended"); err != nil {
				t.Fatal(err)
			}
			if r := <-records; r.State != store.Done || b.syncedIn() != 4 {
				t.Errorf("the second attempt is %s, %s; synchronized in start %d", r.State, r.Error, b.syncedIn())
			}
		})
	}
}

func TestASynchronizationThatRanAndFailedEndsIfItsFailureIsAllowed(t *testing.T) {
	for name, commands := range map[string]string{
		"exit status":   "exit 3",
		"invalid patch": "echo '{\"op\":\"add\"}' >$VALUES_JSON_PATCH_PATH",
	} {
		b := newRunBench(t, "web", moduleHook, commands)
		_, records := b.synchronize()
		if r := <-records; r.State != store.Allowed || b.syncedIn() != 4 {
			t.Errorf("%s: the attempt is %s, %s; synchronized in start %d", name, r.State, r.Error, b.syncedIn())
		}
	}
}

// The step does not wait in queue main for a scan, because the next converge, which scans the directories, waits behind
// its task.
func TestATaskWaitsForTheDirectoryOfItsModuleUnlessAConvergeWaitsForTheTask(t *testing.T) {
	for name, c := range map[string]struct {
		node    graph.NodeID
		queue   string
		failed  string // the error of the last attempt; SAME is the error of the first attempt of this test
		dropped bool
	}{
		"an event": {lifecycle.ModuleKubernetesEvent, "main", "", false},
		"an event that failed for another reason":       {lifecycle.ModuleKubernetesEvent, "main", "exit status 3", false},
		"an event that failed for this reason":          {lifecycle.ModuleKubernetesEvent, "main", "SAME", true},
		"an event in another queue":                     {lifecycle.ModuleKubernetesEvent, "q", "SAME", false},
		"a Synchronization in another queue":            {lifecycle.ModuleSynchronization, "q", "", false},
		"a Synchronization that failed for this reason": {lifecycle.ModuleSynchronization, "q", "SAME", true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRunBench(t, "web", moduleHook, "")
			dir := filepath.Dir(filepath.Dir(b.path))
			scantest.Write(t, filepath.Dir(dir), "020-other/values.yaml", "")
			if err := os.Rename(dir, filepath.Join(t.TempDir(), "web")); err != nil {
				t.Fatal(err)
			}
			task := b.task("pods")
			task.Queue = c.queue
			_, err := b.hooks.Step(c.node).Do(t.Context(), task)
			if !hookio.LacksDirectory(err) {
				t.Fatalf("the first attempt returns %v", err)
			}
			if c.failed != "" {
				task.Failed = &store.Failure{Error: strings.ReplaceAll(c.failed, "SAME", err.Error())}
			}
			o, err := b.hooks.Step(c.node).Do(t.Context(), task)
			if dropped := o.Dropped != ""; dropped != c.dropped || dropped == (err != nil) || len(b.runs) > 0 {
				t.Errorf("dropped %q, %v, runs %+v; want dropped: %t", o.Dropped, err, b.runs, c.dropped)
			}
		})
	}
}
