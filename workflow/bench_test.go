package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// Each benchmark in this file measures two cases in alternating rounds, so that other load on the
// machine slows down both. This command runs the benchmarks:
//
//	go test -run '^$' -bench . -benchtime 11x ./workflow

// benchNodes is the number of steps of a run in the benchmarks. A start with a few modules has
// about benchNodes steps.
const benchNodes = 60

// benchGraph is a chain of nodes. The argument each is the fan-out of the first node; empty if the node has no fan-out.
func benchGraph(each graph.FanOut) *graph.Graph {
	nodes := []graph.Node{{ID: "n0", ForEach: each}}
	edges := []graph.Edge{{On: "go", To: "n0", Place: graph.BindingQueue}}
	for i := 1; i < benchNodes; i++ {
		nodes = append(nodes, graph.Node{ID: nodeID(i)})
		edges = append(edges, graph.Edge{From: nodeID(i - 1), To: nodeID(i)})
	}
	return newGraph(nodes, edges...)
}

// A track has the writes that an engine makes: before its start, at its start, and then in the
// transitions of each queue.
type track struct {
	before, start []write
	queues        [][][]write
}

type write struct {
	key, value []byte // a nil value deletes the key
}

// record lets an engine process one run in each queue, one transition after the other, and returns the writes of the
// engine.
func record(b *testing.B, queues int) (tr track) {
	b.Helper()
	mem := new(store.Memory)
	db, err := store.OpenMemory(mem, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	raiseRuns(b, db, queues)
	known := map[string]string{}
	tr.before = diff(b, db, known)
	tr.queues = make([][][]write, queues)
	// Only one step runs at a time, so that each commit contains the transition of one queue only.
	turn := make(chan int, 1)
	const none = -1
	ran := none // the queue whose step has run since the last commit
	mem.After = func(int) error {
		writes := diff(b, db, known)
		switch {
		case tr.start == nil:
			tr.start = writes
		case ran == none:
			return nil // the commit at the end of the engine contains no transition
		default:
			tr.queues[ran] = append(tr.queues[ran], writes)
		}
		ran = none
		turn <- 0
		return nil
	}
	processRuns(b, db, queues, func(t workflow.Task) {
		<-turn
		if _, err := fmt.Sscanf(t.Queue, "q%d", &ran); err != nil {
			b.Error(err)
		}
	})
	return tr
}

// diff returns the differences between db and known, and updates known.
func diff(b *testing.B, db *store.DB, known map[string]string) (writes []write) {
	b.Helper()
	err := db.View(func(tx *store.Tx) error {
		seen := 0
		for k, v := range tx.Range(nil) {
			if k.Table() == store.Meta {
				continue
			}
			seen++
			if old, ok := known[string(k)]; !ok || old != string(v) {
				writes = append(writes, write{slices.Clone(k), append([]byte{}, v...)})
				known[string(k)] = string(v)
			}
		}
		for k := range known {
			if seen == len(known) {
				break
			}
			if tx.Get(store.Key(k)) == nil {
				writes = append(writes, write{key: []byte(k)})
				delete(known, k)
			}
		}
		return nil
	})
	if err != nil {
		b.Error(err)
	}
	return writes
}

// put carries out the given writes: each one writes or deletes a key.
func put(tx *store.Tx, writes []write) error {
	for _, w := range writes {
		if w.value == nil {
			tx.Delete(w.key)
		} else {
			tx.Put(w.key, w.value)
		}
	}
	return nil
}

// raiseRuns adds a run to each queue, without an engine that processes it.
func raiseRuns(b *testing.B, db *store.DB, queues int) {
	b.Helper()
	e := benchEngine(b, db, benchGraph(""), nil, nil)
	err := db.Update(func(tx *store.Tx) error {
		for q := range queues {
			if err := e.Raise(tx, in(fmt.Sprint("q", q), on("go"))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// benchEngine returns an engine whose steps call the function ran and do nothing else. At the end of each run, the
// engine calls the function ended.
func benchEngine(b *testing.B, db *store.DB, g *graph.Graph, ran func(workflow.Task), ended func()) *workflow.Engine {
	b.Helper()
	steps := map[graph.NodeID]workflow.Step{}
	for _, n := range g.Nodes {
		steps[n.ID] = benchStep{ran}
	}
	e, err := workflow.New(db, workflow.Observer{
		Broken: func(queue string, err error) { b.Errorf("queue %s: %v", queue, err) },
		Ended: func(store.Run) {
			if ended != nil {
				ended()
			}
		},
	}, workflow.Implementation{Graph: g, Steps: steps})
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// A benchStep reports that it ran.
type benchStep struct{ ran func(workflow.Task) }

func (s benchStep) Do(_ context.Context, t workflow.Task) (workflow.Outcome, error) {
	if s.ran != nil {
		s.ran(t)
	}
	return workflow.Outcome{}, nil
}

// processRuns processes the pending tasks of all queues and returns the duration.
func processRuns(b *testing.B, db *store.DB, queues int, ran func(workflow.Task)) time.Duration {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(queues))
	done := make(chan struct{})
	e := benchEngine(b, db, benchGraph(""), ran, func() {
		if left.Add(-1) == 0 {
			close(done)
		}
	})
	begin := time.Now()
	if err := e.Start(func(*store.Tx) ([]workflow.Event, error) { return nil, nil }); err != nil {
		b.Fatal(err)
	}
	<-done
	took := time.Since(begin)
	e.Stop()
	return took
}

// replay commits to db the writes that an engine makes from its start on, with one goroutine for each
// queue, and returns the duration. db must contain tr.before already.
func replay(b *testing.B, db *store.DB, tr track) time.Duration {
	b.Helper()
	begin := time.Now()
	if err := db.Update(func(tx *store.Tx) error { return put(tx, tr.start) }); err != nil {
		b.Fatal(err)
	}
	var running sync.WaitGroup
	for _, moves := range tr.queues {
		running.Go(func() {
			for _, writes := range moves {
				if err := db.Update(func(tx *store.Tx) error { return put(tx, writes) }); err != nil {
					b.Error(err)
				}
			}
		})
	}
	running.Wait()
	return time.Since(begin)
}

// openFile returns a new store on disk that contains writes.
func openFile(b *testing.B, writes []write) *store.DB {
	b.Helper()
	db, err := store.Open(filepath.Join(b.TempDir(), "store.db"), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	for chunk := range slices.Chunk(writes, 10_000) {
		if err := db.Update(func(tx *store.Tx) error { return put(tx, chunk) }); err != nil {
			b.Fatal(err)
		}
	}
	return db
}

func median(d []float64) float64 {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkEngineAgainstItsWrites compares the engine with its writes alone: the same puts and
// deletes, committed without an engine. In both cases, the store can commit concurrent transactions
// of several queues together. The metric ratio is the speed of the engine divided by the speed of the
// writes alone.
func BenchmarkEngineAgainstItsWrites(b *testing.B) {
	for _, queues := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(queues), func(b *testing.B) {
			tr := record(b, queues)
			tasks := float64(queues * benchNodes)
			var engine, raw, ratio []float64
			for b.Loop() {
				e := processRuns(b, openFile(b, tr.before), queues, nil).Seconds()
				r := replay(b, openFile(b, tr.before), tr).Seconds()
				engine, raw, ratio = append(engine, tasks/e), append(raw, tasks/r), append(ratio, r/e)
			}
			b.ReportMetric(median(engine), "tasks/s")
			b.ReportMetric(median(raw), "raw/s")
			b.ReportMetric(median(ratio), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkMuchPending measures how much slower a transition is if 100,000 tasks wait behind its
// task, or if its task is a fan-out with 1,000 items instead of benchNodes items. The metric slower
// is the increase of the duration, as a fraction.
func BenchmarkMuchPending(b *testing.B) {
	for _, c := range []struct {
		what             string
		waiting, members int
	}{{"100000 tasks", 100_000, 0}, {"1000 members", 0, 1000}} {
		b.Run(c.what, func(b *testing.B) {
			few, much := newLoad(b, 0, min(c.members, benchNodes)), newLoad(b, c.waiting, c.members)
			var slower []float64
			for b.Loop() {
				slower = append(slower, much.run().Seconds()/few.run().Seconds()-1)
			}
			b.ReportMetric(median(slower), "slower")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// past returns the writes of a history of some days. Each load starts with this history, because a
// store in use is larger than a new store.
func past(b *testing.B) []write {
	b.Helper()
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(func(tx *store.Tx) error {
		for i := range 5000 {
			r := store.Record{Run: uint64(i / 10), Node: string(nodeID(i % 10)), Queue: "main", State: store.Done, Began: tx.Now(), Ended: tx.Now()}
			if err := store.AddRecord(tx, r); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	return diff(b, db, map[string]string{})
}

// A load is a store with tasks that wait in the main queue.
type load struct {
	b     *testing.B
	db    *store.DB
	graph *graph.Graph
	items int
}

func newLoad(b *testing.B, waiting, items int) *load {
	b.Helper()
	l := &load{b: b, db: openFile(b, past(b)), items: items}
	l.graph = benchGraph("")
	if items > 0 {
		l.graph = benchGraph("members")
	}
	l.graph.Nodes = append(l.graph.Nodes, graph.Node{ID: "wait", Number: "w", Doc: "wait", Scope: graph.ScopeModule})
	l.graph.Triggers["front"], l.graph.Triggers["wait"] = "a trigger", "a trigger"
	l.graph.Edges = append(l.graph.Edges, graph.Edge{On: "front", To: "n0", Place: graph.Front}, graph.Edge{On: "wait", To: "wait", Place: graph.Tail})
	e := l.engine(nil)
	for n := 0; n < waiting; n += 5000 {
		if err := l.db.Update(func(tx *store.Tx) error {
			for i := range 5000 {
				if err := e.Raise(tx, on("wait", fmt.Sprint("module-", n+i))); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	return l
}

func (l *load) engine(ran func(context.Context, workflow.Task)) *workflow.Engine {
	l.b.Helper()
	steps := map[graph.NodeID]workflow.Step{}
	for _, n := range l.graph.Nodes {
		steps[n.ID] = loadStep{l.items, ran}
	}
	e, err := workflow.New(l.db, workflow.Observer{Broken: func(queue string, err error) { l.b.Errorf("queue %s: %v", queue, err) }}, workflow.Implementation{Graph: l.graph, Steps: steps})
	if err != nil {
		l.b.Fatal(err)
	}
	return e
}

// run adds a run in front of the waiting tasks and returns the duration of its first transitions. After
// these transitions, the engine stops, and the remaining tasks of the run stay in the store.
func (l *load) run() (took time.Duration) {
	l.b.Helper()
	var begin time.Time
	steps := 0
	done := make(chan struct{})
	e := l.engine(func(ctx context.Context, _ workflow.Task) {
		switch steps++; steps {
		case 1:
			begin = time.Now()
		case benchNodes:
			took = time.Since(begin)
			close(done)
			<-ctx.Done()
		}
	})
	if err := e.Start(func(*store.Tx) ([]workflow.Event, error) { return []workflow.Event{on("front")}, nil }); err != nil {
		l.b.Fatal(err)
	}
	<-done
	e.Stop()
	return took
}

// A loadStep is the step of each node of a load. The fan-out of a loadStep has the given number of
// items.
type loadStep struct {
	items int
	ran   func(context.Context, workflow.Task)
}

func (s loadStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	s.ran(ctx, t)
	return workflow.Outcome{}, nil // the step succeeds even if the engine was stopped, so that no task stays claimed
}

func (s loadStep) Items(*store.Tx, workflow.Task) ([]graph.Item, json.RawMessage, error) {
	return hooks(strings.Split(strings.Repeat("hook,", s.items-1)+"hook", ",")...), nil, nil
}
