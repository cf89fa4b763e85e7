package workflow_test

import (
	"testing"
	"testing/synctest"

	"addon-operator/store"
	"addon-operator/workflow"
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
