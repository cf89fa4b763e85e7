package hookrun_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// events is the step of events without its gate. It saves nothing.
type events struct {
	workflow.Step
	workflow.BatchSizer
}

func TestRunsWithALargeSnapshotHaveFewerEvents(t *testing.T) { runFiveEvents(t, false, []int{2, 2, 1}) }

// The size of a snapshot that is not complete is not known, for example after a restart.
func TestARunThatWaitsForASnapshotHasOneEvent(t *testing.T) { runFiveEvents(t, true, []int{1, 2, 2}) }

// runFiveEvents runs five events with an engine, and expects runs with these numbers of events. The binding context has
// a copy of the snapshot of nodes, which has 3 MiB, for each event. If incomplete is true, the snapshots become complete
// when the first run waits for them.
func runFiveEvents(t *testing.T, incomplete bool, want []int) {
	t.Helper()
	sizes := t.TempDir() + "/sizes"
	b := newRunBench(t, "web", moduleHook, "wc -c <$BINDING_CONTEXT_PATH >>"+sizes)
	b.snapshots.padding = 3 << 20
	b.snapshots.incomplete.Store(incomplete)
	g := &graph.Graph{
		Name: "test", Doc: "events",
		Nodes:    []graph.Node{{Number: "1", ID: "event", Doc: "run events", Scope: graph.ScopeBinding, Batch: true}},
		Edges:    []graph.Edge{{On: "event", To: "event", Place: graph.BindingQueue}},
		Triggers: map[graph.Trigger]string{"event": "an event"},
	}
	step := b.hooks.Step(lifecycle.ModuleKubernetesEvent)
	sizer, ok := step.(workflow.BatchSizer)
	if !ok {
		t.Fatal("the step does not limit its batches")
	}
	records := make(chan store.Record, 8)
	e, err := workflow.New(b.s.DB, workflow.Observer{Recorded: func(r store.Record) { records <- r }},
		workflow.Join(g, workflow.Steps{"event": events{step, sizer}}))
	if err != nil {
		t.Fatal(err)
	}
	event := workflow.Event{
		On: "event", Subject: graph.Subject{Module: "web", Hook: "hooks/hook.sh", Binding: "pods"}, Queue: "main",
		Payload: json.RawMessage(`{"object":{}}`), Object: &store.ObjectRef{Event: hook.Modified, Name: "a"},
	}
	if err := e.Start(func(*store.Tx) ([]workflow.Event, error) {
		return []workflow.Event{event, event, event, event, event}, nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	var batches []int
	for left := 5; left > 0; left -= batches[len(batches)-1] {
		r := <-records
		if r.State != store.Done {
			t.Fatalf("an attempt is %s: %s", r.State, r.Error)
		}
		batches = append(batches, max(1, r.Merged))
	}
	if diff := cmp.Diff(want, batches); diff != "" {
		t.Errorf("events of each run (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(sizes)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.FieldsSeq(string(text)) {
		if size, err := strconv.Atoi(line); err != nil || size > 8<<20 {
			t.Errorf("a binding context has %s bytes", line)
		}
	}
}

func TestAHookWithoutAReadableRecordAddsNothingToTheSizeOfABatch(t *testing.T) {
	t.Parallel()
	s, _ := scantest.New(t)
	scantest.Scan(t, s)
	sizer, ok := newHooks(s).Step(lifecycle.ModuleKubernetesEvent).(workflow.BatchSizer)
	if !ok {
		t.Fatal("the step does not limit its batches")
	}
	task := &store.Task{Subject: graph.Subject{Module: "web", Hook: "h.sh", Binding: "pods"}}
	for name, config := range map[string]string{"no record": "", "no configuration": "[]"} {
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			if config != "" {
				if err := store.Save(tx, store.HookKey("web", "h.sh"), store.Hook{Config: json.RawMessage(config)}); err != nil {
					return err
				}
			}
			if diff := cmp.Diff(0, sizer.BatchSize(tx, task)(nil, task)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			return nil
		})
	}
}
