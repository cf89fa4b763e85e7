package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A smallOperator is a small model of the operator. A smallOperator runs the lifecycle graph, and
// its steps read and change state in the store and outside of the store, as the real steps do. A
// smallOperator can be killed at any commit. If it is killed, the next epoch continues its work. A
// smallOperator records all attempts of its steps.
type smallOperator struct {
	t      testing.TB
	mem    *store.Memory
	path   string // file of the store; if empty, the store is in mem
	script []moment
	follow []string // the modules, in the order of their runs
	width  int      // the number of modules that run in parallel
	// fails is the time, from the start of the first epoch, during which the release checks of the
	// third module fail. If fails is set, the engine has ContinueOnFailure, and afterAll has an
	// item.
	fails time.Duration
	built time.Time
	// newContainers is set if each epoch after the first runs in another container.
	newContainers bool

	mu       sync.Mutex
	db       *store.DB
	config   int              // version of the ConfigMap
	releases map[string]int   // deployed version of each module, outside of the store
	begun    map[attempt]int  // how often each attempt was begun
	open     map[attempt]int  // how often each attempt was interrupted by a crash
	cut      map[attempt]bool // attempts that were interrupted and have not begun again
	untold   map[attempt]bool // attempts that were begun again without being told of the interruption
	left     int              // number of commits until the crash; 0 means no crash
	behind   bool             // whether the crash comes after the commit
	dead     bool             // whether the process has been killed
	crashes  int

	// mark is called with a text for each raised event, each line of history, and each change
	// outside of the store. resume and lostMarks read these texts. mark can be nil.
	mark func(format string, args ...any)
}

// A moment is an event of the script, and the time at which it is raised. If config is set, the
// ConfigMap changes at the same time.
type moment struct {
	at     time.Duration
	event  workflow.Event
	config bool
}

// An attempt identifies an attempt of a step. An attempt may begin again only if a crash
// interrupted it, or if its run has returned to the node. In the second case, the history has one
// line for each time that the attempt ended.
type attempt struct {
	task    store.ID
	node    string
	subject graph.Subject
	try     int
}

var errKilled = errors.New("the process is killed")

func newSmallOperator(t testing.TB, modules []string, script ...moment) *smallOperator {
	t.Helper()
	return &smallOperator{
		t: t, mem: new(store.Memory), script: script, follow: modules, config: 1, built: time.Now(),
		releases: map[string]int{}, begun: map[attempt]int{}, open: map[attempt]int{},
		cut: map[attempt]bool{}, untold: map[attempt]bool{},
	}
}

// run runs one epoch until no work is pending, and returns true. If commit is not 0, the process is
// killed before the commit with this number, counted from 1 in this epoch, or after it if behind is
// set. In this case, run returns false, unless all work ends before this commit.
func (p *smallOperator) run(commit int, behind bool) (done bool) {
	p.t.Helper()
	p.mem.Before, p.mem.After = nil, nil
	db, err := p.openStore()
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.db, p.left, p.behind, p.dead = db, commit, behind, false
	p.mu.Unlock()
	p.mem.Before = func(int) error { return p.kill(false) }
	p.mem.After = func(int) error { return p.kill(true) }
	steps := map[graph.NodeID]workflow.Step{}
	for _, n := range lifecycle.Graph.Nodes {
		if !n.Junction && !n.JoinsRunning {
			steps[n.ID] = smallOperatorStep{p, n.ID}
		}
	}
	e, err := workflow.New(db, workflow.Observer{Recorded: p.recorded, Broken: func(queue string, err error) {
		if p.alive() {
			p.t.Errorf("queue %s: %v", queue, err)
		}
	}}, workflow.Implementation{Graph: lifecycle.Graph, Steps: steps})
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() {
		e.Stop()
		if err := db.Close(); err != nil {
			p.t.Error(err)
		}
		p.look(done)
	}()
	e.ContinueOnFailure, e.NewContainer = p.fails > 0, p.newContainers && p.crashes > 0
	begin, raised := time.Now(), make([]bool, len(p.script))
	if err := e.Start(p.begin); err != nil && p.alive() {
		p.t.Fatal(err)
	}
	for time.Since(begin) < time.Hour && p.alive() {
		p.raise(e, time.Since(begin), raised)
		time.Sleep(500 * time.Millisecond)
		if !slices.Contains(raised, false) && p.idle() {
			return true
		}
	}
	if p.alive() {
		p.t.Error("the small operator still has work after an hour")
	}
	return false
}

// openStore opens the store for a process.
func (p *smallOperator) openStore() (*store.DB, error) {
	if p.path != "" {
		return store.Open(p.path, store.Options{})
	}
	return store.OpenMemory(p.mem, store.Options{})
}

// read reads the store between two processes.
func (p *smallOperator) read(fn func(tx *store.Tx) error) {
	p.t.Helper()
	db, err := store.OpenMemory(p.mem.Clone(), store.Options{})
	if p.path != "" {
		db, err = store.OpenReadOnly(p.path, store.Options{})
	}
	if err != nil {
		p.t.Fatal(err)
	}
	if err := errors.Join(db.Check(), db.View(fn), db.Close()); err != nil {
		p.t.Errorf("after crash %d: %v", p.crashes, err)
	}
}

// recorded calls mark for a line of history.
func (p *smallOperator) recorded(r store.Record) {
	p.happened("recorded %v", attempt{r.Task, r.Node, r.Subject, r.Try})
}

// kill is called before each commit and, with behind set, after it. kill counts the commits, and kills
// the process if the crash must come at this point.
func (p *smallOperator) kill(behind bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errKilled
	}
	if p.left == 0 || behind != p.behind {
		return nil
	}
	if p.left--; p.left > 0 {
		return nil
	}
	p.dead = true
	p.crashes++
	return errKilled
}

func (p *smallOperator) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.dead
}

// look checks the store after an epoch, and records which attempts the crash interrupted.
func (p *smallOperator) look(done bool) {
	p.t.Helper()
	ended := map[attempt]int{}
	p.read(func(tx *store.Tx) error {
		for k := range tx.Range(store.At(store.History)) {
			r, _, err := store.Load[store.Record](tx, k)
			if err != nil {
				p.t.Error(err)
			}
			ended[attempt{r.Task, r.Node, r.Subject, r.Try}]++
		}
		for t := range store.AllTasks(tx) {
			if t.Journal {
				for a := range p.begun {
					if a.task == t.ID && a.node == t.Node {
						ended[a] = p.begun[a] - p.open[a] // the journal shows that these attempts have ended
					}
				}
			}
		}
		return nil
	})
	if done {
		return
	}
	for a := range p.begun {
		if p.begun[a] > ended[a]+p.open[a] {
			p.open[a]++
			p.cut[a] = true
		}
	}
}

// begin returns the events of a start: step 16, and a start run if there was none yet.
func (p *smallOperator) begin(tx *store.Tx) ([]workflow.Event, error) {
	events := []workflow.Event{on(lifecycle.OnConfigMap)}
	if p.get(tx, "begun") == 0 {
		p.put(tx, "begun", 1)
		events = append([]workflow.Event{on(lifecycle.OnStart)}, events...)
	}
	return events, nil
}

// raise raises the moments of the script whose time has come, unless the store says that they were
// raised before. For each moment that the store has, its element of raised is set.
func (p *smallOperator) raise(e *workflow.Engine, now time.Duration, raised []bool) {
	for i, m := range p.script {
		if raised[i] || m.at > now {
			continue
		}
		if m.config {
			p.mu.Lock()
			p.config = max(p.config, i+2)
			p.happened("config %d", p.config)
			p.mu.Unlock()
		}
		err := p.db.Update(func(tx *store.Tx) error {
			key := fmt.Sprint("moment ", i)
			if p.get(tx, key) != 0 {
				return nil
			}
			p.put(tx, key, 1)
			return e.Raise(tx, m.event)
		})
		if raised[i] = err == nil; raised[i] {
			p.happened("raised %d", i)
		}
	}
}

// happened calls mark, if it is set.
func (p *smallOperator) happened(format string, args ...any) {
	if p.mark != nil {
		p.mark(format, args...)
	}
}

// idle reports whether no task is queued or deferred.
func (p *smallOperator) idle() bool {
	idle := true
	err := p.db.View(func(tx *store.Tx) error {
		for range store.AllTasks(tx) {
			idle = false
			break
		}
		for range tx.Range(store.At(store.Deferred)) {
			idle = false
			break
		}
		return nil
	})
	return idle && err == nil
}

func (p *smallOperator) get(tx *store.Tx, key string) int {
	n, _, err := store.Load[int](tx, store.At(store.Values).Str(key))
	if err != nil {
		p.t.Error(err)
	}
	return n
}

func (p *smallOperator) put(tx *store.Tx, key string, n int) {
	if err := store.Save(tx, store.At(store.Values).Str(key), n); err != nil {
		p.t.Error(err)
	}
}

func (p *smallOperator) add(tx *store.Tx, key string) { p.put(tx, key, p.get(tx, key)+1) }

// values returns all values that the steps have written to the store, and the releases.
func (p *smallOperator) values() map[string]string {
	p.t.Helper()
	all := map[string]string{}
	p.read(func(tx *store.Tx) error {
		for k, v := range tx.Range(store.At(store.Values)) {
			all[k.String()] = string(v)
		}
		return nil
	})
	for m, v := range p.releases {
		all["release "+m] = strconv.Itoa(v)
	}
	return all
}

// again lists the attempts that have begun more often than they ended or were interrupted, and
// those that began again without being told of the interruption.
func (p *smallOperator) again() (wrong []string) {
	ended := p.ended()
	for a, n := range p.begun {
		if n > max(1, ended[a])+p.open[a] {
			wrong = append(wrong, fmt.Sprintf("%v was begun %d times, ended %d times and was interrupted %d times", a, n, ended[a], p.open[a]))
		}
		if p.untold[a] {
			wrong = append(wrong, fmt.Sprintf("%v was begun again without being told of the interruption", a))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// ended counts the lines of history of each attempt.
func (p *smallOperator) ended() map[attempt]int {
	p.t.Helper()
	ended := map[attempt]int{}
	p.read(func(tx *store.Tx) error {
		for k := range tx.Range(store.At(store.History)) {
			r, _, err := store.Load[store.Record](tx, k)
			if err != nil {
				return err
			}
			ended[attempt{r.Task, r.Node, r.Subject, r.Try}]++
		}
		return nil
	})
	return ended
}

// done counts the tasks that are done according to the history, by node and subject.
func (p *smallOperator) done() map[string]int {
	p.t.Helper()
	count := map[string]int{}
	p.read(func(tx *store.Tx) error {
		for k := range tx.Range(store.At(store.History)) {
			r, _, err := store.Load[store.Record](tx, k)
			if err != nil {
				return err
			}
			// Step 16 is not counted, because each process begins with it.
			if r.State == store.Done && r.Node != string(lifecycle.ConfigMapChanged) {
				count[name(r.Node, r.Subject)] += max(r.Merged, 1)
			}
		}
		return nil
	})
	return count
}

// A smallOperatorStep implements the step of one node.
type smallOperatorStep struct {
	p    *smallOperator
	node graph.NodeID
}

// took returns the duration of the step. The duration depends on the node and the subject, so that
// two steps rarely end at the same time.
func (s smallOperatorStep) took(t workflow.Task) time.Duration {
	d := 300 * time.Millisecond
	for _, c := range string(s.node) + t.Subject.Module + t.Subject.Hook {
		d += time.Duration(c) * time.Millisecond / 7
	}
	return d
}

func (s smallOperatorStep) Do(ctx context.Context, t workflow.Task) (out workflow.Outcome, err error) {
	p := s.p
	p.mu.Lock()
	a := attempt{t.ID, t.Node, t.Subject, t.Try}
	p.begun[a]++
	p.untold[a] = p.untold[a] || p.cut[a] && t.Previous != workflow.Interrupted
	p.cut[a] = false
	p.mu.Unlock()
	select {
	case <-time.After(s.took(t)):
	case <-ctx.Done():
		return out, ctx.Err()
	}
	if t.Subject.Hook == "flaky" && t.Try == 1 && (p.fails == 0 || t.Subject.Module != p.follow[2]) {
		return out, errors.New("the first attempt always fails")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s.node {
	case lifecycle.DiscoverModules:
		return p.discover()
	case lifecycle.ReleaseCheck:
		if t.Subject.Module == p.follow[2] && time.Since(p.built) < p.fails {
			return out, errors.New("the release cannot be checked yet")
		}
		if p.releases[t.Subject.Module] != p.config {
			out.Facts = []graph.Fact{lifecycle.Outdated}
		}
	case lifecycle.ReleaseUpgrade:
		data := json.RawMessage(strconv.Itoa(p.config))
		out.Effects = []workflow.Effect{{Kind: "look", Data: data}, {Kind: "upgrade", Data: data}}
	case lifecycle.ReleaseDelete, lifecycle.ModulePurge:
		p.happened("release %s 0", t.Subject.Module)
		delete(p.releases, t.Subject.Module)
	}
	return out, nil
}

// discover returns the enabled and disabled modules. The last module is disabled from the second
// config on.
func (p *smallOperator) discover() (workflow.Outcome, error) {
	lists := map[graph.FanOut][]graph.Item{}
	for _, m := range p.follow {
		list := lifecycle.Enabled
		if !p.wanted(m) {
			list = lifecycle.Disabled
		}
		lists[list] = append(lists[list], graph.Item{Subject: graph.Subject{Module: m}, Group: "all", Width: p.width})
	}
	return workflow.Outcome{Items: lists}, nil
}

func (p *smallOperator) wanted(module string) bool {
	return p.config == 1 || module != p.follow[len(p.follow)-1]
}

func (s smallOperatorStep) Effect(ctx context.Context, t workflow.Task, e workflow.Effect) error {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.p.dead {
		return errKilled
	}
	if e.Kind == "upgrade" {
		s.p.happened("release %s %s", t.Subject.Module, e.Data)
		return json.Unmarshal(e.Data, ptr(s.p.releases, t.Subject.Module))
	}
	return nil
}

// ptr returns a JSON target that assigns the decoded int to m[key].
func ptr(m map[string]int, key string) *assign { return &assign{m, key} }

type assign struct {
	m   map[string]int
	key string
}

func (a *assign) UnmarshalJSON(b []byte) (err error) {
	a.m[a.key], err = strconv.Atoi(string(b))
	return err
}

func (s smallOperatorStep) Items(tx *store.Tx, t workflow.Task) (items []graph.Item, note json.RawMessage, err error) {
	subject := func(hook string) graph.Subject { return graph.Subject{Module: t.Subject.Module, Hook: hook} }
	switch s.node {
	case lifecycle.ModuleSynchronization:
		return []graph.Item{
			{Subject: subject("here")},
			{Subject: subject("there"), Queue: "q-" + t.Subject.Module, Wait: true},
			{Subject: subject("free"), Queue: "q-free"},
		}, nil, nil
	case lifecycle.ModuleBeforeHelm:
		return []graph.Item{{Subject: subject("a")}, {Subject: subject("flaky")}}, nil, nil
	case lifecycle.GlobalSynchronization:
		return []graph.Item{{Subject: subject("there"), Queue: "q-global", Wait: true}}, nil, nil
	case lifecycle.GlobalAfterAll:
		if s.p.fails > 0 {
			return []graph.Item{{Subject: subject("a")}}, nil, nil
		}
		return nil, nil, nil
	}
	return []graph.Item{{Subject: subject("a")}, {Subject: subject("b"), AllowFailure: true}}, nil, nil
}

func (s smallOperatorStep) Apply(tx *store.Tx, t workflow.Task, out workflow.Outcome) ([]graph.Fact, error) {
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	m := t.Subject.Module
	switch s.node {
	case lifecycle.ModuleRun:
		switch {
		case !p.wanted(m):
			return nil, nil
		case p.get(tx, "started "+m) == 0:
			return []graph.Fact{lifecycle.JustEnabled}, nil
		}
		return []graph.Fact{lifecycle.AlreadyStarted}, nil
	case lifecycle.ModuleDelete:
		if p.wanted(m) || p.get(tx, "off "+m) != 0 {
			return nil, nil
		}
		return []graph.Fact{lifecycle.Unwanted}, nil
	case lifecycle.ConfigMapChanged:
		if p.get(tx, "config") == p.config {
			return nil, nil
		}
		first := p.get(tx, "config") == 0
		p.put(tx, "config", p.config)
		if first {
			return nil, nil
		}
		return []graph.Fact{lifecycle.GlobalChanged}, nil
	case lifecycle.ModuleKubernetesEvent, lifecycle.ModuleScheduleEvent:
		var facts []graph.Fact
		for _, task := range t.Batch {
			p.add(tx, "seen "+string(task.Payload))
			if string(task.Payload) == `"change"` {
				facts = append(facts, lifecycle.ModuleChanged)
			}
		}
		return facts, nil
	case lifecycle.GlobalAfterAll:
		p.put(tx, "released before afterAll", len(p.releases))
	case lifecycle.ModuleOnStartup, lifecycle.ModuleSynchronization, lifecycle.GlobalOnStartup, lifecycle.GlobalSynchronization:
		p.add(tx, name(t.Node, t.Subject))
	}
	return nil, nil
}

func (s smallOperatorStep) End(tx *store.Tx, t workflow.Task, facts []graph.Fact) ([]graph.Fact, error) {
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	m := t.Subject.Module
	switch s.node {
	case lifecycle.ModuleAfterHelm:
		p.put(tx, "started "+m, 1)
		if m == p.follow[1] && p.get(tx, "changed "+m) < 3 {
			p.add(tx, "changed "+m)
			return []graph.Fact{lifecycle.ModuleChanged}, nil
		}
	case lifecycle.ModuleAfterDelete:
		p.put(tx, "off "+m, 1)
		p.put(tx, "started "+m, 0)
	}
	return nil, nil
}
