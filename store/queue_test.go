package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// queued returns a task with the number n in a slot of the queue.
func queued(queue string, slot uint64, depth uint32, n uint64) *store.Task {
	return &store.Task{ID: store.ID{Epoch: 1, N: n}, Pos: store.Pos{Queue: queue, Slot: slot, Depth: depth}, Graph: "g", Node: "n", Run: 1}
}

func saveTasks(tx *store.Tx, tasks ...*store.Task) (err error) {
	for _, t := range tasks {
		err = errors.Join(err, store.SaveTask(tx, t))
	}
	return err
}

func TestTasksOfAQueueAreReadFromASlotAndFromOneSlot(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	update(t, db, func(tx *store.Tx) error {
		return saveTasks(tx, queued("main", 4, 0, 1), queued("main", 5, 0, 2), queued("main", 5, 7, 3), queued("main", 5, 1, 4), queued("main", 9, 0, 5),
			queued("main2", 5, 0, 6), queued("mai", 5, 0, 7))
	})
	view(t, db, func(tx *store.Tx) error {
		for name, test := range map[string]struct {
			got  []*store.Task
			want []uint64
		}{
			"all":                    {mustAll(t, store.Tasks(tx, "main")), []uint64{1, 3, 4, 2, 5}},
			"from slot 5":            {mustAll(t, store.TasksFrom(tx, "main", 5)), []uint64{3, 4, 2, 5}},
			"from slot 6":            {mustAll(t, store.TasksFrom(tx, "main", 6)), []uint64{5}},
			"from slot 10":           {mustAll(t, store.TasksFrom(tx, "main", 10)), nil},
			"in slot 5":              {mustAll(t, store.Slot(tx, "main", 5)), []uint64{3, 4, 2}},
			"in slot 6":              {mustAll(t, store.Slot(tx, "main", 6)), nil},
			"of all queues":          {mustAll(t, store.AllTasks(tx)), []uint64{7, 1, 3, 4, 2, 5, 6}},
			"of a queue without any": {mustAll(t, store.Tasks(tx, "side")), nil},
		} {
			if got := ids(test.got); !slices.Equal(got, test.want) {
				t.Errorf("tasks %s: %v, want %v", name, got, test.want)
			}
		}
		for queue, want := range map[string]uint64{"main": 1, "main2": 6, "side": 0} {
			head, ok, err := store.Head(tx, queue)
			if err != nil || ok != (want > 0) || ok && head.ID.N != want {
				t.Errorf("the head of %s is %+v, %t, %v", queue, head, ok, err)
			}
		}
		return nil
	})
}

func TestAnUnreadableHeadIsAnErrorAndNoTask(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	at := store.Pos{Queue: "main", Slot: 4}
	update(t, db, func(tx *store.Tx) error { tx.Put(at.Key(), []byte("[]")); return nil })
	view(t, db, func(tx *store.Tx) error {
		if task, ok, err := store.Head(tx, "main"); task != nil || ok || !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("Head: %+v, %t, %v", task, ok, err)
		}
		if task, ok, err := store.LoadTask(tx, at); task != nil || ok || !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("LoadTask: %+v, %t, %v", task, ok, err)
		}
		if task, ok, err := store.LoadAt(tx, at.Key()); task != nil || ok || !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("LoadAt: %+v, %t, %v", task, ok, err)
		}
		return nil
	})
}

func TestATaskThatIsNotThereIsNoError(t *testing.T) {
	t.Parallel()
	view(t, inMemory(t), func(tx *store.Tx) error {
		if task, ok, err := store.LoadTask(tx, store.Pos{Queue: "main", Slot: 4}); task != nil || ok || err != nil {
			t.Errorf("LoadTask: %+v, %t, %v", task, ok, err)
		}
		if task, ok, err := store.LoadAt(tx, store.DeferredAt(now).Uint(1).Uint(1)); task != nil || ok || err != nil {
			t.Errorf("LoadAt: %+v, %t, %v", task, ok, err)
		}
		return nil
	})
}

func TestTasksOfAHookAreFoundAmongOthers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		db, err := store.OpenMemory(new(store.Memory), store.Options{})
		if err != nil {
			rt.Fatal(err)
		}
		defer db.Close()
		modules, hooks := []string{"", "nginx", "redis"}, []string{"", "a.sh", `hooks/"b".sh`, "<c>&é.sh"}
		var tasks []*store.Task
		for n := range rapid.IntRange(0, 15).Draw(rt, "tasks") {
			task := queued(rapid.SampledFrom([]string{"main", "side"}).Draw(rt, "queue"), uint64(n), 0, uint64(n))
			task.Subject = graph.Subject{Module: rapid.SampledFrom(modules).Draw(rt, "module"), Hook: rapid.SampledFrom(hooks).Draw(rt, "hook")}
			task.Payload = []byte(rapid.SampledFrom([]string{`null`, `{"hook":"a.sh"}`}).Draw(rt, "payload"))
			tasks = append(tasks, task)
		}
		of := graph.Subject{Module: rapid.SampledFrom(modules).Draw(rt, "of module"), Hook: rapid.SampledFrom(hooks[1:]).Draw(rt, "of hook")}
		from := uint64(rapid.IntRange(0, 4).Draw(rt, "from"))
		var want []uint64
		for _, task := range tasks {
			if task.Queue == "main" && task.Slot >= from && task.Subject == of {
				want = append(want, task.ID.N)
			}
		}
		update(rt, db, func(tx *store.Tx) error {
			err := saveTasks(tx, tasks...)
			got, err2 := all(store.TasksOfHook(tx, "main", from, of))
			if diff := cmp.Diff(want, ids(got)); diff != "" {
				rt.Fatal(diff)
			}
			return errors.Join(err, err2)
		})
	})
}

func TestQueuesAreNamedFromAQueueOn(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	update(t, db, func(tx *store.Tx) error {
		return saveTasks(tx, queued("main", 1, 0, 1), queued("main", ^uint64(0), 0, 2), queued("a", ^uint64(0), 0, 3), queued("b", 1, 0, 4), queued("side", 1, 0, 5))
	})
	view(t, db, func(tx *store.Tx) error {
		for first, want := range map[string][]string{
			"": {"a", "b", "main", "side"}, "a": {"a", "b", "main", "side"}, "b": {"b", "main", "side"},
			"aa": {"main", "side"}, "main": {"main", "side"}, "maio": {"side"}, "side2": nil,
		} {
			if got := mustAll(t, store.QueuesFrom(tx, first)); !slices.Equal(got, want) {
				t.Errorf("from %q: %q, want %q", first, got, want)
			}
		}
		for q := range store.AllQueues(tx) {
			if q != "a" {
				t.Errorf("the first queue is %s", q)
			}
			break // the loop may end early
		}
		return nil
	})
}

func TestTheFrontOfAQueueIsAlwaysBeforeItsFirstSlot(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	const first = store.FirstSlot
	update(t, db, func(tx *store.Tx) error {
		return saveTasks(tx, queued("late", first+5, 0, 1), queued("late", first+8, 0, 2), queued("early", first-5, 0, 3), queued("early", first+1, 0, 4))
	})
	view(t, db, func(tx *store.Tx) error {
		for queue, want := range map[string][2]uint64{"empty": {first - 1, first}, "late": {first - 1, first + 9}, "early": {first - 6, first + 2}} {
			front, err1 := store.FrontSlot(tx, queue)
			tail, err2 := store.TailSlot(tx, queue)
			if got := [2]uint64{front, tail}; got != want || err1 != nil || err2 != nil {
				t.Errorf("front and tail of %s: %v, want %v; %v, %v", queue, got, want, err1, err2)
			}
		}
		return nil
	})
}

func TestAPositionIsReadFromTheRestOfItsKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := store.Pos{Queue: rapid.String().Draw(t, "queue"), Slot: rapid.Uint64().Draw(t, "slot"), Depth: rapid.Uint32().Draw(t, "depth")}
		rest := p.Key()[len(store.QueueKey(p.Queue)):]
		want := store.Pos{Slot: p.Slot, Depth: p.Depth}
		if got, err := store.ParsePosInQueue(rest); err != nil || got != want {
			t.Fatalf("%v came back as %v, %v", want, got, err)
		}
		if _, err := store.ParsePosInQueue(rest[:len(rest)-1]); err == nil {
			t.Fatal("a position that is cut off was read")
		}
	})
	for _, k := range []store.Key{nil, store.ModuleKey("nginx"), store.QueueKey("main"), store.QueueKey("main").Uint(1)} {
		if p, err := store.ParsePos(k); err == nil {
			t.Errorf("%s is read as position %v", k, p)
		}
	}
}

func TestDeferredTasksAreInTheOrderInWhichTheyAreDue(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	deferred := func(n uint64, after int) *store.Task {
		task := queued("main", 0, 0, n)
		task.Due = now.AddDate(0, 0, after)
		return task
	}
	update(t, db, func(tx *store.Tx) (err error) {
		for _, task := range []*store.Task{deferred(1, 30), deferred(2, 0), deferred(3, 1), deferred(4, 0), deferred(5, 0)} {
			err = errors.Join(err, store.SaveOutOfQueue(tx, task))
		}
		return err
	})
	update(t, db, func(tx *store.Tx) error {
		if got := ids(mustAll(t, store.DeferredTasks(tx))); !slices.Equal(got, []uint64{2, 4, 5, 3, 1}) {
			t.Errorf("all are %v", got)
		}
		if got := ids(mustAll(t, store.DeferredTasks(tx, store.DeferredAt(now)))); !slices.Equal(got, []uint64{2, 4, 5}) {
			t.Errorf("those that are due first are %v", got)
		}
		for task, err := range store.DeferredTasks(tx) {
			if err != nil {
				return err
			}
			if !task.IsOutOfQueue() || task.IsHeld() || task.Queue != "main" {
				t.Errorf("task %s: out of its queue %t, held %t, queue %q", task.ID, task.IsOutOfQueue(), task.IsHeld(), task.Queue)
			}
			store.DropTask(tx, task) // the loop's body may change the tasks
		}
		if left := mustAll(t, store.DeferredTasks(tx)); len(left) > 0 {
			t.Errorf("left are %v", ids(left))
		}
		return nil
	})
}

func TestAnotherPayloadReplacesThePiecesOfALargeOne(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	large := func(c byte, n int) []byte { return fmt.Appendf(nil, "%q", slices.Repeat([]byte{c}, n)) }
	task := queued("main", 1, 0, 1)
	task.Payload = large('a', 3*store.PayloadChunk)
	update(t, db, func(tx *store.Tx) error { return store.SaveTask(tx, task) })
	for _, payload := range [][]byte{large('b', store.PayloadChunk), []byte(`"small"`), large('c', 5000)} {
		update(t, db, func(tx *store.Tx) error {
			stored, _, err := store.LoadTask(tx, task.Pos)
			if err != nil {
				return err
			}
			store.ReplacePayload(tx, stored, payload)
			return store.SaveTask(tx, stored)
		})
		view(t, db, func(tx *store.Tx) error {
			got, _, err := store.LoadTask(tx, task.Pos)
			if err != nil {
				return err
			}
			if err := store.LoadPayload(tx, got); err != nil || string(got.Payload) != string(payload) {
				t.Errorf("a payload of %d bytes came back as %d bytes, %v", len(payload), len(got.Payload), err)
			}
			pieces := 0
			for range tx.Range(store.At(store.Payloads)) {
				pieces++
			}
			if pieces != got.Chunks {
				t.Errorf("a payload of %d bytes has %d pieces, the header says %d", len(payload), pieces, got.Chunks)
			}
			return nil
		})
	}
}

func TestAPayloadWithALostOrInvalidPieceIsUnreadable(t *testing.T) {
	t.Parallel()
	payload := fmt.Appendf(nil, "%q", slices.Repeat([]byte{'a'}, 2*store.PayloadChunk))
	for want, damage := range map[string]func(tx *store.Tx, pieces []store.Key){
		"record payloads/1/1/1 cannot be read: piece 1 of the payload of task 1-1 is missing": func(tx *store.Tx, pieces []store.Key) { tx.Delete(pieces[1]) },
		"record payloads/1/1/0 cannot be read: the payload of task 1-1 is not JSON":           func(tx *store.Tx, pieces []store.Key) { tx.Put(pieces[2], nil) },
	} {
		db := inMemory(t)
		task := queued("main", 1, 0, 1)
		task.Payload = payload
		update(t, db, func(tx *store.Tx) error {
			err := store.SaveTask(tx, task)
			var pieces []store.Key
			for k := range tx.Range(store.At(store.Payloads)) {
				pieces = append(pieces, k)
			}
			damage(tx, pieces)
			return err
		})
		view(t, db, func(tx *store.Tx) error {
			got, _, err := store.LoadTask(tx, task.Pos)
			if err != nil {
				return err
			}
			for range 2 { // the first call must leave no part of the payload in the task
				if err := store.LoadPayload(tx, got); !errors.Is(err, store.ErrCorrupt) || err.Error() != want || got.Payload != nil {
					t.Errorf("%v with %d bytes, want %s", err, len(got.Payload), want)
				}
			}
			return nil
		})
	}
}

func TestIDsAreOrderedByEpochAndNumber(t *testing.T) {
	t.Parallel()
	ordered := []store.ID{{}, {N: 9}, {Epoch: 1}, {Epoch: 1, N: 2}, {Epoch: 1, N: 10}, {Epoch: 2, N: 1}, {Epoch: 10}}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := a.Before(b); got != (i < j) {
				t.Errorf("%s before %s: %t", a, b, got)
			}
		}
		if a.IsZero() != (i == 0) {
			t.Errorf("%s names no task: %t", a, a.IsZero())
		}
	}
}
