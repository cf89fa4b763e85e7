package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

func TestCheckpointsAreReachedBetweenTheCommitsOfAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "plain"}, graph.Node{ID: "n"}))
		w.set("n", returns(effects("one", "two")))
		w.doEffects(nil)
		var reached []string
		began := 0
		w.e.Checkpoint = func(task workflow.Task, at workflow.Moment) {
			if began == 0 {
				began = w.mem.Commits()
			}
			reached = append(reached, fmt.Sprintf("%s %s: commit %d", task.Node, at, w.mem.Commits()-began))
		}
		w.start(on("go"))
		want := []string{
			"plain claimed: commit 0", "plain ended: commit 0", "plain done: commit 0",
			"n claimed: commit 1", "n ended: commit 1", "n effect: commit 2", "n effect: commit 2", "n done: commit 2",
		}
		if diff := cmp.Diff(want, reached); diff != "" {
			t.Errorf("moments with the commits before them (-want +got):\n%s", diff)
		}
	})
}

func TestAnAttemptThatFailsDoesNotReachItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "n"}))
		w.set("n", func(context.Context, workflow.Task) (workflow.Outcome, error) {
			return workflow.Outcome{}, errors.New("no")
		})
		var reached []string
		w.e.Checkpoint = func(task workflow.Task, at workflow.Moment) { reached = append(reached, fmt.Sprint(task.Try, at)) }
		w.start(on("go"))
		if diff := cmp.Diff([]string{"1claimed"}, reached); diff != "" {
			t.Errorf("moments (-want +got):\n%s", diff)
		}
	})
}
