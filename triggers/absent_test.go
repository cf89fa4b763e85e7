package triggers

import (
	"testing"

	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// The run of a module may delete objects of its release itself, so absent objects are not reported
// before the run has ended.
func TestNothingIsToldOfAReleaseWhoseModuleIsWorkedAt(t *testing.T) {
	for _, c := range []struct {
		what, queue, home string
		node              string
		waits, delivered  bool
	}{
		{what: "in the main queue", queue: "main", node: string(lifecycle.ReleaseUpgrade)},
		{what: "beside others", queue: "parallel-1", home: "main", node: string(lifecycle.ReleaseUpgrade)},
		{what: "a run that waits", queue: "main", node: string(lifecycle.ModuleRun), waits: true, delivered: true},
		{what: "an event", queue: "q", node: string(lifecycle.ModuleKubernetesEvent), delivered: true},
	} {
		t.Run(c.what, func(t *testing.T) {
			db := storetest.Memory(t)
			delivered := 0
			a := &Absent{
				db: db, engine: raiserFunc(func(_ *store.Tx, events ...workflow.Event) error { delivered += len(events); return nil }),
				watched: map[string]string{}, repairs: map[string]map[kube.Ref]*repairs{},
			}
			task := &store.Task{Graph: "lifecycle", Node: c.node, Subject: graph.Subject{Module: "m"}, Run: 1, HomeQueue: c.home}
			task.Pos = store.Pos{Queue: c.queue, Slot: store.FirstSlot}
			mark := store.At(store.Unique).Str(c.queue).Str(task.Graph).Str(task.Node).Str("m").Str("").Str("")
			if err := db.Update(func(tx *store.Tx) error {
				task.ID = store.ID{Epoch: tx.Epoch(), N: tx.NextID()}
				if task.Waits = c.waits; c.waits {
					tx.Put(mark, task.Key())
				}
				if err := store.Save(tx, store.ReleaseKey("m"), store.Release{}); err != nil {
					return err
				}
				if err := store.Save(tx, store.RunKey(1), store.Run{ID: 1, Open: 1}); err != nil {
					return err
				}
				return store.SaveTask(tx, task)
			}); err != nil {
				t.Fatal(err)
			}
			if err := a.raiseAbsent(t.Context(), "m", []kube.Ref{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "x"}}); err != nil {
				t.Fatal(err)
			}
			if (delivered == 1) != c.delivered {
				t.Errorf("%d events were raised, want one: %t", delivered, c.delivered)
			}
		})
	}
}
