package hookrun_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// synchronization is the step of Synchronizations without its fan-out.
type synchronization struct {
	workflow.Applier

	of workflow.Step
}

func (s synchronization) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	return s.of.Do(ctx, t)
}

// ran is a step that sends the name of the object of each of its tasks.
type ran chan string

func (r ran) Do(_ context.Context, t workflow.Task) (workflow.Outcome, error) {
	r <- t.Object.Name
	return workflow.Outcome{}, nil
}

// TestASynchronizationWithdrawsTheEventsOfTheObjectsThatItDelivered runs a Synchronization and two events behind it with
// an engine. The Synchronization delivers the object of the first event.
func TestASynchronizationWithdrawsTheEventsOfTheObjectsThatItDelivered(t *testing.T) {
	b := newRunBench(t, "web", moduleHook, "")
	g := &graph.Graph{
		Name: "test", Doc: "a Synchronization and events",
		Nodes: []graph.Node{
			{Number: "1", ID: "sync", Doc: "run a Synchronization", Scope: graph.ScopeBinding},
			{Number: "2", ID: "event", Doc: "run an event", Scope: graph.ScopeBinding},
		},
		Edges:    []graph.Edge{{On: "sync", To: "sync", Place: graph.BindingQueue}, {On: "event", To: "event", Place: graph.BindingQueue}},
		Triggers: map[graph.Trigger]string{"sync": "a Synchronization", "event": "an event"},
	}
	step := b.hooks.Step(lifecycle.ModuleSynchronization)
	applier, ok := step.(workflow.Applier)
	if !ok {
		t.Fatal("the step saves nothing")
	}
	events := make(ran, 2)
	e, err := workflow.New(b.s.DB, workflow.Observer{}, workflow.Join(g, workflow.Steps{
		"sync": synchronization{applier, step}, "event": events,
	}))
	if err != nil {
		t.Fatal(err)
	}
	pods := graph.Subject{Module: "web", Hook: "hooks/hook.sh", Binding: "pods"}
	event := func(name, uid string) workflow.Event {
		return workflow.Event{
			On: "event", Subject: pods, Queue: "main", Payload: json.RawMessage(`{}`),
			Object: &store.ObjectRef{Event: hook.Added, Name: name, UID: uid, ResourceVersion: "1"},
		}
	}
	delivered, other := event("pods", "1"), event("other", "2")
	if err := e.Start(func(*store.Tx) ([]workflow.Event, error) {
		return []workflow.Event{{On: "sync", Subject: pods, Queue: "main", Payload: json.RawMessage(`{}`)}, delivered, other}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if name := <-events; name != "other" {
		t.Errorf("the first event after the Synchronization is about %s", name)
	}
	e.Stop()
	var dropped []string
	if err := b.s.DB.View(func(tx *store.Tx) error {
		for run := range uint64(4) {
			for r, err := range store.RecordsOf(tx, run) {
				if err != nil {
					return err
				}
				if r.State == store.Dropped {
					dropped = append(dropped, r.Detail)
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"the Synchronization of its binding delivered the object"}, dropped); diff != "" {
		t.Errorf("dropped events (-want +got):\n%s", diff)
	}
}
