package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// heldTask returns the task with the number n in the lane k.
func heldTask(k store.LaneKey, n uint64) *store.Task {
	return &store.Task{
		ID: store.ID{Epoch: 1, N: n}, Pos: store.Pos{Queue: k.Queue}, Lane: k.Kind, Graph: "g", Node: "n", Run: 1,
		Subject: graph.Subject{Module: k.Module, Hook: k.Hook},
	}
}

// hold saves the lane k with one task for each number.
func hold(tx *store.Tx, k store.LaneKey, numbers ...uint64) error {
	err := store.SaveLane(tx, store.Lane{LaneKey: k, Tasks: len(numbers)})
	for _, n := range numbers {
		err = errors.Join(err, store.SaveOutOfQueue(tx, heldTask(k, n)))
	}
	return err
}

func TestHeldTasksAreYieldedOldestFirstFromTheirLaneOnly(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	lane := store.LaneKey{Queue: "main", Module: "nginx", Hook: "a.sh", Kind: store.Reactions}
	otherQueue, otherHook, otherModule, otherKind := lane, lane, lane, lane
	otherQueue.Queue, otherHook.Hook, otherModule.Module, otherKind.Kind = "side", "b.sh", "redis", "module-run"
	update(t, db, func(tx *store.Tx) error {
		return errors.Join(
			hold(tx, otherQueue, 1), hold(tx, otherHook, 2), hold(tx, otherModule, 3), hold(tx, otherKind, 4),
			hold(tx, lane, 300, 7, 20),
		)
	})
	view(t, db, func(tx *store.Tx) error {
		if diff := cmp.Diff([]uint64{7, 20, 300}, ids(mustAll(t, store.HeldTasks(tx, lane)))); diff != "" {
			t.Errorf("tasks of the lane (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]uint64{7, 20, 300, 4, 1}, ids(mustAll(t, store.HeldTasksOf(tx, "nginx", "a.sh")))); diff != "" {
			t.Errorf("tasks of the hook (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]uint64{7, 20, 300, 4, 1, 2}, ids(mustAll(t, store.HeldTasksOf(tx, "nginx")))); diff != "" {
			t.Errorf("tasks of the module (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]uint64{7, 20, 300, 4, 1, 2, 3}, ids(mustAll(t, store.AllHeldTasks(tx)))); diff != "" {
			t.Errorf("all held tasks (-want +got):\n%s", diff)
		}
		return nil
	})
}

func TestAHeldTaskComesBackWithItsQueueAndItsLane(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	lane := store.LaneKey{Queue: "main", Module: "nginx", Hook: "a.sh", Kind: "module-run"}
	want := heldTask(lane, 5)
	update(t, db, func(tx *store.Tx) error { return store.SaveOutOfQueue(tx, want) })
	view(t, db, func(tx *store.Tx) error {
		got, ok, err := store.LoadAt(tx, want.Key())
		if diff := cmp.Diff(want, got); diff != "" || !ok || err != nil {
			t.Errorf("%t, %v (-want +got):\n%s", ok, err, diff)
		}
		if got.LaneKey() != lane || !got.IsHeld() || !got.IsOutOfQueue() {
			t.Errorf("the task is in lane %+v, held %t, out of its queue %t", got.LaneKey(), got.IsHeld(), got.IsOutOfQueue())
		}
		return nil
	})
}

func TestALaneIsEitherShutOrOpen(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	key := store.LaneKey{Queue: "main", Module: "nginx", Hook: "a.sh", Kind: store.Reactions}
	lane := store.Lane{LaneKey: key, Tasks: 2, Since: now, Reason: store.Reason{Kind: store.AwaitsResume, Detail: "paused"}}
	lanes := func(tx *store.Tx) (shut, open []store.Lane) {
		return mustAll(t, store.ShutLanes(tx)), mustAll(t, store.OpenLanes(tx, "main"))
	}
	update(t, db, func(tx *store.Tx) error {
		if got, ok, err := store.LoadLane(tx, key); ok || err != nil || got != (store.Lane{LaneKey: key}) {
			t.Errorf("before it is saved: %+v, %t, %v", got, ok, err)
		}
		return store.SaveLane(tx, lane)
	})
	update(t, db, func(tx *store.Tx) error {
		got, ok, err := store.LoadLane(tx, key)
		if diff := cmp.Diff(lane, got); diff != "" || !ok || err != nil {
			t.Errorf("shut: %t, %v (-want +got):\n%s", ok, err, diff)
		}
		shut, open := lanes(tx)
		if diff := cmp.Diff([]store.Lane{lane}, shut); diff != "" || len(open) > 0 {
			t.Errorf("open are %v, shut (-want +got):\n%s", open, diff)
		}
		lane.Open, lane.After = true, 77
		return store.SaveLane(tx, lane)
	})
	update(t, db, func(tx *store.Tx) error {
		got, ok, err := store.LoadLane(tx, key)
		if diff := cmp.Diff(lane, got); diff != "" || !ok || err != nil {
			t.Errorf("open: %t, %v (-want +got):\n%s", ok, err, diff)
		}
		shut, open := lanes(tx)
		if diff := cmp.Diff([]store.Lane{lane}, open); diff != "" || len(shut) > 0 {
			t.Errorf("shut are %v, open (-want +got):\n%s", shut, diff)
		}
		lane.Open = false // blocked again
		return store.SaveLane(tx, lane)
	})
	update(t, db, func(tx *store.Tx) error {
		if shut, open := lanes(tx); len(shut) != 1 || len(open) != 0 {
			t.Errorf("blocked again: shut are %v, open are %v", shut, open)
		}
		lane.Tasks = 0
		return store.SaveLane(tx, lane)
	})
	view(t, db, func(tx *store.Tx) error {
		for k := range tx.Range(store.At(store.Lanes)) {
			t.Errorf("the record %s of a lane without tasks is left", k)
		}
		return nil
	})
}

func TestOpenLanesAreThoseOfOneQueue(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	lane := func(queue, hook string, open bool) store.Lane {
		return store.Lane{LaneKey: store.LaneKey{Queue: queue, Module: "m", Hook: hook, Kind: "n"}, Open: open, Tasks: 1}
	}
	update(t, db, func(tx *store.Tx) error {
		var err error
		for _, l := range []store.Lane{lane("main", "b", true), lane("main", "a", true), lane("main", "c", false), lane("side", "a", true), lane("mai", "a", true)} {
			err = errors.Join(err, store.SaveLane(tx, l))
		}
		return err
	})
	view(t, db, func(tx *store.Tx) error {
		if diff := cmp.Diff([]store.Lane{lane("main", "a", true), lane("main", "b", true)}, mustAll(t, store.OpenLanes(tx, "main"))); diff != "" {
			t.Errorf("open lanes of main (-want +got):\n%s", diff)
		}
		want := []store.Lane{lane("main", "c", false), lane("mai", "a", true), lane("main", "a", true), lane("main", "b", true), lane("side", "a", true)}
		if diff := cmp.Diff(want, mustAll(t, store.AllLanes(tx))); diff != "" {
			t.Errorf("all lanes, the shut ones first (-want +got):\n%s", diff)
		}
		for range store.AllLanes(tx) {
			break // the loop may end early
		}
		return nil
	})
}

func TestShutLanesOfAModuleAreFoundByItsHeldTasks(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	lane := func(module, hook, queue, kind string) store.LaneKey {
		return store.LaneKey{Queue: queue, Module: module, Hook: hook, Kind: kind}
	}
	want := []store.LaneKey{
		lane("nginx", "", "main", "module-run"), lane("nginx", "a.sh", "main", "event"), lane("nginx", "a.sh", "side", "event"),
		lane("nginx", "b.sh", "main", store.Reactions),
	}
	open := lane("nginx", "c.sh", "main", store.Reactions)
	update(t, db, func(tx *store.Tx) error {
		err := errors.Join(hold(tx, lane("mysql", "a.sh", "main", "event"), 1), hold(tx, lane("redis", "", "main", "event"), 2), hold(tx, open, 3),
			store.SaveLane(tx, store.Lane{LaneKey: open, Open: true, Tasks: 1}))
		for i, k := range want {
			err = errors.Join(err, hold(tx, k, uint64(10+i), uint64(20+i), ^uint64(0)))
		}
		return err
	})
	view(t, db, func(tx *store.Tx) error {
		var got []store.LaneKey
		for _, l := range mustAll(t, store.ShutLanesOf(tx, "nginx")) {
			if l.Tasks != 3 || l.Open {
				t.Errorf("%s has %d tasks, open %t", l, l.Tasks, l.Open)
			}
			got = append(got, l.LaneKey)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lanes of nginx (-want +got):\n%s", diff)
		}
		if none := mustAll(t, store.ShutLanesOf(tx, "ngin")); len(none) > 0 {
			t.Errorf("lanes of a module without tasks: %v", none)
		}
		for range store.ShutLanesOf(tx, "nginx") {
			break // the loop may end early
		}
		return nil
	})
}

func TestAnUnreadableLaneIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	key := store.LaneKey{Queue: "main", Module: "nginx", Hook: "a.sh", Kind: "event"}
	update(t, db, func(tx *store.Tx) error {
		err := hold(tx, key, 1)
		for k := range tx.Range(store.At(store.Lanes)) {
			tx.Put(k, []byte("?"))
		}
		return err
	})
	view(t, db, func(tx *store.Tx) error {
		_, _, loaded := store.LoadLane(tx, key)
		_, ranged := all(store.ShutLanes(tx))
		_, ofModule := all(store.ShutLanesOf(tx, "nginx"))
		for how, err := range map[string]error{"LoadLane": loaded, "ShutLanes": ranged, "ShutLanesOf": ofModule} {
			if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "lanes/shut/main/nginx/a.sh/event") {
				t.Errorf("%s: %v", how, err)
			}
		}
		return nil
	})
}

func TestAnOutOfQueueTaskUnderTheKeyOfAnotherIsUnreadable(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	one := heldTask(store.LaneKey{Queue: "main", Module: "nginx", Hook: "a.sh", Kind: "event"}, 1)
	two := heldTask(one.LaneKey(), 2)
	update(t, db, func(tx *store.Tx) error {
		if err := store.SaveOutOfQueue(tx, one); err != nil {
			return err
		}
		tx.Put(two.Key(), tx.Get(one.Key()))
		return nil
	})
	view(t, db, func(tx *store.Tx) error {
		_, ok, err := store.LoadAt(tx, two.Key())
		if want := "a task that is in no queue: record held/nginx/a.sh/main/event/1/2 cannot be read: its key is that of another task"; ok || err == nil || err.Error() != want {
			t.Errorf("%t, %v, want %s", ok, err, want)
		}
		return nil
	})
}

func TestCheckComparesLanesWithTheirTasks(t *testing.T) {
	t.Parallel()
	key := store.LaneKey{Queue: "main", Module: "nginx", Hook: "a.sh", Kind: "event"}
	for want, damage := range map[string]func(*store.Tx) error{
		"": func(tx *store.Tx) error { return nil },
		"lane event of nginx/a.sh in queue main counts 3 tasks, there are 2": func(tx *store.Tx) error {
			return store.SaveLane(tx, store.Lane{LaneKey: key, Tasks: 3})
		},
		"2 tasks are in lane event of nginx/a.sh in queue main, which does not exist": func(tx *store.Tx) error {
			return store.SaveLane(tx, store.Lane{LaneKey: key})
		},
		"the held task 1-2 is an item of the fan-out task 1-3, which would wait for it": func(tx *store.Tx) error {
			item := heldTask(key, 2)
			item.Parent = &store.Ref{ID: store.ID{Epoch: 1, N: 3}}
			return store.SaveOutOfQueue(tx, item)
		},
		"run 1 counts 2 tasks, but has 1": func(tx *store.Tx) error {
			store.DropTask(tx, heldTask(key, 2))
			return store.SaveLane(tx, store.Lane{LaneKey: key, Tasks: 1})
		},
		"record held/nginx/a.sh/main/event/1/1 cannot be read": func(tx *store.Tx) error {
			tx.Put(heldTask(key, 1).Key(), []byte("7"))
			return nil
		},
	} {
		db := inMemory(t)
		update(t, db, func(tx *store.Tx) error {
			return errors.Join(hold(tx, key, 1, 2), store.Save(tx, store.RunKey(1), store.Run{ID: 1, Open: 2}), damage(tx))
		})
		checkFinds(t, db, want)
	}
}

// checkFinds checks that Check returns an error with the text want; no error if want is empty.
func checkFinds(t *testing.T, db *store.DB, want string) {
	t.Helper()
	err := db.Check()
	switch {
	case want == "" && err != nil:
		t.Errorf("a sound store: %v", err)
	case want != "" && (!errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), want)):
		t.Errorf("want %q:\n%v", want, err)
	case want != "" && strings.Contains(err.Error(), "<nil>"):
		t.Errorf("a finding has no error and prints it:\n%v", err)
	}
}
