package workflow_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// doesNotStart returns the function of a step whose first n attempts end before their work has begun.
func doesNotStart(n int) func(context.Context, workflow.Task) (workflow.Outcome, error) {
	return func(context.Context, workflow.Task) (workflow.Outcome, error) {
		if n--; n >= 0 {
			return workflow.Outcome{}, workflow.NotStarted(errors.New("too many open files"))
		}
		return workflow.Outcome{}, nil
	}
}

func TestAttemptThatHasNotStartedIsRetriedThoughFailuresAreAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{}))
		w.lists("each", graph.Item{Subject: graph.Subject{Hook: "a"}, AllowFailure: true})
		w.set("each a", doesNotStart(2))
		w.start(on("go"))
		if f := w.pending("main")[0].Failed; f == nil || f.Count != 1 || f.Error != "too many open files" {
			t.Errorf("failure %+v", f)
		}
		w.sleep(time.Minute)
		w.expectAt("0 each a", "5 each a", "15 each a", "15 next")
		if r := w.records(1)[0]; r.State != store.Failed || r.Error != "too many open files" {
			t.Errorf("record %+v", r)
		}
	})
}

func TestEventsOfAnAttemptThatHasNotStartedAreDeliveredThoughFailuresAreAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.set("event m/h a", doesNotStart(1))
		w.start(event("h", "a", "1", true), event("h", "b", "2", false), event("h", "a", "3", true))
		w.sleep(time.Minute)
		if diff := cmp.Diff([][]string{{"1", "2", "3"}, {"1", "2", "3"}}, w.ranges()); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
	})
}
