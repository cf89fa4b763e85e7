package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

const (
	// soakQueues is the number of queues that are processed in parallel.
	soakQueues = 16
	// soakNodes is the number of tasks of one run.
	soakNodes = 20
	// fewestSoakTasks is the minimum number of tasks of a soak. With fewer tasks, each queue would have completed
	// fewer than 10 runs at the first measurement of memory.
	fewestSoakTasks = 100 * soakQueues * soakNodes
	// soakInterval is the time by which each task advances the clock of the store.
	soakInterval = 10 * time.Second
	// soakHistory is the age at which history is removed. It is the default of the operator. Each time the clock of the
	// store has advanced by soakTrim, the soak removes the history that is older than soakHistory.
	soakHistory = 7 * 24 * time.Hour
	soakTrim    = time.Hour
)

// A soak is an engine that processes tasks, with its store in a file. The clock of the store runs much faster than real
// time. The soak removes old history as the operator does.
type soak struct {
	db     *store.DB
	path   string
	engine *workflow.Engine
	tasks  int          // number of tasks to process
	done   atomic.Int64 // number of completed tasks
	ended  chan string  // names of queues whose last run has ended
	broken chan error   // error of the engine
	begun  time.Time
}

// measureSoak measures the size of the store file and the memory of the process after many tasks.
func measureSoak(ctx context.Context, tasks int, progress *log.Logger) (_ []figure, err error) {
	parent := sharedMemory // on a disk, the soak would spend most of its time in fsync
	if _, err := os.Stat(parent); err != nil {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "soak-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &soak{
		path: filepath.Join(dir, "store.db"), tasks: tasks,
		ended: make(chan string, soakQueues), broken: make(chan error, soakQueues), begun: time.Now(),
	}
	if s.db, err = store.Open(s.path, store.Options{Clock: s.now}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.db.Close()) }()
	progress.Printf("soak of %d tasks", tasks)
	began := time.Now()
	memory, err := s.run(ctx, progress)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	if err := s.db.Check(); err != nil {
		return nil, err
	}
	info, err := os.Stat(s.path)
	if err != nil {
		return nil, err
	}
	return []figure{
		{
			Name: fmt.Sprintf("store after %d tasks", tasks), Unit: "MiB", Measured: float64(info.Size()) / (1 << 20), AtMost: 64,
			Note: fmt.Sprintf("7 days of history, a task every %s; %.0f tasks/s on a file system in memory", soakInterval, float64(tasks)/took.Seconds()),
		},
		{
			Name: "memory at the end of the soak, relative to the memory at half of it", Unit: "times", Measured: memory[2] / memory[1], AtMost: 1.1,
			Note: fmt.Sprintf("RSS of the engine without the file: %.0f, %.0f and %.0f MiB at 10, 50 and 100 %%", memory[0], memory[1], memory[2]),
		},
	}, nil
}

// now returns the time of the clock of the store.
func (s *soak) now() time.Time { return s.begun.Add(time.Duration(s.done.Load()) * soakInterval) }

// run processes the tasks, and returns the memory in MiB at 10, 50 and 100 % of them.
func (s *soak) run(ctx context.Context, progress *log.Logger) (memory []float64, err error) {
	g := chain(soakNodes)
	steps := map[graph.NodeID]workflow.Step{}
	for _, n := range g.Nodes {
		steps[n.ID] = soakStep{}
	}
	if s.engine, err = workflow.New(s.db, workflow.Observer{
		Broken:   func(queue string, err error) { s.broken <- fmt.Errorf("queue %s: %w", queue, err) },
		Recorded: s.recorded,
	}, workflow.Implementation{Graph: g, Steps: steps}); err != nil {
		return nil, err
	}
	if err := s.engine.Start(func(*store.Tx) ([]workflow.Event, error) { return nil, nil }); err != nil {
		return nil, err
	}
	defer s.engine.Stop()
	for q := range soakQueues {
		s.ended <- fmt.Sprint("q", q)
	}
	trimmed := s.now()
	marks := []int{s.tasks / 10, s.tasks / 2, s.tasks}
	for len(marks) > 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case err := <-s.broken:
			return nil, err
		case queue := <-s.ended:
			if err := s.raise(queue); err != nil {
				return nil, err
			}
		}
		if s.now().Sub(trimmed) >= soakTrim {
			trimmed = s.now()
			if err := s.trim(); err != nil {
				return nil, err
			}
		}
		if s.done.Load() >= int64(marks[0]) {
			used, err := anonymousMemory()
			if err != nil {
				return nil, err
			}
			progress.Printf("%d tasks, %.0f MiB", s.done.Load(), used)
			memory, marks = append(memory, used), marks[1:]
		}
	}
	return memory, nil
}

// raise adds an event to the given queue. The event begins a run of soakNodes tasks.
func (s *soak) raise(queue string) error {
	return s.db.Update(func(tx *store.Tx) error { return s.engine.Raise(tx, workflow.Event{On: "go", Queue: queue}) })
}

// recorded is called with the history record r of each ended task, and counts the task. If the task is the last of its
// run, the function sends the name of its queue to s.ended.
func (s *soak) recorded(r store.Record) {
	s.done.Add(1)
	if r.Node == lastNode(soakNodes) {
		s.ended <- r.Queue // the channel has room, because each queue has at most one run
	}
}

// trim removes history that is older than soakHistory, in transactions of bounded size.
func (s *soak) trim() error {
	const piece = 2000
	for more := true; more; {
		if err := s.db.Update(func(tx *store.Tx) (err error) {
			_, more, err = store.TrimHistory(tx, tx.Now().Add(-soakHistory), 0, piece)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// A soakStep does nothing.
type soakStep struct{}

// Do implements workflow.Step.
func (soakStep) Do(context.Context, workflow.Task) (workflow.Outcome, error) {
	return workflow.Outcome{}, nil
}

// chain returns a graph of n nodes, one after the other.
func chain(n int) *graph.Graph {
	g := &graph.Graph{Name: "soak", Doc: "a chain of tasks", Triggers: map[graph.Trigger]string{"go": "the soak goes on"}}
	for i := range n {
		g.Nodes = append(g.Nodes, graph.Node{ID: graph.NodeID(fmt.Sprint("n", i)), Number: strconv.Itoa(i + 1), Doc: "do nothing"})
		if i == 0 {
			g.Edges = append(g.Edges, graph.Edge{On: "go", To: "n0", Place: graph.BindingQueue})
			continue
		}
		g.Edges = append(g.Edges, graph.Edge{From: g.Nodes[i-1].ID, To: g.Nodes[i].ID})
	}
	return g
}

// lastNode returns the ID of the last node in a chain of n nodes.
func lastNode(n int) string { return fmt.Sprint("n", n-1) }

// anonymousMemory collects garbage, and returns the resident memory of this process that is not mapped from a file,
// in MiB.
func anonymousMemory() (mib float64, err error) {
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			var kib float64
			_, err = fmt.Sscan(text, &kib)
			return kib / 1024, err
		}
	}
	return 0, errors.New("/proc/self/status has no RssAnon")
}
