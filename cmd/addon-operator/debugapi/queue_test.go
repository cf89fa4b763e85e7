package debugapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// queued returns a store in which the queue "side" has the tasks that fill adds.
func queued(t testing.TB, fill func(*queueWriter)) *store.DB {
	t.Helper()
	db, err := store.OpenMemory(new(store.Memory), store.Options{Clock: func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	w := &queueWriter{t: t, db: db}
	fill(w)
	w.commit()
	return db
}

// A queueWriter adds tasks to the tail of the queue "side".
type queueWriter struct {
	t     testing.TB
	db    *store.DB
	slot  uint64
	tasks []func(*store.Tx) error
}

func (w *queueWriter) commit() {
	w.t.Helper()
	err := w.db.Update(func(tx *store.Tx) error {
		for _, add := range w.tasks {
			if err := add(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.tasks = nil
}

// add adds a task. The function change can set fields of the task before the task is stored.
func (w *queueWriter) add(change func(*store.Tx, *store.Task)) {
	w.slot++
	slot := store.FirstSlot + w.slot
	w.tasks = append(w.tasks, func(tx *store.Tx) error {
		n := tx.NextID()
		task := &store.Task{
			ID: store.ID{Epoch: tx.Epoch(), N: n}, Pos: store.Pos{Queue: "side", Slot: slot}, Graph: lifecycle.Graph.Name, Node: "module-run",
			Subject: graph.Subject{Module: "web"}, Run: n,
		}
		change(tx, task)
		if task.IsOutOfQueue() {
			return store.SaveOutOfQueue(tx, task)
		}
		return store.SaveTask(tx, task)
	})
	if len(w.tasks) == 500 {
		w.commit()
	}
}

// event adds an event for the binding and a pod, and the run of the event.
func (w *queueWriter) event(binding string, pod int, change ...func(*store.Task)) {
	w.add(func(tx *store.Tx, task *store.Task) {
		task.Node, task.Subject = "module-kubernetes-event", graph.Subject{Module: "web", Hook: "hooks/pods.sh", Binding: binding}
		task.Object = &store.ObjectRef{Event: "Modified", Kind: "Pod", Namespace: "default", Name: fmt.Sprint("pod-", pod)}
		for _, c := range change {
			c(task)
		}
		if err := store.Save(tx, store.RunKey(task.Run), store.Run{ID: task.Run, Cause: store.Cause{Manager: "kubectl-edit"}}); err != nil {
			w.t.Error(err)
		}
	})
}

func (w *queueWriter) task() { w.add(func(*store.Tx, *store.Task) {}) }

// side returns the queue "side" as the route /queue/show returns it.
func side(t testing.TB, db *store.DB) QueueDump {
	t.Helper()
	page, err := queueReader{db: db}.queueRoute(httptest.NewRequest(http.MethodGet, "/queue/show?queue=side", nil), "show")
	if err != nil {
		t.Fatal(err)
	}
	dump, ok := page.Data.(QueueDump)
	if !ok {
		t.Fatalf("the page has a %T", page.Data)
	}
	return dump
}

// lines returns the lines of the text of a queue, without the IDs of tasks.
func lines(d *QueueDump, all bool) []string {
	var lines []string
	for line := range strings.Lines(d.Text(inspect.Layout{Width: inspect.Unlimited, Whole: true, All: all})) {
		if line, _, _ = strings.Cut(line, "  ["); strings.TrimSpace(line) != "" {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return lines
}

func TestManyWaitingEventsOfABindingAreOneLine(t *testing.T) {
	t.Parallel()
	db := queued(t, func(w *queueWriter) {
		w.event("pods", 0, func(task *store.Task) {
			task.Failed = &store.Failure{Node: task.Node, Subject: task.Subject, Count: 2, Error: "no rights"}
		})
		for i := range 150 {
			w.event("pods", i)
			if i < 3 {
				w.event("other", i)
			}
		}
		w.task()
		for i := range 100 {
			w.event("pods", 1000+i)
		}
		w.task()
	})
	d := side(t, db)
	want := []string{
		"Queue 'side': length 256, status: 'failed, is tried again'",
		"  1. module-kubernetes-event:side:web/hooks/pods.sh pods:Modified Pod default/pod-0:failures 2:no rights",
		"  2. 150 events of hook web/hooks/pods.sh, binding pods, newest: Modified Pod default/pod-149, changed by kubectl-edit",
		"  3. module-kubernetes-event:side:web/hooks/pods.sh other:Modified Pod default/pod-0",
		"  5. module-kubernetes-event:side:web/hooks/pods.sh other:Modified Pod default/pod-1",
		"  7. module-kubernetes-event:side:web/hooks/pods.sh other:Modified Pod default/pod-2",
		"155. module-run:side:web",
		"156. 100 events of hook web/hooks/pods.sh, binding pods, newest: Modified Pod default/pod-1099, changed by kubectl-edit",
		"256. module-run:side:web",
	}
	if diff := cmp.Diff(want, lines(&d, false)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The first tasks are listed even if they are in a group, because scripts search them.
	if len(d.Tasks) != shownTasks+1 || d.TasksCount != 256 || d.More != 256-shownTasks-1 {
		t.Errorf("%d tasks of %d are listed, and %d more", len(d.Tasks), d.TasksCount, d.More)
	}
	each := lines(&d, true)
	if len(each) != 1+shownTasks+1+1 || each[2] != "  2. module-kubernetes-event:side:web/hooks/pods.sh pods:Modified Pod default/pod-0" || each[len(each)-1] != "     and 55 more" {
		t.Errorf("each event: %d lines, %q, …, %q", len(each), each[2], each[len(each)-1])
	}
}

func TestEventsBehindTheTasksReadAreCountedInTheirGroup(t *testing.T) {
	t.Parallel()
	db := queued(t, func(w *queueWriter) {
		for i := range readTasks + 700 {
			w.event("pods", i)
		}
		for i := range 300 {
			w.event("other", i)
		}
	})
	d := side(t, db)
	want := []string{
		"Queue 'side': length 3000, status: 'waits'",
		"  1. 2700 events of hook web/hooks/pods.sh, binding pods, newest: Modified Pod default/pod-2699, changed by kubectl-edit",
		"     and 300 more",
	}
	if diff := cmp.Diff(want, lines(&d, false)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Of the events behind the first readTasks tasks, only the record of the newest event is read. This record is damaged.
func TestEventsBehindTheTasksReadAreCountedIfTheNewestIsUnreadable(t *testing.T) {
	t.Parallel()
	db := queued(t, func(w *queueWriter) {
		for i := range readTasks + 10 {
			w.event("pods", i)
		}
	})
	if err := db.Update(func(tx *store.Tx) error {
		for k := range tx.Backwards(store.QueueKey("side")) {
			tx.Put(k, []byte("damaged"))
			break
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	d := side(t, db)
	want := []string{
		"Queue 'side': length 2010, status: 'waits'",
		"  1. 2010 events of hook web/hooks/pods.sh, binding pods, newest: Modified Pod default/pod-1999, changed by kubectl-edit",
	}
	if diff := cmp.Diff(want, lines(&d, false)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEventsInNoQueueAreGroupedByWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	db := queued(t, func(w *queueWriter) {
		for i := range 300 {
			w.event("pods", i, func(task *store.Task) { task.Lane, task.Slot = store.Reactions, 0 })
		}
	})
	if err := db.Update(func(tx *store.Tx) error {
		lane := store.Lane{LaneKey: store.LaneKey{Queue: "side", Module: "web", Hook: "hooks/pods.sh", Kind: store.Reactions}}
		lane.Tasks, lane.Reason = 300, store.Reason{Kind: store.AwaitsResume, Detail: "module web is paused"}
		return store.SaveLane(tx, lane)
	}); err != nil {
		t.Fatal(err)
	}
	page, err := queueReader{db: db}.queueRoute(httptest.NewRequest(http.MethodGet, "/queue/list", nil), "list")
	if err != nil {
		t.Fatal(err)
	}
	list, ok := page.Data.(*QueueList)
	if !ok {
		t.Fatalf("the page has a %T", page.Data)
	}
	text := list.Text(inspect.Layout{Width: inspect.Unlimited, Whole: true})
	if !strings.Contains(text, "\n  1. 300 events of hook web/hooks/pods.sh, binding pods, newest: Modified Pod default/pod-299, changed by kubectl-edit [1-") ||
		strings.Contains(text, "pod-0") || !strings.Contains(text, "- in all: 300 tasks.") {
		t.Errorf("the list is:\n%s", text)
	}
}

func BenchmarkQueueListOfManyEvents(b *testing.B) {
	db := queued(b, func(w *queueWriter) {
		for i := range 100_000 {
			w.event("pods", i)
		}
	})
	for b.Loop() {
		if _, err := (queueReader{db: db}).queues(); err != nil {
			b.Fatal(err)
		}
	}
}
