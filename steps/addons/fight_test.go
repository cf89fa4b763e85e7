package addons

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/api"
	"addon-operator/internal/catalog"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
)

// An arena runs the steps of the graph that decide who owns an ID, on the engine and a store in memory.
// What the other steps read from the API server and the repositories is in its fields.
type arena struct {
	t      *testing.T
	memory *store.Memory
	r      *Runtime
	engine *workflow.Engine

	mu      sync.Mutex
	offers  map[string][]string // the IDs of each configuration that exists; guarded by mu
	changes map[string]int64    // its generation; guarded by mu
}

func newArena(t *testing.T) *arena {
	t.Helper()
	return &arena{t: t, memory: new(store.Memory), offers: map[string][]string{}, changes: map[string]int64{}}
}

// start starts an operator and raises an event for each configuration, as a first list does.
func (a *arena) start(names ...string) {
	a.t.Helper()
	db, err := store.OpenMemory(a.memory, store.Options{})
	if err != nil {
		a.t.Fatal(err)
	}
	a.r = &Runtime{DB: db}
	binding := a.r.Graph()
	binding.Steps[addons.ConfigurationChanged] = &arenaChanged{changedStep{a.r}, a}
	binding.Steps[addons.FetchRepositories] = arenaFetch{a}
	binding.Steps[addons.ReprocessFailed] = &arenaReprocess{reprocessStep{a.r}, a}
	binding.Steps[addons.ConfigurationStatus] = nothing{}
	binding.Steps[addons.RemoveFinalizer] = nothing{}
	if a.engine, err = workflow.New(db, workflow.Observer{Broken: func(queue string, err error) { a.t.Errorf("queue %q: %v", queue, err) }}, binding); err != nil {
		a.t.Fatal(err)
	}
	if err := a.engine.Start(func(*store.Tx) ([]workflow.Event, error) { return eventsOf(names), nil }); err != nil {
		a.t.Fatal(err)
	}
	synctest.Wait()
}

func (a *arena) stop() {
	a.t.Helper()
	a.engine.Stop()
	if err := a.r.DB.Check(); err != nil {
		a.t.Error(err)
	}
	if err := a.r.DB.Close(); err != nil {
		a.t.Error(err)
	}
}

func eventsOf(names []string) (events []workflow.Event) {
	for _, name := range names {
		events = append(events, workflow.Event{On: addons.OnConfiguration, Subject: store.Subject{Configuration: name}})
	}
	return events
}

// apply makes a configuration offer IDs, as a write to the API server does; with nil, it is deleted.
func (a *arena) apply(name string, ids []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes[name]++
	if a.offers[name] = ids; ids == nil {
		delete(a.offers, name)
	}
}

// raise tells the operator that configurations were changed.
func (a *arena) raise(names ...string) {
	a.t.Helper()
	if err := a.r.DB.Update(func(tx *store.Tx) error { return a.engine.Raise(tx, eventsOf(names)...) }); err != nil {
		a.t.Fatal(err)
	}
	synctest.Wait()
}

// phases returns the phase of each known configuration, and of each registered ID the owner.
func (a *arena) phases() (phases map[string]store.Phase, owners map[string]string) {
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

// arenaChanged reads configurations from the arena.
type arenaChanged struct {
	changedStep
	*arena
}

func (s *arenaChanged) Do(_ context.Context, t workflow.Task) (out workflow.Outcome, err error) {
	name := t.Subject.Configuration
	s.mu.Lock()
	_, exists := s.offers[name]
	generation := s.changes[name]
	s.mu.Unlock()
	if !exists {
		out.Facts = []graph.Fact{addons.Deleted}
		return out, nil
	}
	out.Facts = []graph.Fact{addons.Wanted}
	out.Data, err = json.Marshal(readConfiguration{UID: "uid", Generation: generation})
	return out, err
}

// arenaFetch stores one addon for each ID that the configuration offers.
type arenaFetch struct{ *arena }

func (s arenaFetch) Do(ctx context.Context, t workflow.Task) (out workflow.Outcome, err error) {
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
	return out, s.r.DB.Update(func(tx *store.Tx) error {
		return registry.SaveResult(tx, scopeOf(id), id.Name, known.Round, 0, result)
	})
}

// arenaReprocess changes a configuration of the arena, which raises an event.
type arenaReprocess struct {
	reprocessStep
	*arena
}

func (s *arenaReprocess) Do(context.Context, workflow.Task) (out workflow.Outcome, err error) {
	out.Effects = []workflow.Effect{{Kind: "increment reprocessRequest"}}
	return out, nil
}

func (s *arenaReprocess) Effect(_ context.Context, t workflow.Task, _ workflow.Effect) error {
	name := t.Subject.Configuration
	s.mu.Lock()
	ids, exists := s.offers[name]
	s.mu.Unlock()
	if !exists {
		return nil
	}
	s.apply(name, ids)
	return s.r.DB.Update(func(tx *store.Tx) error { return s.engine.Raise(tx, eventsOf([]string{name})...) })
}

type nothing struct{}

func (nothing) Do(context.Context, workflow.Task) (workflow.Outcome, error) {
	return workflow.Outcome{}, nil
}

// TestOneOfTwoConfigurationsOwnsAnIDAndHandsItOver is about two configurations that are processed at the same
// time, again and again: one owns the ID, until it is deleted or does not offer the ID any more. Then the other
// one does, also if that happens while no operator runs.
func TestOneOfTwoConfigurationsOwnsAnIDAndHandsItOver(t *testing.T) {
	t.Parallel()
	const rounds = 100
	for _, way := range []string{"deleted", "updated", "deleted before a restart", "updated before a restart"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newArena(t)
				a.start()
				defer func() { a.stop() }()
				won := map[string]int{}
				for i := range rounds {
					names := []string{"one", "two"}
					if i%2 == 1 {
						slices.Reverse(names)
					}
					for _, name := range names {
						a.apply(name, []string{"X"})
					}
					a.raise(names...)
					winner, loser := a.verdict(i)
					won[winner]++
					next := map[string][]string{"deleted": nil, "deleted before a restart": nil, "updated": {}, "updated before a restart": {}}[way]
					if way == "deleted" || way == "updated" {
						a.apply(winner, next)
						a.raise(winner)
					} else {
						a.stop()
						a.apply(winner, next)
						a.start(winner)
					}
					phases, owners := a.phases()
					want := map[string]store.Phase{loser: store.PhaseReady}
					if next != nil {
						want[winner] = store.PhaseReady
					}
					if diff := cmp.Diff(want, phases) + cmp.Diff(map[string]string{"X": loser}, owners); diff != "" {
						t.Fatalf("round %d, after the winner was %s (-want +got):\n%s", i, way, diff)
					}
					for _, name := range names {
						a.apply(name, nil)
					}
					a.raise(names...)
					if phases, owners := a.phases(); len(phases)+len(owners) > 0 {
						t.Fatalf("round %d leaves %v %v", i, phases, owners)
					}
				}
				t.Logf("won: %v", won)
			})
		})
	}
}

// verdict returns who owns the ID and who does not, for the right reason.
func (a *arena) verdict(i int) (winner, loser string) {
	a.t.Helper()
	phases, owners := a.phases()
	winner, loser = owners["X"], "one"
	if winner == "one" {
		loser = "two"
	}
	want := map[string]store.Phase{winner: store.PhaseReady, loser: store.PhaseFailed}
	if diff := cmp.Diff(want, phases); diff != "" || len(owners) != 1 {
		a.t.Fatalf("round %d: owners %v, phases (-want +got):\n%s", i, owners, diff)
	}
	_, results, err := a.r.results(api.Identity{Name: loser})
	if err != nil || api.Reason(results[0].Addons[0].Reason) != api.ConflictWithAlreadyRegisteredAddon {
		a.t.Fatalf("round %d: the loser has %s: %v", i, fmt.Sprint(results), err)
	}
	return winner, loser
}
