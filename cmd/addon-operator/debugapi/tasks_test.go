package debugapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/kube"
	"addon-operator/internal/metrics"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// twelve is the time in the stores of these tests.
var twelve = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// pause adds a pause of the queue with the given name. If the name is empty, pause adds a pause of all work.
func pause(tx *store.Tx, queue string) error {
	id := store.ID{Epoch: tx.Epoch(), N: tx.NextID()}
	return store.Save(tx, store.QuarantineKey(id), store.QuarantinedItem{ID: id, Graph: lifecycle.Graph.Name, Queue: queue, Paused: &store.Pause{By: "bob", Reason: "repair"}})
}

// list returns the queues of a store. The argument live says whether an operator runs.
func list(t *testing.T, db *store.DB, live bool) *QueueList {
	t.Helper()
	reader := queueReader{db: db}
	if live {
		reader.engine = new(workflow.Engine)
	}
	l, err := reader.queues()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTheStateOfTheFirstTaskSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change        func(tx *store.Tx, task *store.Task)
		live, stopped string
		reason        store.ReasonKind
	}{
		"a waiting task": {func(*store.Tx, *store.Task) {}, "waits", "waits", ""},
		"a running task": {
			func(tx *store.Tx, task *store.Task) {
				task.Claim = &store.Claim{Epoch: tx.Epoch(), Since: twelve.Add(-90 * time.Second)}
			},
			"runs for 1m30s", "interrupted by a stop, continues when the operator processes the task", "",
		},
		"a task of an earlier process": {
			func(tx *store.Tx, task *store.Task) {
				task.Claim = &store.Claim{Epoch: tx.Epoch() + 7, Since: twelve.Add(-time.Second)}
			},
			"interrupted by a stop, continues when the operator processes the task", "interrupted by a stop, continues when the operator processes the task", "",
		},
		"a task that waits to execute its journal": {func(_ *store.Tx, task *store.Task) { task.Claim = new(store.Claim) }, "waits", "waits", ""},
		"a task that waits for its retry": {
			func(_ *store.Tx, task *store.Task) {
				task.Failed, task.Due = &store.Failure{Count: 3, Error: "no", At: twelve.Add(-10 * time.Second)}, twelve.Add(20*time.Second)
			},
			"sleep after fail for 30s (20s left)", "sleep after fail for 30s (20s left)", store.AwaitsRetry,
		},
		"a task whose retry is due": {
			func(_ *store.Tx, task *store.Task) {
				task.Failed = &store.Failure{Count: 1, Error: "no", At: twelve.Add(-time.Minute)}
			},
			"failed, is tried again", "failed, is tried again", "",
		},
		"a fan-out task whose last items run": {
			func(_ *store.Tx, task *store.Task) { task.FanOut = &store.FanOut{Len: 5, Next: 5, Open: 2} },
			"waits for 2 tasks in other queues", "waits for 2 tasks in other queues", store.AwaitsItems,
		},
		"a task in a paused queue": {
			func(tx *store.Tx, _ *store.Task) {
				if err := pause(tx, "side"); err != nil {
					t.Error(err)
				}
			},
			"queue side is paused by bob: repair", "queue side is paused by bob: repair", store.AwaitsQueue,
		},
		"a failed task while all work is paused": {
			func(tx *store.Tx, task *store.Task) {
				task.Failed, task.Due = &store.Failure{Count: 1, Error: "no", At: twelve}, twelve.Add(5*time.Second)
				if err := pause(tx, ""); err != nil {
					t.Error(err)
				}
			},
			"all work is paused by bob: repair", "all work is paused by bob: repair", store.AwaitsQueue,
		},
	} {
		db := queued(t, func(w *queueWriter) {
			w.add(c.change)
			w.task()
		})
		for live, want := range map[bool]string{true: c.live, false: c.stopped} {
			d := list(t, db, live).Active[0]
			got := store.ReasonKind("")
			if r := d.Tasks[0].Reason; r != nil {
				got = r.Kind
			}
			if d.Status != want || d.Tasks[0].State != want || got != c.reason {
				t.Errorf("%s, live %t: status %q, state %q, reason %q; want %q, %q", name, live, d.Status, d.Tasks[0].State, got, want, c.reason)
			}
			if second := d.Tasks[1]; second.State != idle || second.Reason != nil {
				t.Errorf("%s, live %t: the task behind it is %+v", name, live, second)
			}
		}
	}
}

func TestARunningTaskGivesItsQueueTheStatusEvenIfItIsNotTheFirst(t *testing.T) {
	t.Parallel()
	db := queued(t, func(w *queueWriter) {
		w.task()
		for _, since := range []time.Duration{time.Minute, time.Hour} {
			w.add(func(tx *store.Tx, task *store.Task) {
				task.Claim = &store.Claim{Epoch: tx.Epoch(), Since: twelve.Add(-since)}
			})
		}
	})
	if got := list(t, db, true).Active[0].Status; got != "runs for 1m0s" {
		t.Errorf("the status is %q, want that of the first running task", got)
	}
}

func TestATaskIsDescribedByWhatItHas(t *testing.T) {
	t.Parallel()
	for want, task := range map[string]store.Task{
		"n:main":                         {},
		"n:main:web":                     {Subject: graph.Subject{Module: "web"}},
		"n:main:Added Pod default/a":     {Object: &store.ObjectRef{Event: "Added", Kind: "Pod", Namespace: "default", Name: "a"}},
		"n:main:Deleted Node node-1":     {Object: &store.ObjectRef{Event: "Deleted", Kind: "Node", Name: "node-1"}},
		"n:main:1 of 3":                  {FanOut: &store.FanOut{Len: 3}},
		"n:main:3 of 3":                  {FanOut: &store.FanOut{Len: 3, Next: 3}},
		"n:main:0 of 0":                  {FanOut: &store.FanOut{}},
		"n:main:failures 2:no such host": {Failed: &store.Failure{Count: 2, Error: "no\n such\thost\n"}},
		"n:main:web:2 of 3:failures 1:web/hooks/a.sh: no": {
			Subject: graph.Subject{Module: "web"}, FanOut: &store.FanOut{Len: 3, Next: 1},
			Failed: &store.Failure{Count: 1, Subject: graph.Subject{Module: "web", Hook: "hooks/a.sh"}, Error: "no"},
		},
		"n:main:web:failures 1:no": {Subject: graph.Subject{Module: "web"}, Failed: &store.Failure{Count: 1, Subject: graph.Subject{Module: "web"}, Error: "no"}},
	} {
		task.Node, task.Queue = "n", "main"
		line := queueReader{}.lineOf(&task, 4, "waits")
		if line.Description != want || line.Index != 4 || line.State != "waits" {
			t.Errorf("the line is %+v, want the description %q", line, want)
		}
		redacted := queueReader{redacted: true}.lineOf(&task, 4, "waits")
		if task.Failed != nil && strings.HasSuffix(redacted.Description, task.Failed.Error) {
			t.Errorf("the description without the error is %q", redacted.Description)
		}
	}
}

func TestTheMainQueueIsListedFirstAndTheOthersByName(t *testing.T) {
	t.Parallel()
	db := queued(t, func(w *queueWriter) {
		for _, queue := range []string{"a", "zoo", "main", "a"} {
			w.add(func(_ *store.Tx, task *store.Task) { task.Queue = queue })
		}
	})
	if err := db.Update(func(tx *store.Tx) error {
		for name, b := range map[string]store.Binding{
			"one": {Queue: "unused"}, "two": {Queue: "a"}, "three": {Queue: "unused"}, "four": {Queue: "detached", Detached: true}, "five": {},
		} {
			if err := store.Save(tx, store.BindingKey("web", "h", name), b); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	l := list(t, db, false)
	names := func(all []QueueDump) (names []string) {
		for _, d := range all {
			names = append(names, fmt.Sprint(d.Name, " ", d.TasksCount))
		}
		return names
	}
	if diff := cmp.Diff([]string{"main 1", "a 2", "zoo 1"}, names(l.Active)) + cmp.Diff([]string{"unused 0"}, names(l.Empty)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := queueSummary{MainQueueTasks: 1, OtherQueues: otherQueues{Active: 2, Empty: 1, Tasks: 3}, TotalTasks: 4}
	if l.Summary != want {
		t.Errorf("the summary is %+v, want %+v", l.Summary, want)
	}
	text := l.Text(inspect.Layout{Width: inspect.Unlimited, Whole: true})
	if end := "Empty queues: 'unused'\n\nSummary:\n- 'main' queue: 1 task.\n- other queues: 3 tasks in 2 queues.\n- in all: 4 tasks.\n"; !strings.HasSuffix(text, end) {
		t.Errorf("the list ends with\n%s\nwant\n%s", text[strings.LastIndex(text, "\n\n"):], end)
	}
}

func TestAnEmptyStoreHasAnEmptyMainQueue(t *testing.T) {
	t.Parallel()
	db := queued(t, func(*queueWriter) {})
	l := list(t, db, false)
	if text, want := l.Text(inspect.Layout{}), "Empty queues: 'main'\n\nSummary:\n- 'main' queue: empty.\n- other queues: empty.\n- in all: 0 tasks.\n"; text != want {
		t.Errorf("the list is\n%swant\n%s", text, want)
	}
	if d, found := l.named("main"); !found || d.Status != "waits for tasks" || d.TasksCount != 0 {
		t.Errorf("the main queue is %+v, found %t", d, found)
	}
	if d, found := l.named("other"); found {
		t.Errorf("a queue that nothing names is %+v", d)
	}
	l.Empty = nil
	if _, found := l.named("main"); !found {
		t.Error("the main queue is not found in a list without empty queues")
	}
}

func TestALongQueueListsSomeOfItsTasksAndCountsTheOthers(t *testing.T) {
	t.Parallel()
	db := queued(t, func(w *queueWriter) {
		for range 2*shownTasks + 100 {
			w.task()
		}
	})
	d := side(t, db)
	if len(d.Tasks) != 2*shownTasks || d.TasksCount != 2*shownTasks+100 || d.More != 100 || d.Tasks[2*shownTasks-1].Index != 2*shownTasks {
		t.Errorf("%d of %d tasks are listed, and %d more", len(d.Tasks), d.TasksCount, d.More)
	}
	all := lines(&d, false)
	if last := all[len(all)-1]; last != "     and 100 more" || len(all) != 1+2*shownTasks+1 {
		t.Errorf("%d lines, the last one is %q", len(all), last)
	}
}

// TestALongQueueLeavesTheFirstTasksOfTheQueuesBehindIt fills a queue with more tasks than one answer reads. The first
// tasks of the next queue must be listed nevertheless.
func TestALongQueueLeavesTheFirstTasksOfTheQueuesBehindIt(t *testing.T) {
	t.Parallel()
	db := queued(t, func(w *queueWriter) {
		for i := range readTasks + 100 {
			w.event("pods", i, func(task *store.Task) { task.Queue = "a" })
		}
		for i := range shownTasks + 50 {
			w.event("nodes", i, func(task *store.Task) { task.Queue = "b" })
		}
	})
	l := list(t, db, false)
	for i, want := range []int{readTasks + 100, shownTasks + 50} {
		d := l.Active[i]
		if len(d.Tasks) != shownTasks || d.TasksCount != want || len(d.Events) != 1 || d.Events[0].Count != want {
			t.Errorf("queue %s lists %d of %d tasks, with the groups %+v", d.Name, len(d.Tasks), d.TasksCount, d.Events)
		}
	}
}

func TestDeferredAndHeldTasksAreListedWithTheirReasons(t *testing.T) {
	t.Parallel()
	hook := graph.Subject{Module: "web", Hook: "hooks/a.sh"}
	db := queued(t, func(w *queueWriter) {
		deferred := func(due, every time.Duration) {
			w.add(func(_ *store.Tx, task *store.Task) {
				task.Slot, task.Due, task.Every, task.Subject = 0, twelve.Add(due), every, hook
			})
		}
		deferred(-time.Second, 0)
		deferred(20*time.Second, 0)
		deferred(45*time.Second, time.Minute)
		for _, kind := range []string{"module-run", store.Reactions} {
			w.add(func(_ *store.Tx, task *store.Task) { task.Slot, task.Lane, task.Subject = 0, kind, hook })
		}
	})
	if err := db.Update(func(tx *store.Tx) error {
		for kind, open := range map[string]bool{"module-run": true, store.Reactions: false} {
			lane := store.Lane{LaneKey: store.LaneKey{Queue: "side", Module: "web", Hook: "hooks/a.sh", Kind: kind}, Open: open, Tasks: 1}
			lane.Reason = store.Reason{Kind: store.AwaitsResume, Detail: "module web is paused"}
			if err := store.SaveLane(tx, lane); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	l := list(t, db, false)
	got := map[string]bool{}
	for _, task := range l.Later {
		got[fmt.Sprintf("%s, reason %t", task.State, task.Reason != nil)] = true
	}
	want := map[string]bool{
		"due now, reason false": true, "deferred: its run changes values repeatedly, due in 20s, reason true": true,
		"deferred: its hook may run once in 1m0s, due in 45s, reason true": true, "goes back to its queue, reason false": true, "held: module web is paused, reason true": true,
	}
	if diff := cmp.Diff(want, got); diff != "" || l.LaterCount != 5 || l.Summary.TotalTasks != 5 || len(l.Active) != 0 {
		t.Errorf("%d tasks, %d in all (-want +got):\n%s", l.LaterCount, l.Summary.TotalTasks, diff)
	}
	if text := l.Text(inspect.Layout{Width: inspect.Unlimited, Whole: true}); !strings.HasPrefix(text, "Later, in no queue yet:\n  1. module-run:side:web/hooks/a.sh [1-1], due now\n  2. ") {
		t.Errorf("the list is\n%s", text)
	}
}

func TestEventsOfSeveralKindsAreNotInOneGroup(t *testing.T) {
	t.Parallel()
	db := queued(t, func(w *queueWriter) {
		for i := range 8 {
			w.event([]string{"pods", "nodes"}[i%2], i)
		}
		w.event("pods", 90, func(task *store.Task) { task.Claim = &store.Claim{Epoch: 99} })
		w.event("pods", 91, func(task *store.Task) { task.Node = "module-schedule-event" })
		w.event("pods", 8)
		w.task() // ends all groups
		for i := range fewEvents {
			w.event("pods", 100+i)
		}
	})
	var got []string
	for _, g := range side(t, db).Events {
		got = append(got, fmt.Sprintf("%d. %s", g.Index, g.String()))
	}
	want := []string{
		"1. 5 events of hook web/hooks/pods.sh, binding pods, newest: Modified Pod default/pod-8, changed by kubectl-edit",
		"2. 4 events of hook web/hooks/pods.sh, binding nodes, newest: Modified Pod default/pod-7, changed by kubectl-edit",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAGroupIsShownEvenIfTheRunOfItsLastEventCannotBeRead(t *testing.T) {
	t.Parallel()
	db := queued(t, func(w *queueWriter) {
		for i := range fewEvents + 1 {
			w.event("pods", i)
		}
	})
	if err := db.Update(func(tx *store.Tx) error {
		for task, err := range store.Tasks(tx, "side") {
			if err != nil {
				return err
			}
			tx.Put(store.RunKey(task.Run), []byte("damaged"))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	d := side(t, db)
	if len(d.Events) != 1 || d.Events[0].Manager != "" || d.Events[0].Newest.Name != "pod-3" {
		t.Errorf("the groups are %+v", d.Events)
	}
}

func TestMetricsShowTheHeadOfEachQueue(t *testing.T) {
	t.Parallel()
	db := queued(t, func(w *queueWriter) {
		hook := graph.Subject{Module: "web", Hook: "hooks/a.sh", Binding: "pods"}
		w.add(func(tx *store.Tx, task *store.Task) {
			task.Queue, task.Node, task.Subject, task.Claim = "main", string(lifecycle.ReleaseUpgrade), graph.Subject{Module: "web"}, &store.Claim{Epoch: tx.Epoch()}
		})
		w.add(func(_ *store.Tx, task *store.Task) {
			task.Node, task.Subject, task.Failed = string(lifecycle.ModuleKubernetesEvent), hook, &store.Failure{Count: 1}
		})
		w.task()
		w.add(func(_ *store.Tx, task *store.Task) { task.Queue, task.Claim = "old", &store.Claim{Epoch: 99} })
	})
	if err := db.Update(func(tx *store.Tx) error {
		for name, b := range map[string]store.Binding{"pods": {Kind: store.Kubernetes, Queue: "side"}, "ticks": {Kind: store.Schedule, Queue: "idle"}} {
			if err := store.Save(tx, store.BindingKey("web", "hooks/a.sh", name), b); err != nil {
				return err
			}
		}
		for name, enabled := range map[string]bool{"web": true, "my-db": false} {
			if err := store.Save(tx, store.ModuleKey(name), store.Module{Enabled: enabled}); err != nil {
				return err
			}
		}
		return store.Save(tx, store.AppliedConfigKey(), store.AppliedConfig{Config: []byte(`{"maintained":{"myDb":true}}`)})
	}); err != nil {
		t.Fatal(err)
	}
	api := &API{DB: db, Now: func() time.Time { return twelve.Add(59 * time.Second) }, Began: twelve, Snapshot: func(s graph.Subject) []*kube.Object {
		return make([]*kube.Object, len(s.Binding))
	}}
	s, err := api.State()
	if err != nil {
		t.Fatal(err)
	}
	queues := []metrics.Queue{
		{Name: "idle"},
		{Name: "main", Length: 1, Node: "ModuleRun", Module: "web", State: "running"},
		{Name: "side", Length: 2, Node: "ModuleHookRun", Module: "web", Hook: "hooks/a.sh", State: "retrying"},
		{Name: "old", Length: 1, Node: "ModuleRun", Module: "web", State: "waiting"},
	}
	bindings := []metrics.Seen{
		{Binding: metrics.Binding{Module: "web", Hook: "hooks/a.sh", Name: "pods", Queue: "side"}, Kubernetes: true, Objects: 4},
		{Binding: metrics.Binding{Module: "web", Hook: "hooks/a.sh", Name: "ticks", Queue: "idle"}},
	}
	modules := []metrics.Module{{Name: "my-db", Maintenance: "NoResourceReconciliation"}, {Name: "web", Enabled: true}}
	slices.SortFunc(s.Modules, func(a, b metrics.Module) int { return strings.Compare(a.Name, b.Name) })
	if diff := cmp.Diff(queues, s.Queues) + cmp.Diff(bindings, s.Bindings) + cmp.Diff(modules, s.Modules); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.Ticks != 5 || s.StoreFull {
		t.Errorf("%v ticks after 59 s, full %t", s.Ticks, s.StoreFull)
	}
}

func TestTasksOfAConvergeAreThoseOfTheMainQueueThatAreNoEvents(t *testing.T) {
	t.Parallel()
	db := queued(t, func(w *queueWriter) {
		for _, c := range []struct {
			queue string
			node  graph.NodeID
		}{
			{workflow.Main, lifecycle.ModuleRun},
			{workflow.Main, lifecycle.DiscoverModules},
			{workflow.Main, lifecycle.ModuleKubernetesEvent},
			{workflow.Main, lifecycle.ConfigMapChanged},
			{workflow.Main, "a-later-node"},
			{workflow.Parked, lifecycle.GlobalAfterAll},
			{"side", lifecycle.ModuleRun},
		} {
			w.add(func(_ *store.Tx, task *store.Task) { task.Queue, task.Node = c.queue, string(c.node) })
		}
	})
	if err := db.View(func(tx *store.Tx) error {
		n, err := ConvergeTasks(tx)
		if n != 3 {
			t.Errorf("%d tasks, want the run of a module, the discovery, and the parked one", n)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestEmptyQueuesAreInTheListOnRequest(t *testing.T) {
	t.Parallel()
	db := queued(t, func(*queueWriter) {})
	for query, want := range map[string]int{"": 0, "?showEmpty=true": 1, "?showEmpty=1": 0} {
		page, err := queueReader{db: db}.queueRoute(httptest.NewRequest(http.MethodGet, "/queue/list"+query, nil), "list")
		if err != nil {
			t.Fatal(err)
		}
		if l, ok := page.Data.(*QueueList); !ok || len(l.Empty) != want {
			t.Errorf("%q: %+v, want %d empty queues", query, page.Data, want)
		}
	}
}
