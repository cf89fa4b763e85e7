package workflow_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
)

// fillQueue puts n events of other hooks into queue q, which nobody works on.
func fillQueue(b *testing.B, db *store.DB, e *workflow.Engine, n int) {
	b.Helper()
	const at = 1000
	for n := range n / at {
		if err := db.Update(func(tx *store.Tx) error {
			events := make([]workflow.Event, at)
			for i := range events {
				hook := fmt.Sprintf("hooks/%d", (n*at+i)%500)
				events[i] = about(in("q", on("event", "module", hook, "binding")), fmt.Sprint("object-", n*at+i))
				events[i].Payload = json.RawMessage(`{"binding":"binding","type":"Event","watchEvent":"Modified"}`)
			}
			return e.Raise(tx, events...)
		}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFirstEventInALongQueue measures the transaction that raises the first event of
// a binding in a queue where 50,000 events of others wait.
func BenchmarkFirstEventInALongQueue(b *testing.B) {
	db := openFile(b, nil)
	e := benchEngine(b, db, eventGraph(), nil, nil)
	fillQueue(b, db, e, 50_000)
	var took []float64
	for n := 0; b.Loop(); n++ {
		begin := time.Now()
		if err := db.Update(func(tx *store.Tx) error {
			return e.Raise(tx, about(in("q", on("event", "module", "hooks/first", fmt.Sprint("binding-", n))), "object"))
		}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin).Seconds()*1000)
	}
	b.ReportMetric(median(took), "ms/event")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkWithdrawFromALongQueue measures the part of the engine in a Synchronization
// while 100,000 events of other hooks wait in its queue.
func BenchmarkWithdrawFromALongQueue(b *testing.B) {
	db := openFile(b, nil)
	e := benchEngine(b, db, eventGraph(), nil, nil)
	fillQueue(b, db, e, 100_000)
	var took []float64
	for b.Loop() {
		begin := time.Now()
		if err := db.Update(func(tx *store.Tx) error {
			return e.Withdraw(tx, "q", store.Subject{Module: "module", Hook: "hooks/other"}, "it is delivered", func(*store.Task) bool { return true })
		}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin).Seconds()*1000)
	}
	b.ReportMetric(median(took), "ms/Synchronization")
	b.ReportMetric(0, "ns/op")
}
