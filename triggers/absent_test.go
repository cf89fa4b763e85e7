package triggers

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// The run of a module may delete objects of its release itself, so absent objects are not reported while the run is in
// progress.
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
				watched: map[string]string{}, repairs: map[string]map[kube.Ref]*repairs{}, waiting: map[string]time.Time{},
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

func TestAnErrorOfTheTriggerForAbsentObjectsIsReturnedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Memory(t)
		a := NewAbsent(db, raiserFunc(func(*store.Tx, ...workflow.Event) error { return nil }), &kube.Kinds{}, "", kube.Observer{})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := a.Run(t.Context()); !errors.Is(err, store.ErrClosed) {
			t.Errorf("without a store, Run returns %v", err)
		}
	})
}

func TestADamagedReleaseDoesNotKeepTheOthersFromBeingWatched(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	a := NewAbsent(db, raiserFunc(func(*store.Tx, ...workflow.Event) error { return nil }), &kube.Kinds{}, "", kube.Observer{})
	release := store.Release{Revision: 1, Objects: []store.Object{store.Object(ref("a"))}}
	save := func(tx *store.Tx) error { return store.Save(tx, store.ReleaseKey("m"), release) }
	spoil := func(tx *store.Tx) error { tx.Put(store.ReleaseKey("m"), []byte(`{"revision":`)); return nil }
	step := func(what string, change func(*store.Tx) error, want ...string) {
		t.Helper()
		if err := db.Update(change); err != nil {
			t.Fatal(err)
		}
		if err := a.follow(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := slices.Sorted(maps.Keys(a.watched)); !slices.Equal(got, want) {
			t.Errorf("%s: watched are %q, want %q", what, got, want)
		}
	}
	step("one of two releases is damaged", func(tx *store.Tx) error {
		return errors.Join(spoil(tx), store.Save(tx, store.ReleaseKey("n"), release))
	}, "n")
	step("its record is written again", save, "m", "n")
	step("its record is damaged while it is watched", spoil, "n")
	step("its record is written once more", save, "m", "n")
}

// TestAnObjectThatDisappearsDuringARunIsReportedWhenTheRunEndsInTheSameCommit commits the report of the object and the
// end of the run together. The functions of the commit take so long that the trigger is woken before they end.
func TestAnObjectThatDisappearsDuringARunIsReportedWhenTheRunEndsInTheSameCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Memory(t)
		a := NewAbsent(db, raiserFunc(func(*store.Tx, ...workflow.Event) error { return nil }), &kube.Kinds{}, "", kube.Observer{})
		run := &store.Task{Node: string(lifecycle.ModuleRun), Subject: graph.Subject{Module: "m"}, Pos: store.Pos{Queue: "main", Slot: store.FirstSlot}, Run: 1}
		update := func(change func(*store.Tx) error) {
			if err := db.Update(change); err != nil {
				t.Error(err)
			}
		}
		update(func(tx *store.Tx) error {
			run.ID = store.ID{Epoch: tx.Epoch(), N: tx.NextID()}
			if err := store.Save(tx, store.RunKey(1), store.Run{ID: 1, Open: 1}); err != nil {
				return err
			}
			if err := store.SaveTask(tx, run); err != nil {
				return err
			}
			return store.Save(tx, store.ReleaseKey("m"), store.Release{Revision: 1, Objects: []store.Object{store.Object(ref("a"))}})
		})
		if err := a.follow(); err != nil || a.watched["m"] == "" {
			t.Fatalf("the release is not watched: %v", err)
		}
		go update(func(tx *store.Tx) error {
			tx.OnCommit(func() { // runs before the other functions of the commit
				<-a.changed.C()
				if err := a.follow(); err != nil {
					t.Error(err)
				}
			})
			go func() {
				if err := a.raiseAbsent(t.Context(), "m", []kube.Ref{ref("a")}); err != nil {
					t.Error(err)
				}
			}()
			time.Sleep(time.Second)
			go update(func(tx *store.Tx) error {
				store.DropTask(tx, run)
				tx.Delete(store.RunKey(1))
				return store.Save(tx, store.ModuleKey("m"), store.Module{RanIn: 1})
			})
			time.Sleep(time.Second)
			return nil
		})
		time.Sleep(time.Minute)
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.stale) > 0 || a.watched["m"] == "" {
			t.Errorf("after the end of the run, the release is watched as %q, to read again: %v", a.watched["m"], a.stale)
		}
	})
}
