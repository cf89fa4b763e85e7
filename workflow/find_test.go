package workflow_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

func TestATaskIDStaysTheSameThroughRetriesAndAllStepsOfAModuleRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.lists(lifecycle.ModuleBeforeHelm, graph.Item{Subject: graph.Subject{Module: "m", Hook: "h"}})
		w.lists(lifecycle.ModuleAfterHelm, graph.Item{Subject: graph.Subject{Module: "m", Hook: "z"}})
		w.fails("module-beforehelm m/h", 2)
		w.reports("release-check m", lifecycle.Outdated)
		w.start(on(lifecycle.OnResourcesAbsent, "m"))
		w.took()
		id := w.pending("main")[0].ID
		w.sleep(5 * time.Second)
		if next := w.pending("main")[0]; next.ID != id || next.Failed == nil || next.Failed.Count != 2 {
			t.Fatalf("after the second failure task %s is %s: %+v", id, next.ID, next.Failed)
		}
		w.took()
		w.sleep(10 * time.Second)
		steps := map[string]bool{}
		for _, n := range w.took() {
			if steps[n.what] = true; n.task.ID != id {
				t.Errorf("%s has the id %s, want %s", n.what, n.task.ID, id)
			}
		}
		for _, want := range []string{"module-beforehelm m/h", "release-upgrade m", "module-afterhelm m/z"} {
			if !steps[want] {
				t.Errorf("%s has not run: %v", want, steps)
			}
		}
	})
}

func TestAnIDCopiedBeforeARetrySkipsTheTaskAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.fails("release-check m", 100)
		w.start(on(lifecycle.OnResourcesAbsent, "m"))
		copied := w.pending("main")[0].ID
		w.sleep(time.Minute)
		if err := w.e.Skip(copied, "ann", "known"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.expectPending("main")
	})
}

// find checks that Find returns, for the given name, the ID of the task with the given index in the given queue.
func (w *fixture) find(name, queue string, index int) {
	w.t.Helper()
	id, err := w.e.Find(name)
	if tasks := w.pending(queue); err != nil || len(tasks) <= index || id != tasks[index].ID {
		w.t.Errorf("%s means %s, %v", name, id, err)
	}
}

func TestATaskIsFoundByItsModuleOrHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.lists(lifecycle.ModuleBeforeHelm, graph.Item{Subject: graph.Subject{Module: "m", Hook: "sub/h.sh"}})
		w.fails("module-beforehelm m/sub/h.sh", 100)
		w.gate("module-kubernetes-event m/runs b")
		w.gate("global-kubernetes-event g b")
		w.start(
			on(lifecycle.OnResourcesAbsent, "m"), on(lifecycle.OnResourcesAbsent, "waits"),
			kubeEvent("m", "runs"), kubeEvent("m", "runs"), in("q", on(lifecycle.OnGlobalKubeEvent, "", "g", "b")),
		)
		w.find("m", "main", 0)
		w.find("m/sub/h.sh", "main", 0)
		w.find("m/runs", "q-runs", 0)
		w.find("g", "q", 0)
		w.find("waits", "main", 1)
		if _, err := w.e.Find("m/unknown"); !errors.Is(err, workflow.ErrNoTask) {
			t.Errorf("an unknown hook: %v", err)
		}
		if id, err := w.e.Find("7-9"); err != nil || id != (store.ID{Epoch: 7, N: 9}) {
			t.Errorf("an id means %s, %v", id, err)
		}
		// If two running tasks have the name, Find returns neither.
		w.raise(in("q2", on(lifecycle.OnModuleKubeEvent, "m", "runs", "b")))
		_, err := w.e.Find("m/runs")
		if !errors.Is(err, workflow.ErrAmbiguous) || !strings.Contains(err.Error(), w.pending("q2")[0].ID.String()) {
			t.Errorf("two running tasks of one hook: %v", err)
		}
	})
}

func TestAFailingTaskIsFoundByItsModuleOrHookWhileARateLimitDefersIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newLimited(t, workflow.RateLimit{Every: time.Minute, Burst: 1})
		w.fails("event m/h b", 100)
		w.gate("event m/runs b")
		w.start(hookEvent("h", "1"), in("r", on("event", "m", "runs", "b")))
		w.sleep(10 * time.Second)
		w.raise(hookEvent("h", "2"), hookEvent("h", "3"))
		var want store.ID
		w.view(func(tx *store.Tx) error {
			for task, err := range store.DeferredTasks(tx) {
				if err != nil {
					return err
				}
				if task.Failed != nil {
					want = task.ID
				}
			}
			return nil
		})
		for _, name := range []string{"m/h", "m"} {
			if id, err := w.e.Find(name); err != nil || id != want || want.IsZero() {
				t.Errorf("%s means %s, %v; want %s", name, id, err, want)
			}
		}
	})
}
