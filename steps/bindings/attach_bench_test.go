package bindings_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"addon-operator/internal/hook"
	"addon-operator/steps/bindings"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// benchEngine returns an engine on db. The engine is not started, and its steps do nothing.
func benchEngine(b *testing.B, db *store.DB, err error) *workflow.Engine {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	steps := workflow.Steps{}
	for _, n := range lifecycle.Graph.Nodes {
		if !n.Junction && !n.JoinsRunning {
			steps[n.ID] = idle{}
		}
	}
	e, err := workflow.New(db, workflow.Observer{}, workflow.Join(lifecycle.Graph, steps))
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// idle is a step that does nothing.
type idle struct{}

func (idle) Do(context.Context, workflow.Task) (workflow.Outcome, error) {
	return workflow.Outcome{}, nil
}

func (idle) Items(*store.Tx, workflow.Task) ([]graph.Item, json.RawMessage, error) {
	return nil, nil, nil
}

func raiseMany(b *testing.B, db *store.DB, e *workflow.Engine, n int, module func(i int) string) {
	b.Helper()
	const at = 1000
	for from := 0; from < n; from += at {
		if err := db.Update(func(tx *store.Tx) error {
			events := make([]workflow.Event, at)
			for i := range events {
				events[i] = workflow.Event{
					On: lifecycle.OnModuleKubeEvent, Subject: graph.Subject{Module: module(from + i), Hook: "hooks/h", Binding: "pods"},
					Queue: workflow.Main, Payload: json.RawMessage(`{"type":"Event","watchEvent":"Modified"}`),
					Object: &store.ObjectRef{Event: hook.Modified, Kind: "Pod", Name: fmt.Sprint("pod-", from+i), UID: "1", ResourceVersion: "1"},
				}
			}
			return e.Raise(tx, events...)
		}); err != nil {
			b.Fatal(err)
		}
	}
}

func synchronize(b *testing.B, db *store.DB, module string) {
	b.Helper()
	config := hook.Config{Kubernetes: []hook.KubernetesBinding{{
		Name: "pods", APIVersion: "v1", Kind: "Pod", Queue: workflow.Main, ExecuteOnSynchronization: true, WaitForSynchronization: true,
	}}}
	record := bindings.Hook{File: hook.File{Name: "hooks/h"}, Config: config}
	if err := db.Update(func(tx *store.Tx) error {
		_, err := bindings.Attach(tx, module, []bindings.Hook{record})
		return err
	}); err != nil {
		b.Fatal(err)
	}
	shown := map[string]map[string]bindings.Version{"pods": {"/pod": {UID: "1", ResourceVersion: "1"}}}
	pods := graph.Subject{Module: module, Hook: "hooks/h", Binding: "pods"}
	if err := db.Update(func(tx *store.Tx) error {
		_, err := bindings.Synchronized(tx, pods, shown)
		return err
	}); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkSynchronizationInALongQueue(b *testing.B) {
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	e := benchEngine(b, db, err)
	raiseMany(b, db, e, 100_000, func(i int) string { return fmt.Sprint("other-", i%500) })
	var took []float64
	for n := 0; b.Loop(); n++ {
		begin := time.Now()
		synchronize(b, db, fmt.Sprint("module-", n))
		took = append(took, time.Since(begin).Seconds()*1000)
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "ms/Synchronization")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkAttachManyModules(b *testing.B) {
	const modules = 500
	name := func(i int) string { return fmt.Sprint("module-", i%modules) }
	db, err := store.Open(filepath.Join(b.TempDir(), "store.db"), store.Options{})
	e := benchEngine(b, db, err)
	raiseMany(b, db, e, 10_000, name)
	var took []float64
	for b.Loop() {
		begin := time.Now()
		for i := range modules {
			synchronize(b, db, name(i))
		}
		took = append(took, time.Since(begin).Seconds())
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "s/attach")
	b.ReportMetric(0, "ns/op")
}
