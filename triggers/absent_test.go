package triggers

import (
	"testing"

	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/lifecycle"
)

// A run takes objects away itself, so nothing is told of them before its end.
func TestNothingIsToldOfAReleaseWhoseModuleIsWorkedAt(t *testing.T) {
	for _, c := range []struct {
		what, queue, home string
		node              string
		waits, told       bool
	}{
		{what: "in the main queue", queue: "main", node: string(lifecycle.ReleaseUpgrade)},
		{what: "beside others", queue: "parallel-1", home: "main", node: string(lifecycle.ReleaseUpgrade)},
		{what: "a run that waits", queue: "main", node: string(lifecycle.ModuleRun), waits: true, told: true},
		{what: "an event", queue: "q", node: string(lifecycle.ModuleKubernetesEvent), told: true},
	} {
		t.Run(c.what, func(t *testing.T) {
			db := storetest.Memory(t)
			told := 0
			a := &Absent{
				db: db, raise: func(_ *store.Tx, events ...workflow.Event) error { told += len(events); return nil },
				watched: map[string]string{}, healing: map[string]map[kube.Ref]*healing{},
			}
			task := &store.Task{Graph: "lifecycle", Node: c.node, Subject: store.Subject{Module: "m"}, Walk: 1, Home: c.home}
			task.Pos = store.Pos{Queue: c.queue, Place: store.FirstPlace}
			mark := store.At(store.Once).Str(c.queue).Str(task.Graph).Str(task.Node).Str("m").Str("").Str("")
			if err := db.Update(func(tx *store.Tx) error {
				task.ID = store.ID{Epoch: tx.Epoch(), N: tx.NextID()}
				if task.Waits = c.waits; c.waits {
					tx.Put(mark, task.Key())
				}
				if err := store.Save(tx, store.ReleaseKey("m"), store.Release{}); err != nil {
					return err
				}
				if err := store.Save(tx, store.WalkKey(1), store.Walk{ID: 1, Open: 1}); err != nil {
					return err
				}
				return store.SaveTask(tx, task)
			}); err != nil {
				t.Fatal(err)
			}
			if err := a.tell(t.Context(), "m", []kube.Ref{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "x"}}); err != nil {
				t.Fatal(err)
			}
			if (told == 1) != c.told {
				t.Errorf("it was told of %d times, want that to be so: %t", told, c.told)
			}
		})
	}
}
