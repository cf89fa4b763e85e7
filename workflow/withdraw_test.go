package workflow_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

func TestWithdrawReportsEachEventItDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.gate("event m/block b")
		w.start(event("block", "b", "0", false), about(event("h", "b", "1", false), "o"), event("h", "b", "2", false))
		var dropped []store.Record
		w.recorded = func(r store.Record) { dropped = append(dropped, r) }
		var ended []uint64
		w.ended = func(run store.Run) { ended = append(ended, run.ID) }
		w.withdraw("q", "m", "h", nil)
		if len(dropped) != 1 || dropped[0].State != store.Dropped || dropped[0].Detail != "it is delivered" {
			t.Errorf("recorded: %+v", dropped)
		}
		if len(ended) != 1 || ended[0] != 2 {
			t.Errorf("ended runs: %v", ended)
		}
	})
}

func TestWithdrawContinuesBeyondTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.unchecked()
		open := w.gate("event m/block b")
		w.start(event("block", "b", "0", false))
		for range 16 {
			w.raise(repeat(about(event("h", "b", "1", false), "o"), 60)...)
			w.raise(repeat(about(event("h", "c", "1", false), "o"), 60)...)
			w.raise(repeat(about(event("h", "d", "1", false), "o"), 60)...)
			w.raise(repeat(about(event("h", "e", "1", false), "o"), 60)...)
		}
		w.took()
		dropped, parts := 0, 0
		w.recorded = func(store.Record) { dropped++ }
		w.mem.After = func(int) error { parts++; return nil }
		w.withdraw("q", "m", "h", nil)
		if dropped != 3840 || parts < 2 {
			t.Errorf("%d of 3840 events were dropped in %d transactions", dropped, parts)
		}
		if n := w.count(store.Queues); n != 1 {
			t.Errorf("%d tasks are left", n)
		}
		w.unchecked()
		open(workflow.Outcome{}, nil)
		w.expect()
		w.expectAllEnded()
	})
}

func TestAStepWithdrawsEventsWithItsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		open := w.gate("event m/sync b")
		failure, failed := errors.New("not applied"), false
		w.apply = func(_ *store.Tx, task workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
			if task.Subject.Hook != "sync" {
				return nil, nil
			}
			task.Withdraw(delivered("q", "m", "h", func(t *store.Task) bool { return t.Object.Name == "seen" }))
			if !failed {
				failed = true
				return nil, failure
			}
			return nil, nil
		}
		w.start(event("sync", "b", "0", false), about(event("h", "b", "1", false), "seen"), about(event("h", "b", "2", false), "new"))
		var dropped []string
		w.recorded = func(r store.Record) {
			if r.State == store.Dropped {
				dropped = append(dropped, r.Detail)
			}
		}
		open(workflow.Outcome{}, nil)
		synctest.Wait()
		if !failed || len(dropped) > 0 || len(w.pending("q")) != 3 {
			t.Errorf("an attempt whose result is not saved has withdrawn %q, and %d tasks are left; want none and 3", dropped, len(w.pending("q")))
		}
		w.took()
		time.Sleep(time.Minute)
		open(workflow.Outcome{}, nil)
		w.expectRanges([]string{"0"}, []string{"2"})
		if diff := cmp.Diff([]string{"it is delivered"}, dropped); diff != "" {
			t.Errorf("withdrawn events (-want +got):\n%s", diff)
		}
		w.expectAllEnded()
	})
}
