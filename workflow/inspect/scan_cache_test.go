package inspect_test

import (
	"testing"

	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// TestKeptLookIsThatOfTheCommit reads the status twice after each of three commits, with a cache of scans. Each status
// must be that of the newest commit, for a store in memory and in a file.
func TestKeptLookIsThatOfTheCommit(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *store.DB{"memory": storetest.Memory, "file": storetest.Open} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			r := inspect.Reader{Graphs: []*graph.Graph{lifecycle.Graph}, Live: true, Scans: new(inspect.ScanCache)}
			tasks := func() (n int) {
				t.Helper()
				if err := db.View(func(tx *store.Tx) error {
					status, err := r.Status(tx, inspect.StatusOperator{})
					for _, q := range status.Queues {
						n += q.Tasks
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
				return n
			}
			for i := range uint64(3) {
				if err := db.Update(func(tx *store.Tx) error {
					return store.SaveTask(tx, &store.Task{
						ID: store.ID{Epoch: 1, N: i + 1}, Pos: store.Pos{Queue: "q", Slot: store.FirstSlot + i}, Graph: "lifecycle",
						Node: string(lifecycle.ModuleKubernetesEvent), Subject: graph.Subject{Module: "m"}, Run: 1,
					})
				}); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if n := tasks(); n != int(i)+1 { //nolint:gosec // the number is small
						t.Errorf("after %d commits, %d tasks are seen", i+1, n)
					}
				}
			}
			if err := db.Update(func(tx *store.Tx) error {
				return store.Save(tx, store.RunKey(1), store.Run{ID: 1, Graph: "lifecycle", Open: 3}) // the number of open tasks must be right for the check of the store
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}
