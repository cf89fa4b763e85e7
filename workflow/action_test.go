package workflow_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// actions returns the stored actions, oldest first, as text.
func (w *fixture) actions() (all []string) {
	if err := w.db.View(func(tx *store.Tx) error {
		for a, err := range store.ActionsBackwards(tx) {
			if err != nil {
				return err
			}
			what := a.What
			if !a.Task.IsZero() {
				what = a.Subject.Module + " in " + a.Queue
			}
			all = append(all, a.Verb+" "+what+" by "+a.By+": "+a.Reason)
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	slices.Reverse(all)
	return all
}

func TestCommandsOfPeopleAreStoredWithPersonAndReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, newGraph([]graph.Node{{ID: "n", Scope: graph.ScopeModule}}, graph.Edge{On: "go", To: "n", Place: graph.Tail}))
		w.fails("n m", 9)
		w.start(on("go", "m"))
		id := w.pending("main")[0].ID
		target := workflow.PauseTarget{Queue: "q"}
		for _, err := range []error{
			w.e.Pause("g", target, "ann", "upgrade"), w.e.Resume(target, "bob", "upgraded"),
			w.e.Retry(id, "cid", "mended"),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		w.sleep(time.Second)
		if err := w.e.Retry(id, "", "by the operator itself"); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Second)
		if err := w.e.Resume(target, "bob", "again"); err == nil {
			t.Error("work that is not paused was resumed")
		}
		if err := w.e.Skip(id, "dan", "gone"); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"pause queue q by ann: upgrade", "resume queue q by bob: upgraded",
			"task retry m in main by cid: mended", "task skip m in main by dan: gone",
		}
		if diff := cmp.Diff(want, w.actions()); diff != "" {
			t.Errorf("stored actions (-want +got):\n%s", diff)
		}
	})
}
