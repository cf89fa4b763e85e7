package workflow_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// fillQueue adds n events of 500 hooks to queue q. No worker processes these events.
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

// BenchmarkFirstEventInALongQueue measures the transaction that raises the first event of a
// binding, in a queue where 50,000 events of other hooks wait.
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

// BenchmarkMuchHeld measures how much slower a transition is while 8 MiB of events of 500 hooks are
// held, because their module is in quarantine.
func BenchmarkMuchHeld(b *testing.B) {
	var took [2][]float64
	held := [2]*heldLoad{newHeldLoad(b, 0), newHeldLoad(b, 500)}
	for b.Loop() {
		for i, l := range held {
			took[i] = append(took[i], l.run().Seconds()*1000/benchNodes)
		}
	}
	b.ReportMetric(median(took[0]), "ms/transition-none")
	b.ReportMetric(median(took[1]), "ms/transition")
	b.ReportMetric(median(took[1])/median(took[0])-1, "slower")
	b.ReportMetric(0, "ns/op")
}

// A heldLoad is an engine over a store in memory. The measured transitions are about module "busy",
// while events of module "held" are held.
type heldLoad struct {
	b    *testing.B
	db   *store.DB
	e    *workflow.Engine
	done chan struct{}
}

func newHeldLoad(b *testing.B, hooks int) *heldLoad {
	b.Helper()
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	g := benchGraph("")
	for i := range g.Nodes {
		g.Nodes[i].Scope = graph.ScopeModule
	}
	g.Nodes = append(g.Nodes, graph.Node{ID: "event", Number: "e", Doc: "an event", Scope: graph.ScopeBinding, Batch: true})
	g.Edges = append(g.Edges, graph.Edge{On: "event", To: "event", Place: graph.BindingQueue})
	g.Triggers["event"] = "an event"
	l := &heldLoad{b: b, db: db, done: make(chan struct{}, 1)}
	l.e = benchEngine(b, db, g, nil, func() { l.done <- struct{}{} })
	b.Cleanup(func() { l.e.Stop(); _ = db.Close() })
	if err := l.e.Start(func(tx *store.Tx) ([]workflow.Event, error) {
		q := store.QuarantinedItem{ID: store.ID{Epoch: 1, N: 1}, Graph: g.Name, Node: "event", Subject: graph.Subject{Module: "held"}, Queue: "q", At: tx.Now()}
		return nil, store.Save(tx, store.QuarantineKey(q.ID), q)
	}); err != nil {
		b.Fatal(err)
	}
	for i := range hooks { // each hook has 4 events of 4 KiB
		if err := db.Update(func(tx *store.Tx) error {
			ev := about(in("q", on("event", "held", fmt.Sprint("hooks/", i), "b")), "o")
			ev.Payload = json.RawMessage(`"` + strings.Repeat("x", 4<<10) + `"`)
			return l.e.Raise(tx, ev, ev, ev, ev)
		}); err != nil {
			b.Fatal(err)
		}
	}
	for waiting := true; waiting; {
		time.Sleep(10 * time.Millisecond)
		if err := db.View(func(tx *store.Tx) error { _, ok, err := store.Head(tx, "q"); waiting = ok; return err }); err != nil {
			b.Fatal(err)
		}
	}
	return l
}

// run returns the duration of a run through all nodes.
func (l *heldLoad) run() time.Duration {
	l.b.Helper()
	begin := time.Now()
	if err := l.db.Update(func(tx *store.Tx) error { return l.e.Raise(tx, in("other", on("go", "busy"))) }); err != nil {
		l.b.Fatal(err)
	}
	<-l.done
	return time.Since(begin)
}
