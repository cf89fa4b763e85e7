package workflow_test

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"addon-operator/e2e/cputime"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// BenchmarkReturnOfDeferredEvents measures the time in which all deferred events of a hook return
// to their queue, in many transactions. The time for each event must not depend on the number of
// events.
func BenchmarkReturnOfDeferredEvents(b *testing.B) {
	for _, n := range []int{50_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				release := make(chan struct{})
				db, e := deferredEvents(b, n, release)
				first := store.ID{}
				if err := db.View(func(tx *store.Tx) error {
					for t, err := range store.DeferredTasks(tx) {
						first = t.ID
						return err
					}
					return nil
				}); err != nil {
					b.Fatal(err)
				}
				before := cputime.Used()
				b.StartTimer()
				if err := e.Retry(first, "", ""); err != nil {
					b.Fatal(err)
				}
				for deferredTasks(b, db, 1) > 0 {
					time.Sleep(10 * time.Millisecond)
				}
				b.StopTimer()
				b.ReportMetric(float64((cputime.Used()-before).Microseconds())/float64(n), "cpu-µs/event")
				close(release)
				e.Stop()
				b.StartTimer()
			}
		})
	}
}

// deferredEvents raises n events of one hook, and returns the engine and its store. The first attempt
// uses up the rate limit of the hook, and processes the first atOnce events. The limit has deferred
// all other events. Each later attempt waits until release is closed.
func deferredEvents(b *testing.B, n int, release <-chan struct{}) (*store.DB, *workflow.Engine) {
	b.Helper()
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	g := limitedGraph()
	steps := map[graph.NodeID]workflow.Step{}
	var ran atomic.Bool // whether the attempt that uses up the limit has run
	for _, node := range g.Nodes {
		steps[node.ID] = benchLimited{benchStep{func(workflow.Task) {
			if ran.Swap(true) {
				<-release
			}
		}}}
	}
	e, err := workflow.New(db, workflow.Observer{}, workflow.Implementation{Graph: g, Steps: steps})
	if err != nil {
		b.Fatal(err)
	}
	if err := e.Start(func(*store.Tx) ([]workflow.Event, error) { return nil, nil }); err != nil {
		b.Fatal(err)
	}
	const atOnce = 500
	for n := range n / atOnce {
		events := make([]workflow.Event, atOnce)
		for i := range events {
			events[i] = hookEvent("h", fmt.Sprint(n*atOnce+i))
		}
		if err := db.Update(func(tx *store.Tx) error { return e.Raise(tx, events...) }); err != nil {
			b.Fatal(err)
		}
	}
	for deferredTasks(b, db, n) < n-atOnce { // the first atOnce tasks are not deferred, because the first attempt processes them
		time.Sleep(time.Millisecond)
	}
	return db, e
}

// A benchLimited step is allowed to run once an hour.
type benchLimited struct{ benchStep }

func (benchLimited) RateLimit(*store.Tx, *store.Task) workflow.RateLimit {
	return workflow.RateLimit{Every: time.Hour, Burst: 1}
}

func (benchLimited) Items(*store.Tx, workflow.Task) ([]graph.Item, json.RawMessage, error) {
	return nil, nil, nil
}

// deferredTasks returns the number of deferred tasks, but not more than the limit most.
func deferredTasks(b *testing.B, db *store.DB, most int) (n int) {
	b.Helper()
	if err := db.View(func(tx *store.Tx) error {
		for range tx.Range(store.At(store.Deferred)) {
			if n++; n == most {
				break
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	return n
}
