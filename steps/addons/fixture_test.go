package addons

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"addon-operator/internal/api"
	"addon-operator/internal/catalog"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
)

// A fixture runs the steps of the graph that decide the owner of an ID, with the engine and a store in memory. Its
// fields replace the data that the real steps read from the API server and the repositories.
type fixture struct {
	t      *testing.T
	memory *store.Memory
	r      *Runtime
	engine *workflow.Engine
	// replace, if it is not nil, replaces further steps.
	replace func(steps map[graph.NodeID]workflow.Step)

	// crash is the number of the commit at which the operator is killed, counted over all operator processes of the
	// test; 0 means never. If behind is false, this commit fails. If behind is true, it succeeds, but the operator
	// gets an error.
	crash  int
	behind bool
	killed atomic.Bool // the running operator was killed and can commit nothing

	mu       sync.Mutex
	offers   map[string][]string   // IDs of the addons of each existing configuration, by its name; guarded by mu
	changes  map[string]int64      // generations of configurations, by name; guarded by mu
	statuses map[string]api.Status // statuses of configurations, by name; guarded by mu
}

var errKilled = errors.New("the operator is killed")

func newFixture(t *testing.T) *fixture {
	t.Helper()
	a := &fixture{t: t, memory: new(store.Memory), offers: map[string][]string{}, changes: map[string]int64{}, statuses: map[string]api.Status{}}
	a.memory.Before = func(n int) error { return a.commit(n, false) }
	a.memory.After = func(n int) error { return a.commit(n, true) }
	return a
}

// commit is called before and after each commit. It returns an error if the operator has already been killed, or is
// killed at this commit.
func (a *fixture) commit(n int, behind bool) error {
	if n == a.crash && behind == a.behind {
		a.killed.Store(true)
	}
	if a.killed.Load() {
		return errKilled
	}
	return nil
}

// start starts an operator. The operator first lists the configurations, and raises the events that firstList
// returns. If the operator is killed during this, start starts another one.
func (a *fixture) start() {
	a.t.Helper()
	for {
		a.killed.Store(false)
		err := a.tryStart()
		if err == nil && !a.killed.Load() {
			return
		}
		if !a.killed.Load() {
			a.t.Fatal(err)
		}
		a.stop()
	}
}

func (a *fixture) tryStart() error {
	a.r, a.engine = nil, nil
	db, err := store.OpenMemory(a.memory, store.Options{})
	if err != nil {
		return err
	}
	a.r = &Runtime{DB: db}
	implementation := a.r.Implementation()
	implementation.Steps[addons.ConfigurationChanged] = &fixtureChanged{changedStep{a.r}, a}
	implementation.Steps[addons.FetchRepositories] = &fixtureFetch{fetchStep{a.r}, a}
	implementation.Steps[addons.ReprocessFailed] = &fixtureReprocess{reprocessStep{a.r}, a}
	implementation.Steps[addons.ConfigurationStatus] = fixtureStatus{a}
	implementation.Steps[addons.RemoveFinalizer] = nothing{}
	if a.replace != nil {
		a.replace(implementation.Steps)
	}
	observer := workflow.Observer{Broken: func(queue string, err error) {
		if !a.killed.Load() {
			a.t.Errorf("queue %q: %v", queue, err)
		}
	}}
	if a.engine, err = workflow.New(db, observer, implementation); err != nil {
		return err
	}
	err = a.engine.Start(a.firstList)
	synctest.Wait()
	return err
}

// firstList returns the events that an operator raises when it has listed the configurations for the first time: one
// for each configuration that must be processed or is deleted.
func (a *fixture) firstList(tx *store.Tx) ([]workflow.Event, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := map[string]store.Configuration{}
	var names []string
	for c, err := range registry.Configurations(tx) {
		if err != nil {
			return nil, err
		}
		known[c.Name] = c.Configuration
		if _, exists := a.offers[c.Name]; !exists {
			names = append(names, c.Name)
		}
	}
	for name := range a.offers {
		c, status := known[name], a.statuses[name]
		_, busy, err := store.Head(tx, graph.Subject{Configuration: name}.Queue())
		if err != nil {
			return nil, err
		}
		written := string(status.Phase) == string(c.Phase) && status.ObservedGeneration == c.Generation
		if c.Generation != a.changes[name] || c.Phase == store.PhasePending || !written && !busy {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return eventsOf(names), nil
}

// stop ends the operator and checks its store.
func (a *fixture) stop() {
	a.t.Helper()
	if a.engine != nil {
		a.engine.Stop()
	}
	if a.r != nil && !a.killed.Load() {
		if err := a.r.DB.Check(); err != nil {
			a.t.Error(err)
		}
	}
	if a.r != nil {
		if err := a.r.DB.Close(); err != nil {
			a.t.Error(err)
		}
	}
}

func eventsOf(names []string) (events []workflow.Event) {
	for _, name := range names {
		events = append(events, workflow.Event{On: addons.OnConfiguration, Subject: graph.Subject{Configuration: name}})
	}
	return events
}

// apply makes a configuration offer addons with these IDs. It simulates a write to the API server and raises no
// event. If ids is nil, apply deletes the configuration.
func (a *fixture) apply(name string, ids []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes[name]++
	if a.offers[name] = ids; ids == nil {
		delete(a.offers, name)
		delete(a.statuses, name)
	}
}

// raise raises the events of changed configurations. If the operator is killed at one of the resulting commits, raise
// starts another operator.
func (a *fixture) raise(names ...string) {
	a.t.Helper()
	err := a.r.DB.Update(func(tx *store.Tx) error { return a.engine.Raise(tx, eventsOf(names)...) })
	synctest.Wait()
	if a.killed.Load() {
		a.stop()
		a.start()
	} else if err != nil {
		a.t.Fatal(err)
	}
}

// phases returns the phase of each known configuration, and the owner of each registered ID.
func (a *fixture) phases() (phases map[string]store.Phase, owners map[string]string) {
	a.t.Helper()
	phases, owners = map[string]store.Phase{}, map[string]string{}
	if err := a.r.DB.View(func(tx *store.Tx) error {
		for c, err := range registry.Configurations(tx) {
			if err != nil {
				return err
			}
			phases[c.Name] = c.Phase
		}
		for addon, err := range registry.All(tx) {
			if err != nil {
				return err
			}
			owners[addon.ID] = addon.Configuration
		}
		return nil
	}); err != nil {
		a.t.Fatal(err)
	}
	return phases, owners
}

// fixtureChanged replaces changedStep. It reads the configuration from the fixture.
type fixtureChanged struct {
	changedStep
	*fixture
}

func (s *fixtureChanged) Do(_ context.Context, t workflow.Task) (out workflow.Outcome, err error) {
	known, err := s.record(identityOf(t))
	if err != nil {
		return out, err
	}
	name := t.Subject.Configuration
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.offers[name]; !exists {
		out.Facts = []graph.Fact{addons.Deleted}
		return out, nil
	}
	live := &api.Configuration{Status: s.statuses[name]}
	live.UID, live.Generation, live.Finalizers = "uid", s.changes[name], []string{api.Finalizer}
	if out.Data, err = json.Marshal(readConfiguration{UID: live.UID, Generation: live.Generation}); err != nil {
		return out, err
	}
	if out.Detail = needsNoRound(known, live, s.r.DB.Now()); out.Detail == "" {
		out.Facts = []graph.Fact{addons.Wanted}
	} else {
		out.Effects = restorations(known, live, out.Data)
	}
	return out, nil
}

func (s *fixtureChanged) Effect(ctx context.Context, t workflow.Task, e workflow.Effect) error {
	return fixtureStatus{s.fixture}.Effect(ctx, t, e)
}

// fixtureFetch replaces fetchStep. It stores one addon for each ID that the configuration offers.
type fixtureFetch struct {
	fetchStep
	*fixture
}

func (s *fixtureFetch) Do(ctx context.Context, t workflow.Task) (out workflow.Outcome, err error) {
	id := identityOf(t)
	s.mu.Lock()
	ids := slices.Clone(s.offers[id.Name])
	s.mu.Unlock()
	known, err := s.r.record(id)
	if err != nil {
		return out, err
	}
	result := store.RepositoryResult{URL: "https://h/" + id.Name}
	for _, addon := range ids {
		content := registry.Parsed{Name: registry.ContentName(addon), Loaded: &catalog.Loaded{
			Addon:   catalog.Addon{ID: addon, Name: addon, Version: "1.0.0", Chart: catalog.Chart{Name: "c", Version: "1.0.0", Digest: addon}},
			Archive: []byte(addon),
		}}
		if err := registry.Put(ctx, s.r.DB, store.RoundHolder(known.Round), content); err != nil {
			return out, err
		}
		result.Addons = append(result.Addons, store.AddonResult{Entry: addon, EntryVersion: "1.0.0", Content: content.Name})
	}
	out.Facts = []graph.Fact{addons.AllFetched}
	return out, s.r.DB.Update(func(tx *store.Tx) error {
		return registry.SaveResult(tx, scopeOf(id), id.Name, known.Round, 0, result)
	})
}

// fixtureReprocess replaces reprocessStep. It changes a configuration of the fixture and raises an event.
type fixtureReprocess struct {
	reprocessStep
	*fixture
}

func (s *fixtureReprocess) Do(context.Context, workflow.Task) (out workflow.Outcome, err error) {
	out.Effects = []workflow.Effect{{Kind: "increment reprocessRequest"}}
	return out, nil
}

func (s *fixtureReprocess) Effect(_ context.Context, t workflow.Task, _ workflow.Effect) error {
	name := t.Subject.Configuration
	s.mu.Lock()
	ids, exists := s.offers[name]
	s.mu.Unlock()
	if !exists {
		return nil
	}
	s.apply(name, ids)
	err := s.r.DB.Update(func(tx *store.Tx) error { return s.engine.Raise(tx, eventsOf([]string{name})...) })
	if s.killed.Load() {
		return nil // the change has been made; the next operator finds it in its first list
	}
	return err
}

// fixtureStatus replaces statusStep. It writes the status of a configuration to the fixture.
type fixtureStatus struct{ *fixture }

func (s fixtureStatus) Do(_ context.Context, t workflow.Task) (out workflow.Outcome, err error) {
	if known, err := s.r.record(identityOf(t)); err != nil || known.UID == "" {
		return workflow.Outcome{Facts: []graph.Fact{addons.Newer}}, err
	}
	out.Effects = []workflow.Effect{{Kind: writeStatus}}
	return out, nil
}

func (s fixtureStatus) Effect(_ context.Context, t workflow.Task, _ workflow.Effect) error {
	known, results, err := s.r.results(identityOf(t))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.offers[t.Subject.Configuration]; exists {
		s.statuses[t.Subject.Configuration] = statusOf(known, results)
	}
	return nil
}

type nothing struct{}

func (nothing) Do(context.Context, workflow.Task) (workflow.Outcome, error) {
	return workflow.Outcome{}, nil
}
