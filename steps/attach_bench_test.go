package steps

import (
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

// benchSteps returns the steps over db, and the engine that works in it, which is not
// started.
func benchSteps(b *testing.B, db *store.DB, err error) (*Lifecycle, *workflow.Engine) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	s := New(Options{DB: db})
	e, err := workflow.New(db, workflow.Observer{}, s.Binding())
	if err != nil {
		b.Fatal(err)
	}
	s.Connect(e, nil)
	return s, e
}

// raiseMany puts n events of modules' hooks into queue main.
func raiseMany(b *testing.B, s *Lifecycle, e *workflow.Engine, n int, module func(i int) string) {
	b.Helper()
	const at = 1000
	for from := 0; from < n; from += at {
		if err := s.db.Update(func(tx *store.Tx) error {
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

// synchronize attaches a module with one hook and marks that its Synchronization has
// shown one object, a transaction each.
func synchronize(b *testing.B, s *Lifecycle, module string) {
	b.Helper()
	config := hook.Config{Kubernetes: []hook.KubernetesBinding{{
		Name: "pods", APIVersion: "v1", Kind: "Pod", Queue: workflow.Main, ExecuteOnSynchronization: true, WaitForSynchronization: true,
	}}}
	record := bindings.Hook{File: hook.File{Name: "hooks/h"}, Config: config}
	if err := s.db.Update(func(tx *store.Tx) error {
		_, err := s.bindings.Attach(tx, module, []bindings.Hook{record})
		return err
	}); err != nil {
		b.Fatal(err)
	}
	shown := map[string]map[string]bindings.Version{"pods": {"/pod": {UID: "1", ResourceVersion: "1"}}}
	task := workflow.Task{Task: store.Task{Subject: graph.Subject{Module: module, Hook: "hooks/h", Binding: "pods"}}}
	if err := s.db.Update(func(tx *store.Tx) error { return s.bindings.Synchronized(tx, task, shown) }); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSynchronizationInALongQueue measures how long the store is busy, without the
// disk, when a module is attached and synchronized while 100,000 events of other hooks
// wait in its queue.
func BenchmarkSynchronizationInALongQueue(b *testing.B) {
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	s, e := benchSteps(b, db, err)
	raiseMany(b, s, e, 100_000, func(i int) string { return fmt.Sprint("other-", i%500) })
	var took []float64
	for n := 0; b.Loop(); n++ {
		begin := time.Now()
		synchronize(b, s, fmt.Sprint("module-", n))
		took = append(took, time.Since(begin).Seconds()*1000)
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "ms/Synchronization")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAttachManyModules measures how long the store is busy until 500 modules are
// attached and synchronized while 10,000 of their events wait in queue main.
func BenchmarkAttachManyModules(b *testing.B) {
	const modules = 500
	name := func(i int) string { return fmt.Sprint("module-", i%modules) }
	db, err := store.Open(filepath.Join(b.TempDir(), "store.db"), store.Options{})
	s, e := benchSteps(b, db, err)
	raiseMany(b, s, e, 10_000, name)
	var took []float64
	for b.Loop() {
		begin := time.Now()
		for i := range modules {
			synchronize(b, s, name(i))
		}
		took = append(took, time.Since(begin).Seconds())
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "s/attach")
	b.ReportMetric(0, "ns/op")
}
