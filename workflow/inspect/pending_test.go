package inspect_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// queuedEvent returns a task of run 1 for an event of the hook. The task is in the n-th slot of the given queue.
func queuedEvent(queue string, n uint64, hook string) store.Task {
	return store.Task{
		ID: store.ID{Epoch: 1, N: n}, Pos: store.Pos{Queue: queue, Slot: store.FirstSlot + n}, Graph: lifecycle.Graph.Name, Run: 1,
		Node: string(lifecycle.ModuleKubernetesEvent), Subject: graph.Subject{Module: "web", Hook: hook, Binding: "pods"}, Queued: followTime,
	}
}

// save saves tasks, and a record of each of their runs.
func (w *writtenHistory) save(tasks ...store.Task) {
	w.t.Helper()
	w.update(func(tx *store.Tx) error {
		open := map[uint64]int{}
		for i := range tasks {
			t := &tasks[i]
			open[t.Run]++
			save := store.SaveTask
			if t.IsOutOfQueue() {
				save = store.SaveOutOfQueue
			}
			if err := save(tx, t); err != nil {
				return err
			}
		}
		for run, n := range open {
			if err := store.Save(tx, store.RunKey(run), store.Run{ID: run, Graph: lifecycle.Graph.Name, Trigger: "event", Began: followTime, Open: n}); err != nil {
				return err
			}
		}
		return nil
	})
}

// run returns run 1, as a running operator shows it or, if the argument live is false, as the store of a stopped
// operator shows it.
func (w *writtenHistory) run(live bool) (run *inspect.Run) {
	w.t.Helper()
	r := inspect.Reader{Live: live, Graphs: []*graph.Graph{lifecycle.Graph}}
	if err := w.db.View(func(tx *store.Tx) (err error) {
		run, err = r.Run(tx, inspect.Request{Run: 1})
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return run
}

// stepOf returns the first of the hook's steps that have no steps below them; nil if there is none.
func stepOf(run *inspect.Run, hook string) *inspect.Step {
	return find(run.Steps, func(s *inspect.Step) bool { return s.Subject.Hook == hook && len(s.Steps) == 0 })
}

func TestStateOfAPendingTaskFollowsFromItsRecord(t *testing.T) {
	t.Parallel()
	since := followTime.Add(-time.Minute)
	failed := &store.Failure{Node: string(lifecycle.ModuleKubernetesEvent), Subject: queuedEvent("q", 1, "a").Subject, Count: 2, Error: "exit status 1", At: since}
	for name, test := range map[string]struct {
		change func(*store.Task)
		live   bool
		want   inspect.Step
	}{
		"it waits for a worker": {func(*store.Task) {}, true, inspect.Step{State: inspect.Waiting, Wait: &inspect.Wait{For: inspect.ForWorker}}},
		"no operator runs":      {func(*store.Task) {}, false, inspect.Step{State: inspect.Waiting, Wait: &inspect.Wait{For: inspect.ForStart}}},
		"it is claimed in this epoch": {
			func(t *store.Task) { t.Claim = &store.Claim{Epoch: 1, Since: since} }, true,
			inspect.Step{State: inspect.Running, Began: since, Try: 1},
		},
		"it is claimed again in this epoch": {
			func(t *store.Task) { t.Claim = &store.Claim{Epoch: 1, Since: since, Again: true} }, true,
			inspect.Step{State: inspect.Running, Began: since, Try: 1, Again: true},
		},
		"it is claimed, and no operator runs": {
			func(t *store.Task) { t.Claim = &store.Claim{Epoch: 1, Since: since} }, false,
			inspect.Step{State: inspect.Interrupted, Began: since, Try: 1, Wait: &inspect.Wait{For: inspect.ForStart}},
		},
		"it is claimed in another epoch": {
			func(t *store.Task) { t.Claim = &store.Claim{Epoch: 7, Since: since} }, true,
			inspect.Step{State: inspect.Interrupted, Began: since, Try: 1, Wait: &inspect.Wait{For: inspect.ForWorker}},
		},
		"it waits to carry out its effects": {
			func(t *store.Task) { t.Claim, t.Journal = &store.Claim{Since: since}, true }, true,
			inspect.Step{State: inspect.Waiting, Wait: &inspect.Wait{For: inspect.ForWorker}},
		},
		"it has failed and is not due": {
			func(t *store.Task) { t.Failed, t.Due = failed, followTime.Add(20*time.Second) }, true,
			inspect.Step{
				State: inspect.Backoff, Try: 3, Failures: 2, Error: "exit status 1", Due: followTime.Add(20 * time.Second), Ended: since,
				Wait: &inspect.Wait{For: inspect.ForRetry, Held: &store.Reason{Kind: store.AwaitsRetry, Detail: "waits for its retry after failure 2", Until: followTime.Add(20 * time.Second)}},
			},
		},
		"it has failed and is running again": {
			func(t *store.Task) { t.Failed, t.Claim = failed, &store.Claim{Epoch: 1, Since: followTime} }, true,
			inspect.Step{State: inspect.Running, Began: followTime, Try: 3, Failures: 2, Error: "exit status 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := writeHistory(t)
			defer w.close()
			task := queuedEvent("q", 1, "a")
			test.change(&task)
			w.save(task)
			got := stepOf(w.run(test.live), "a")
			if got == nil {
				t.Fatal("there is no step")
			}
			test.want.Node, test.want.Number, test.want.Subject, test.want.Task, test.want.Queue = string(lifecycle.ModuleKubernetesEvent), "10", task.Subject, task.ID, "q"
			if diff := cmp.Diff(&test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWaitingTaskNamesTheTaskAtTheHeadOfItsQueue(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	head := queuedEvent("q", 1, "head")
	head.Run, head.Claim = 2, &store.Claim{Epoch: 1, Since: followTime}
	w.save(head, queuedEvent("q", 2, "second"), queuedEvent("q", 3, "third"), queuedEvent("other", 4, "alone"))
	run := w.run(true)
	ref := inspect.Ref{Task: head.ID, Run: 2, Node: head.Node, Subject: head.Subject, Queue: "q", State: inspect.Running}
	for hook, want := range map[string]*inspect.Wait{
		"second": {For: inspect.ForQueue, Ahead: 1, On: []inspect.Ref{ref}}, "third": {For: inspect.ForQueue, Ahead: 2, On: []inspect.Ref{ref}},
		"alone": {For: inspect.ForWorker},
	} {
		if diff := cmp.Diff(want, stepOf(run, hook).Wait); diff != "" {
			t.Errorf("%s (-want +got):\n%s", hook, diff)
		}
	}
}

func TestTasksOfTheRunningBatchRun(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	first, second, third := queuedEvent("q", 1, "a"), queuedEvent("q", 2, "a"), queuedEvent("q", 3, "b")
	second.Subject.Binding = "nodes"
	first.Claim = &store.Claim{Epoch: 1, Since: followTime, End: second.Slot}
	w.save(first, second, third)
	run := w.run(true)
	if s := find(run.Steps, func(s *inspect.Step) bool { return s.Subject == second.Subject }); s.State != inspect.Running || s.Wait != nil {
		t.Errorf("a task in the batch is %s and waits for %+v", s.State, s.Wait)
	}
	if s := stepOf(run, "b"); s.State != inspect.Waiting || s.Wait.Ahead != 2 {
		t.Errorf("the task behind the batch is %s and waits for %+v", s.State, s.Wait)
	}
	head := find(run.Steps, func(s *inspect.Step) bool { return s.Subject == first.Subject })
	want := &inspect.Behind{Queue: "q", Tasks: 1, Next: []inspect.Ref{{Task: third.ID, Run: 1, Node: third.Node, Subject: third.Subject, Queue: "q", State: inspect.Waiting}}}
	if diff := cmp.Diff(want, head.Behind); diff != "" {
		t.Errorf("behind the batch (-want +got):\n%s", diff)
	}
}

func TestATaskAtTheFrontWaitsForTheRunningTask(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	running, next, front := queuedEvent("q", 1, "running"), queuedEvent("q", 2, "next"), queuedEvent("q", 3, "front")
	running.Claim = &store.Claim{Epoch: 1, Since: followTime}
	front.Slot = store.FirstSlot - 1
	w.save(running, next, front)
	run := w.run(true)
	ref := inspect.Ref{Task: running.ID, Run: 1, Node: running.Node, Subject: running.Subject, Queue: "q", State: inspect.Running}
	if diff := cmp.Diff(&inspect.Wait{For: inspect.ForRunning, Ahead: 1, On: []inspect.Ref{ref}}, stepOf(run, "front").Wait); diff != "" {
		t.Errorf("the task at the front (-want +got):\n%s", diff)
	}
	if s := stepOf(run, "running"); s.State != inspect.Running || s.Behind == nil || s.Behind.Tasks != 2 ||
		len(s.Behind.Next) != 2 || s.Behind.Next[0].Task != front.ID || s.Behind.Next[1].Task != next.ID {
		t.Errorf("the running task is %s, behind it is %+v", s.State, s.Behind)
	}
	status := w.status()
	if len(status.Queues) != 1 || status.Queues[0].Wait != nil || status.Queues[0].Head.Subject.Hook != "front" || len(status.Running) != 1 || status.Running[0].Task != running.ID {
		t.Errorf("the status has the queues %+v and runs %+v", status.Queues, status.Running)
	}
}

func TestTasksInFrontOfAFailedTaskAreNotBehindIt(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	failed, front := queuedEvent("q", 1, "failed"), queuedEvent("q", 2, "front")
	failed.Failed = &store.Failure{Node: failed.Node, Subject: failed.Subject, Count: 1, Error: "exit status 1", At: followTime}
	front.Slot = store.FirstSlot - 1
	w.save(failed, front)
	if s := stepOf(w.run(true), "failed"); s == nil || s.Behind != nil {
		t.Errorf("behind the only task of the later slots is %+v", s)
	}
	next := queuedEvent("q", 3, "next")
	w.save(next)
	want := &inspect.Behind{Queue: "q", Tasks: 1, Next: []inspect.Ref{{Task: next.ID, Run: 1, Node: next.Node, Subject: next.Subject, Queue: "q", State: inspect.Waiting}}}
	if diff := cmp.Diff(want, stepOf(w.run(true), "failed").Behind); diff != "" {
		t.Errorf("behind the failed task (-want +got):\n%s", diff)
	}
}

// status returns the status of a running operator.
func (w *writtenHistory) status() (status *inspect.Status) {
	w.t.Helper()
	r := inspect.Reader{Live: true, Graphs: []*graph.Graph{lifecycle.Graph}}
	if err := w.db.View(func(tx *store.Tx) (err error) {
		status, err = r.Status(tx, inspect.StatusOperator{})
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return status
}

func TestATaskOfAStackWaitsForTheTopOfItsSlot(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	module := func(n uint64, node graph.NodeID, depth uint32) store.Task {
		return store.Task{
			ID: store.ID{Epoch: 1, N: n}, Pos: store.Pos{Queue: workflow.Main, Slot: store.FirstSlot, Depth: depth}, Graph: lifecycle.Graph.Name, Run: 1,
			Node: string(node), Subject: graph.Subject{Module: "web"},
		}
	}
	below, top := module(1, lifecycle.ModuleRun, 1), module(2, lifecycle.ReleaseCheck, 2)
	bottom := module(3, lifecycle.GlobalAfterAll, 0)
	bottom.Subject = graph.Subject{}
	behind := queuedEvent(workflow.Main, 9, "behind")
	w.save(below, top, bottom, behind)
	run := w.run(true)
	s := find(run.Steps, func(s *inspect.Step) bool { return s.Node == string(lifecycle.GlobalAfterAll) })
	want := &inspect.Wait{For: inspect.ForStep, Ahead: 2, On: []inspect.Ref{{Task: top.ID, Run: 1, Node: top.Node, Subject: top.Subject, Queue: workflow.Main, State: inspect.Waiting}}}
	if diff := cmp.Diff(want, s.Wait); diff != "" {
		t.Errorf("the task at the bottom waits (-want +got):\n%s", diff)
	}
	check := find(run.Steps, func(s *inspect.Step) bool { return s.Node == string(lifecycle.ReleaseCheck) })
	if check.Wait.For != inspect.ForWorker || check.Behind == nil || check.Behind.Run != 2 || check.Behind.Tasks != 1 {
		t.Errorf("the task at the top waits for %+v, behind it is %+v", check.Wait, check.Behind)
	}
	if s := stepOf(run, "behind"); s.Wait.Ahead != 3 || s.Wait.On[0].Task != top.ID {
		t.Errorf("the task behind the slot waits for %+v", s.Wait)
	}
}

func TestOnlyTheFirstThreeTasksBehindAreNamed(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	tasks := []store.Task{queuedEvent("q", 1, "head")}
	for n := range uint64(5) {
		tasks = append(tasks, queuedEvent("q", n+2, fmt.Sprint("hook-", n)))
	}
	w.save(tasks...)
	run := w.run(true)
	b := stepOf(run, "head").Behind
	var named []string
	for _, r := range b.Next {
		named = append(named, r.Subject.Hook)
	}
	if want := []string{"hook-0", "hook-1", "hook-2"}; b.Tasks != 5 || b.More || !slices.Equal(named, want) {
		t.Errorf("behind the head are %d tasks, first %q", b.Tasks, named)
	}
	if s := stepOf(run, "hook-0"); s.Behind != nil {
		t.Errorf("behind a task that is not the head is %+v", s.Behind)
	}
}

func TestADeferredTaskSaysWhenItReturnsToItsQueue(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	due := followTime.Add(20 * time.Second)
	limited, loops := queuedEvent("q", 1, "limited"), queuedEvent("q", 2, "loops")
	for _, task := range []*store.Task{&limited, &loops} {
		task.Pos, task.Due = store.Pos{Queue: "q"}, due
	}
	limited.Every, loops.Loop = 90*time.Second, &store.Loop{From: string(lifecycle.ModuleAfterHelm), N: 3}
	w.save(limited, loops)
	run := w.run(true)
	for hook, want := range map[string]*inspect.Wait{
		"limited": {For: inspect.ForLimit, Every: "1m30s", Held: &store.Reason{Kind: store.AwaitsLimit, Detail: "its hook may run once in 1m30s", Until: due}},
		"loops":   {For: inspect.ForTime, Held: &store.Reason{Kind: store.AwaitsDelay, Detail: "its run changes values repeatedly", Until: due}},
	} {
		s := stepOf(run, hook)
		if diff := cmp.Diff(want, s.Wait); diff != "" {
			t.Errorf("%s (-want +got):\n%s", hook, diff)
		}
		if s.State != inspect.Waiting || !s.Due.Equal(due) || s.Behind != nil {
			t.Errorf("%s is %s and due at %s, behind it is %+v", hook, s.State, s.Due, s.Behind)
		}
	}
	if status := w.status(); status.Later != 2 || len(status.Queues) != 0 {
		t.Errorf("the status has %d tasks in no queue, and the queues %+v", status.Later, status.Queues)
	}
}

func TestAFailedTaskThatARateLimitDefersStaysAProblem(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	due := followTime.Add(4 * time.Minute)
	failed, waits := queuedEvent("q", 1, "limited"), queuedEvent("q", 2, "limited")
	for _, task := range []*store.Task{&failed, &waits} {
		task.Pos, task.Due, task.Every = store.Pos{Queue: "q"}, due, 5*time.Minute
	}
	failed.Failed = &store.Failure{Node: failed.Node, Subject: failed.Subject, Count: 3, Since: followTime.Add(-time.Hour), At: followTime, Error: "exit status 1"}
	w.save(failed, waits)
	status := w.status()
	if len(status.Problems) != 1 {
		t.Fatalf("the problems are %+v", status.Problems)
	}
	p := status.Problems[0]
	if p.Kind != inspect.KindFailing || p.Task != failed.ID || p.Try != 3 || p.Error != "exit status 1" || !p.Due.Equal(due) || p.Behind != nil {
		t.Errorf("the problem is %+v, want that of task %s with its next attempt at %s", p, failed.ID, due)
	}
}

// fanOut returns a fan-out task of run 1 at the node, with the given items. The parameter next is the
// index of the current item. The items before the current item have ended, or have tasks of their own.
func (w *writtenHistory) fanOut(node graph.NodeID, subject graph.Subject, next int, items ...graph.Item) store.Task {
	w.t.Helper()
	task := store.Task{
		ID: store.ID{Epoch: 1, N: 1}, Pos: store.Pos{Queue: workflow.Main, Slot: store.FirstSlot}, Graph: lifecycle.Graph.Name, Run: 1,
		Node: string(node), Subject: subject, FanOut: &store.FanOut{Len: len(items), Next: next},
	}
	w.update(func(tx *store.Tx) error {
		for i := next; i < len(items); i++ {
			if err := store.SaveItem(tx, task.ID, i, items[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return task
}

func TestItemsOfAFanOutWaitForTheCurrentItem(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	task := w.fanOut(lifecycle.ModuleBeforeHelm, graph.Subject{Module: "web"}, 1, hooks("web", "a", "b", "c", "d")...)
	task.Claim = &store.Claim{Epoch: 1, Since: followTime}
	w.save(task)
	run := w.run(true)
	if s := stepOf(run, "a"); s != nil {
		t.Errorf("an item that has ended without a record is %+v", s)
	}
	if s := stepOf(run, "b"); s.State != inspect.Running || s.Wait != nil || !s.Began.Equal(followTime) || s.Task != task.ID {
		t.Errorf("the current item is %+v", s)
	}
	for hook, ahead := range map[string]int{"c": 1, "d": 2} {
		s := stepOf(run, hook)
		if diff := cmp.Diff(&inspect.Wait{For: inspect.ForStep, Ahead: ahead}, s.Wait); diff != "" || s.State != inspect.Waiting {
			t.Errorf("item %s is %s (-want +got):\n%s", hook, s.State, diff)
		}
	}
	top := find(run.Steps, func(s *inspect.Step) bool { return len(s.Steps) == 3 })
	if top == nil || top.Node != string(lifecycle.ModuleBeforeHelm) || top.State != inspect.Running || top.Behind == nil || top.Behind.Run != 2 || top.Behind.Tasks != 0 {
		t.Errorf("the fan-out is %+v", top)
	}
	if want := map[inspect.State]int{inspect.Running: 1, inspect.Waiting: 2}; !cmp.Equal(run.Counts, want) {
		t.Errorf("the steps are counted as %v, want %v", run.Counts, want)
	}
}

func TestAnUnreadableItemOfAFanOutIsLeftOutWithAProblem(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	task := w.fanOut(lifecycle.ModuleBeforeHelm, graph.Subject{Module: "web"}, 0, hooks("web", "a", "b", "c")...)
	w.save(task)
	w.update(func(tx *store.Tx) error {
		for k := range tx.Range(store.At(store.Payloads)) {
			var item graph.Item
			if err := json.Unmarshal(tx.Get(k), &item); err != nil {
				return err
			}
			if item.Subject.Hook == "b" {
				tx.Put(slices.Clone(k), []byte("{"))
			}
		}
		return nil
	})
	run := w.run(true)
	if stepOf(run, "a") == nil || stepOf(run, "b") != nil || stepOf(run, "c") == nil {
		t.Errorf("the steps are %+v", run.Steps)
	}
	if len(run.Problems) != 1 || run.Problems[0].Kind != inspect.Kind(store.DamagedRecord) {
		t.Errorf("the problems are %+v", run.Problems)
	}
}

func TestAFanOutThatWaitsForItsItemsNamesThem(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	parent := w.fanOut(lifecycle.ModuleSynchronization, graph.Subject{Module: "web"}, 4, hooks("web", "a", "b", "c", "d")...)
	parent.FanOut.Open = 4
	tasks := []store.Task{parent}
	for i := range uint64(4) {
		item := queuedEvent(fmt.Sprint("queue-", i), i+2, fmt.Sprint("hook-", i))
		item.Node, item.OwnQueue, item.Parent = string(lifecycle.ModuleSynchronization), true, &store.Ref{ID: parent.ID, Pos: parent.Pos}
		tasks = append(tasks, item)
	}
	w.save(append(tasks, queuedEvent("other", 9, "other"))...)
	s := find(w.run(true).Steps, func(s *inspect.Step) bool { return s.Wait != nil && s.Wait.For == inspect.ForItems })
	if s == nil || s.Wait.Ahead != 4 || len(s.Wait.On) != 3 {
		t.Fatalf("the fan-out is %+v", s)
	}
	for i, ref := range s.Wait.On {
		if want := tasks[i+1].ID; ref.Task != want || ref.Queue != fmt.Sprint("queue-", i) {
			t.Errorf("it waits for %+v, want task %s", ref, want)
		}
	}
}
