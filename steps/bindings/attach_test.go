package bindings_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/steps/bindings"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// covered returns the withdrawal of the events that a Synchronization of pods covers. The Synchronization has
// delivered the objects in the argument shown.
func covered(tx *store.Tx, pods graph.Subject, shown map[string]bindings.Version) (*workflow.Withdrawal, error) {
	w, err := bindings.Synchronized(tx, pods, map[string]map[string]bindings.Version{"pods": shown})
	if err == nil && (w == nil || w.Queue != "q" || w.Subject != pods) {
		err = fmt.Errorf("the withdrawal is %+v", w)
	}
	return w, err
}

func TestSynchronizationLeavesWhatIsToldOfAnObjectBehindItsDeletion(t *testing.T) {
	db := storetest.Memory(t)
	subject := graph.Subject{Module: "m", Hook: "hooks/h", Binding: "pods"}
	config, err := json.Marshal(hook.KubernetesBinding{Name: "pods", ExecuteOnSynchronization: true})
	if err != nil {
		t.Fatal(err)
	}
	waiting := []store.ObjectRef{
		{Event: hook.Added, Name: "old", UID: "1", ResourceVersion: "1"},
		{Event: hook.Modified, Name: "again", UID: "2", ResourceVersion: "2"},
		{Event: hook.Deleted, Name: "again", UID: "2", ResourceVersion: "3"},
		{Event: hook.Added, Name: "again", UID: "3", ResourceVersion: "4"},
		{Event: hook.Modified, Name: "again", UID: "3", ResourceVersion: "5"},
		{Event: hook.Modified, Name: "old", UID: "1", ResourceVersion: "6"},
		{Event: hook.Deleted, Name: "back", UID: "4", ResourceVersion: "7"}, // it stopped matching the selector, and then matched again
		{Event: hook.Added, Name: "back", UID: "4", ResourceVersion: "8"},
	}
	asked := map[string]bindings.Version{"/old": {UID: "1", ResourceVersion: "6"}, "/again": {UID: "3", ResourceVersion: "5"}, "/back": {UID: "4", ResourceVersion: "8"}}
	// In the second test case, the first three events are deferred, so they are in no queue.
	for _, off := range []int{0, 3} {
		t.Run(strconv.Itoa(off), func(t *testing.T) {
			if err := db.Update(func(tx *store.Tx) error {
				return store.Save(tx, store.BindingKey("m", "hooks/h", "pods"), store.Binding{
					Kind: store.Kubernetes, Config: config, Queue: "q", AttachedIn: tx.Epoch(), Baseline: tx.NextID(),
				})
			}); err != nil {
				t.Fatal(err)
			}
			var left []string
			var w *workflow.Withdrawal
			if err := db.Update(func(tx *store.Tx) error {
				if err := store.Save(tx, store.RunKey(1), store.Run{ID: 1, Open: len(waiting)}); err != nil {
					return err
				}
				for i, o := range waiting {
					task := &store.Task{ID: store.ID{Epoch: tx.Epoch(), N: tx.NextID()}, Run: 1, Subject: subject, Object: &o}
					task.Queue = "q"
					save := store.SaveOutOfQueue
					if task.Due = tx.Now(); i >= off {
						task.Slot, save = store.FirstSlot+uint64(i), store.SaveTask //nolint:gosec // a few
					}
					if err := save(tx, task); err != nil {
						return err
					}
				}
				var err error
				w, err = covered(tx, subject, asked)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if err := db.Update(func(tx *store.Tx) error {
				for _, tasks := range []store.Key{store.At(store.Deferred), store.At(store.Queues)} {
					for k := range tx.Range(tasks) {
						task, _, err := store.LoadAt(tx, k)
						if err != nil {
							return err
						}
						if !w.Match(task) {
							left = append(left, task.Object.Event+" "+task.Object.UID)
						}
						store.DropTask(tx, task)
					}
				}
				tx.Delete(store.RunKey(1))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"Modified 2", "Deleted 2", "Added 3", "Modified 3", "Deleted 4", "Added 4"}, left); diff != "" {
				t.Errorf("events that are left (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSynchronizationCancelsOnlyEventsAfterItsBaseline(t *testing.T) {
	db := storetest.Memory(t)
	subject := graph.Subject{Module: "m", Hook: "hooks/h", Binding: "pods"}
	config, err := json.Marshal(hook.KubernetesBinding{Name: "pods", ExecuteOnSynchronization: true})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	var w *workflow.Withdrawal
	if err := db.Update(func(tx *store.Tx) error {
		pending := store.ID{Epoch: tx.Epoch() - 1, N: tx.NextID() + 1000}
		compared := store.ID{Epoch: tx.Epoch(), N: tx.NextID()}
		binding := store.Binding{Kind: store.Kubernetes, Config: config, Queue: "q", AttachedIn: tx.Epoch(), Baseline: tx.NextID()}
		after := store.ID{Epoch: tx.Epoch(), N: tx.NextID()}
		if err := store.Save(tx, store.BindingKey("m", "hooks/h", "pods"), binding); err != nil {
			return err
		}
		if err := store.Save(tx, store.RunKey(1), store.Run{ID: 1, Open: 3}); err != nil {
			return err
		}
		shown := map[string]bindings.Version{}
		for i, id := range []store.ID{pending, compared, after} {
			name := []string{"pending before the restart", "before the baseline", "after the baseline"}[i]
			task := &store.Task{
				ID: id, Run: 1, Subject: subject, Pos: store.Pos{Queue: "q", Slot: store.FirstSlot + uint64(i)}, //nolint:gosec // a few
				Object: &store.ObjectRef{Event: hook.Added, Name: name, UID: name, ResourceVersion: "1"},
			}
			shown["/"+name] = bindings.Version{UID: name, ResourceVersion: "1"}
			if err := store.SaveTask(tx, task); err != nil {
				return err
			}
		}
		var err error
		w, err = covered(tx, subject, shown)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *store.Tx) error {
		for task, err := range store.Tasks(tx, "q") {
			if err != nil {
				return err
			}
			if !w.Match(task) {
				left = append(left, task.Object.Name)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"pending before the restart", "before the baseline"}, left); diff != "" {
		t.Errorf("events that are left (-want +got):\n%s", diff)
	}
}
