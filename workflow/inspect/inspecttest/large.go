// Package inspecttest fills stores with many records, for benchmarks of the commands that people use.
package inspecttest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A Size is the size of an operator's store.
type Size struct {
	Modules  int // each has two hooks
	Runs     int // ended runs; the first is a converge of all modules
	Attempts int // in the history
	Events   int // waiting events, each in a run of its own
}

// Large is the size for which response times are measured.
var Large = Size{Modules: 500, Runs: 40_000, Attempts: 100_000, Events: 100_000}

// Hooks are the names of the hooks of each module. The first hook of a module runs before Helm, and
// the second hook runs for events.
var Hooks = []string{"hooks/run.sh", "hooks/watch.sh"}

const (
	batch        = 5000 // number of calls of [part.write] in one transaction
	queues       = 8    // queues that bindings use
	storm        = 4    // one out of this number of events belongs to one and the same binding
	inARow       = 100  // number of consecutive runs of one binding
	failsOnce    = 20   // one out of this number of attempts failed
	changesOnce  = 10   // one out of this number of attempts changed values
	convergeEach = 5    // number of attempts of each module in a converge
	printed      = "compared the certificates in the Secret with those that are requested, and found no difference\n"
)

// Module returns the name of module i.
func Module(i int) string { return fmt.Sprintf("module-%03d", i) }

// Fill writes the records of an operator of the given size into an empty store. The records are the same
// at each call, except for their times. The history ends at the current time of the store's clock.
func Fill(db *store.DB, size Size) error {
	f := newFiller(db, size)
	return f.write(part{1, f.start}, part{size.Modules, f.module}, part{size.Runs, f.run}, part{size.Attempts, f.attempt}, part{size.Events, f.event})
}

// FillHistory writes only the history of an operator of the given size into an empty store. FillHistory writes no
// start, no modules and no events. An operator that starts with the store continues the history.
func FillHistory(db *store.DB, size Size) error {
	f := newFiller(db, size)
	return f.write(part{size.Runs, f.run}, part{size.Attempts, f.attempt})
}

func newFiller(db *store.DB, size Size) *filler {
	return &filler{db: db, Size: size, began: db.Now().Add(-time.Duration(size.Attempts) * time.Second)}
}

// A part writes the records of n modules, runs, attempts or events: write is called with each i from 0 to n-1.
type part struct {
	n     int
	write func(tx *store.Tx, i int) error
}

// A filler fills a store.
type filler struct {
	Size
	db    *store.DB
	began time.Time // start of the history
}

// write writes the records of parts in order.
func (f *filler) write(parts ...part) error {
	for _, p := range parts {
		if err := f.each(p.n, p.write); err != nil {
			return err
		}
	}
	return nil
}

// The function each calls the function write n times, in several transactions of bounded size.
func (f *filler) each(n int, write func(tx *store.Tx, i int) error) error {
	for from := 0; from < n; from += batch {
		if err := f.db.Update(func(tx *store.Tx) error {
			for i := from; i < min(from+batch, n); i++ {
				if err := write(tx, i); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// start writes the start of the operator, and records that run 1 has converged.
func (f *filler) start(tx *store.Tx, _ int) error {
	enabled := make([]string, f.Modules)
	for i := range enabled {
		enabled[i] = Module(i)
	}
	if err := store.AddStart(tx, "1.0.0", "addon-operator-0"); err != nil {
		return err
	}
	return store.Save(tx, store.StartupKey(), store.Startup{
		StartRun: 1, Epoch: tx.Epoch(), Converged: 1, ConvergedAt: f.began.Add(time.Hour), ConvergedIn: tx.Epoch(), Enabled: enabled,
	})
}

// module writes module i, its release, its hooks and their bindings.
func (f *filler) module(tx *store.Tx, i int) error {
	name := Module(i)
	objects := []store.Object{{APIVersion: "v1", Kind: "ConfigMap", Name: name}, {APIVersion: "apps/v1", Kind: "Deployment", Name: name}}
	for key, record := range map[string]any{
		string(store.ModuleKey(name)): store.Module{
			Order: i, State: store.On, RanInStart: 1, RanIn: 1, RanAt: f.began.Add(time.Hour), Enabled: true, Why: "enabled by modules/values.yaml",
			DecidedIn: 1, DecidedAt: f.began,
		},
		string(store.ReleaseKey(name)):                       store.Release{Revision: i + 1, Objects: objects},
		string(store.HookKey(name, Hooks[0])):                store.Hook{Config: json.RawMessage(`{"ordered":{"beforeHelm":10}}`)},
		string(store.HookKey(name, Hooks[1])):                store.Hook{Config: json.RawMessage(`{"kubernetes":[{"name":"pods","kind":"Pod"}],"schedule":[{"name":"hourly"}]}`)},
		string(store.BindingKey(name, Hooks[1], "pods")):     store.Binding{Kind: store.Kubernetes, Config: json.RawMessage(`{"name":"pods","kind":"Pod"}`), Queue: queueOf(i), SyncedIn: 1, AttachedInStart: 1},
		string(store.BindingKey(name, Hooks[1], "schedule")): store.Binding{Kind: store.Schedule, Config: json.RawMessage(`{"name":"hourly","crontab":"0 * * * *"}`), Queue: queueOf(i), SyncedIn: 1, AttachedInStart: 1},
	} {
		if err := store.Save(tx, store.Key(key), record); err != nil {
			return err
		}
	}
	return nil
}

// queueOf returns the queue of the bindings of module i.
func queueOf(i int) string { return fmt.Sprintf("queue-%d", i%queues) }

// at returns the time of attempt i.
func (f *filler) at(i int) time.Time { return f.began.Add(time.Duration(i) * time.Second) }

// converge returns the number of attempts of the first run, which is a converge.
func (f *filler) converge() int { return min(convergeEach*f.Modules, f.Attempts) }

// runOf returns the number of the run of attempt i. All runs after the first have about the same number of attempts.
func (f *filler) runOf(i int) int {
	events := f.Attempts - f.converge()
	if i < f.converge() || f.Runs == 1 {
		return 1
	}
	return 2 + (i-f.converge())*(f.Runs-1)/events
}

// run writes the record of an ended run. Run 1 (i is 0) is a converge; the others began with an event.
func (f *filler) run(tx *store.Tx, i int) error {
	began := f.at(f.Attempts * i / f.Runs)
	w := store.Run{ID: uint64(i + 1), Graph: lifecycle.Graph.Name, Trigger: string(lifecycle.OnStart), Began: began, Ended: began.Add(5 * time.Second)} //nolint:gosec // the number is small
	if i > 0 {
		w.Trigger, w.Subject = string(lifecycle.OnModuleKubeEvent), f.watcher(i/inARow)
		w.Cause = store.Cause{Object: fmt.Sprintf("Pod default/pod-%d", i), Event: "Modified", ResourceVersion: "17", Manager: "kubelet"}
	}
	return store.Save(tx, store.RunKey(w.ID), w)
}

// watcher returns the kubernetes binding of the second hook of a module.
func (f *filler) watcher(module int) graph.Subject {
	return graph.Subject{Module: Module(module % f.Modules), Hook: Hooks[1], Binding: "pods"}
}

// attempt writes the line of history of attempt i.
func (f *filler) attempt(tx *store.Tx, i int) error {
	run := f.runOf(i)
	r := store.Record{
		Run: uint64(run), Task: store.ID{Epoch: tx.Epoch(), N: tx.NextID()}, Node: string(lifecycle.ModuleKubernetesEvent), //nolint:gosec // the number is small
		Subject: f.watcher((run - 1) / inARow), Queue: queueOf((run - 1) / inARow % f.Modules), State: store.Done, Queued: f.at(i), Began: f.at(i), Ended: f.at(i + 1), Try: 1,
		Output: strings.Repeat(printed, 2),
	}
	if run == 1 {
		r.Node, r.Queue = string(lifecycle.ModuleBeforeHelm), workflow.Main
		r.Subject = graph.Subject{Module: Module(i / convergeEach % f.Modules), Hook: Hooks[0]}
	}
	switch {
	case i%failsOnce == 0:
		r.State, r.Error = store.Failed, "exit status 1: cannot reach the server"
	case i%changesOnce == 1:
		r.Detail, r.Facts = "values changed", []string{string(lifecycle.ModuleChanged)}
	}
	return store.AddRecord(tx, r)
}

// event writes waiting event i, and its run. A few of the first events have failed. Many of the events
// belong to one binding.
func (f *filler) event(tx *store.Tx, i int) error {
	subject, queue := f.watcher(i), queueOf(i%f.Modules)
	if i%storm == 0 {
		subject, queue = f.watcher(0), queueOf(0)
	}
	run, name := uint64(f.Runs+i+1), fmt.Sprintf("pod-%d", i) //nolint:gosec // the number is small
	now := tx.Now()
	t := &store.Task{
		ID: store.ID{Epoch: tx.Epoch(), N: tx.NextID()}, Pos: store.Pos{Queue: queue, Slot: store.FirstSlot + uint64(i)}, Graph: lifecycle.Graph.Name, //nolint:gosec // the number is small
		Node: string(lifecycle.ModuleKubernetesEvent), Subject: subject, Run: run, Queued: now,
		Payload: fmt.Appendf(nil, `{"object":{"metadata":{"name":%q,"labels":{"app":"web","tier":"front"}},"status":{"phase":"Running","podIP":"10.0.0.1"}}}`, name),
		Object:  &store.ObjectRef{Event: "Modified", Kind: "Pod", Namespace: "default", Name: name, UID: fmt.Sprintf("00000000-0000-0000-0000-%012d", i), ResourceVersion: "17"},
	}
	if i > 0 && i <= queues {
		t.Failed = &store.Failure{Node: t.Node, Subject: subject, Count: 3, Error: "exit status 1: cannot reach the server", At: now, Since: now.Add(-time.Minute)}
		t.Due = now.Add(time.Hour)
	}
	if err := store.SaveTask(tx, t); err != nil {
		return err
	}
	return store.Save(tx, store.RunKey(run), store.Run{
		ID: run, Graph: lifecycle.Graph.Name, Trigger: string(lifecycle.OnModuleKubeEvent), Subject: subject, Began: now, Open: 1,
		Cause: store.Cause{Object: "Pod default/" + name, Event: "Modified", ResourceVersion: "17", Manager: "kubelet"},
	})
}
