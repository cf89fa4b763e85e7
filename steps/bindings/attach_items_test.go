package bindings_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/steps/bindings"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow/graph"
)

// attachItems attaches the bindings of the hook hooks/h of module m with this configuration, and
// returns the items of the Synchronizations that must run.
func attachItems(t *testing.T, db *store.DB, config string) (items []graph.Item) {
	t.Helper()
	parsed, err := hook.Load(hook.Module, []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	update(t, db, func(tx *store.Tx) (err error) {
		items, err = bindings.Attach(tx, "m", []bindings.Hook{{File: hook.File{Name: "hooks/h"}, Config: parsed}})
		return err
	})
	return items
}

// attach is like attachItems, but returns the items as texts.
func attach(t *testing.T, db *store.DB, config string) (items []string) {
	t.Helper()
	for _, item := range attachItems(t, db, config) {
		items = append(items, fmt.Sprintf("%s in %s, wait %t, allow %t", item.Subject.Binding, item.Queue, item.Wait, item.AllowFailure))
	}
	return items
}

// synchronized ends the Synchronization of a binding of hooks/h. The Synchronization has delivered
// no objects.
func synchronized(t *testing.T, db *store.DB, binding string) {
	t.Helper()
	update(t, db, func(tx *store.Tx) error {
		_, err := bindings.Synchronized(tx, graph.Subject{Module: "m", Hook: "hooks/h", Binding: binding}, nil)
		return err
	})
}

// start simulates a start of the operator. The argument n is the number of the start run.
func start(t *testing.T, db *store.DB, n uint64) {
	t.Helper()
	update(t, db, func(tx *store.Tx) error { return store.Save(tx, store.StartupKey(), store.Startup{StartRun: n}) })
}

func TestOneBindingOfAGroupAndQueueIsSynchronized(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	start(t, db, 1)
	items := attach(t, db, `{"configVersion": "v1", "kubernetes": [
		{"name": "silent", "kind": "Pod", "group": "g", "executeHookOnSynchronization": false},
		{"name": "pods", "kind": "Pod", "group": "g", "allowFailure": true},
		{"name": "nodes", "kind": "Node", "group": "g", "waitForSynchronization": false},
		{"name": "quiet", "kind": "Pod", "group": "g", "executeHookOnSynchronization": false},
		{"name": "other", "kind": "Pod", "group": "g", "queue": "/q", "waitForSynchronization": false},
		{"name": "maps", "kind": "ConfigMap"},
		{"name": "maps", "kind": "ConfigMap"}
	]}`)
	want := []string{
		"silent in main, wait true, allow false", "pods in main, wait true, allow true",
		"quiet in main, wait true, allow false", "other in /q, wait false, allow false",
		"maps in main, wait true, allow false", "maps#2 in main, wait true, allow false",
	}
	if diff := cmp.Diff(want, items); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
}

func TestConvergeWaitsForTheSynchronizationOfAGroupIfOneOfItsBindingsAsksForThat(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	start(t, db, 1)
	const config = `{"configVersion": "v1", "kubernetes": [
		{"name": "pods", "kind": "Pod", "group": "g", "queue": "/q", "waitForSynchronization": false},
		{"name": "nodes", "kind": "Node", "group": "g", "queue": "/q"},
		{"name": "maps", "kind": "ConfigMap", "group": "g", "queue": "/q", "waitForSynchronization": false}
	]}`
	items := attach(t, db, config)
	if diff := cmp.Diff([]string{"pods in /q, wait true, allow false"}, items); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	synchronized(t, db, "pods")
	items = attach(t, db, strings.ReplaceAll(config, "Pod", "Secret"))
	if diff := cmp.Diff([]string{"pods in /q, wait false, allow false"}, items); diff != "" {
		t.Errorf("items after only another binding has changed (-want +got):\n%s", diff)
	}
}

func TestSynchronizationOfAGroupIsThatOfItsBindingsInTheQueue(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	start(t, db, 1)
	const config = `{"configVersion": "v1", "kubernetes": [
		{"name": "pods", "kind": "Pod", "group": "g"}, {"name": "nodes", "kind": "Node", "group": "g"},
		{"name": "other", "kind": "Pod", "group": "g", "queue": "/q"}, {"name": "maps", "kind": "ConfigMap"}
	]}`
	attach(t, db, config)
	synchronized(t, db, "pods")
	want := []string{"other in /q, wait true, allow false", "maps in main, wait true, allow false"}
	if diff := cmp.Diff(want, attach(t, db, config)); diff != "" {
		t.Errorf("items after the Synchronization (-want +got):\n%s", diff)
	}
	start(t, db, 2)
	want = append([]string{"pods in main, wait true, allow false"}, want...)
	if diff := cmp.Diff(want, attach(t, db, config)); diff != "" {
		t.Errorf("items in the next start (-want +got):\n%s", diff)
	}
}

func TestABindingIsSynchronizedAgainWhenItWasChangedOrDetached(t *testing.T) {
	t.Parallel()
	const config = `{"configVersion": "v1", "kubernetes": [{"name": "pods", "kind": "Pod"}]}`
	for name, c := range map[string]struct {
		next   string
		detach bool
		items  []string
	}{
		"unchanged": {next: config},
		"changed":   {next: `{"configVersion": "v1", "kubernetes": [{"name": "pods", "kind": "Node"}]}`, items: []string{"pods in main, wait true, allow false"}},
		"detached":  {next: config, detach: true, items: []string{"pods in main, wait true, allow false"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Memory(t)
			start(t, db, 1)
			attach(t, db, config)
			synchronized(t, db, "pods")
			if c.detach {
				update(t, db, func(tx *store.Tx) error { return bindings.Detach(tx, "m") })
			}
			if diff := cmp.Diff(c.items, attach(t, db, c.next)); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnItemIsChangedIfOneOfItsBindingsHasChanged(t *testing.T) {
	t.Parallel()
	const (
		alone = `{"name": "alone", "kind": "Pod"}`
		pods  = `{"name": "pods", "kind": "Pod", "group": "g"}`
		nodes = `{"name": "nodes", "kind": "Node", "group": "g"}`
	)
	list := func(bindings ...string) string {
		return `{"configVersion": "v1", "kubernetes": [` + strings.Join(bindings, ",") + `]}`
	}
	for name, c := range map[string]struct {
		next string
		want map[string]bool
	}{
		"nothing":              {list(alone, pods, nodes), map[string]bool{"alone": false, "pods": false}},
		"a binding":            {list(`{"name": "alone", "kind": "Secret"}`, pods, nodes), map[string]bool{"alone": true, "pods": false}},
		"a binding's queue":    {list(`{"name": "alone", "kind": "Pod", "queue": "/q"}`, pods, nodes), map[string]bool{"alone": true, "pods": false}},
		"the second of group":  {list(alone, pods, `{"name": "nodes", "kind": "Secret", "group": "g"}`), map[string]bool{"alone": false, "pods": true}},
		"a group with another": {list(alone, pods, nodes, `{"name": "maps", "kind": "ConfigMap", "group": "g"}`), map[string]bool{"alone": false, "pods": true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Memory(t)
			start(t, db, 1)
			for _, item := range attachItems(t, db, list(alone, pods, nodes)) {
				if !item.Changed {
					t.Errorf("the item of the new binding %s is not changed", item.Subject.Binding)
				}
			}
			got := map[string]bool{}
			for _, item := range attachItems(t, db, c.next) {
				got[item.Subject.Binding] = item.Changed
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("changed items (-want +got):\n%s", diff)
			}
		})
	}
}

func TestASynchronizationThatAnEarlierStartBeganIsRepeated(t *testing.T) {
	t.Parallel()
	const config = `{"configVersion": "v1", "kubernetes": [{"name": "pods", "kind": "Pod"}]}`
	db := storetest.Memory(t)
	start(t, db, 1)
	attach(t, db, config)
	start(t, db, 2)
	synchronized(t, db, "pods")
	want := []string{"pods in main, wait true, allow false"}
	if diff := cmp.Diff(want, attach(t, db, config)); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	synchronized(t, db, "pods")
	if items := attach(t, db, config); len(items) > 0 {
		t.Errorf("after the Synchronization of this start, the items are %q", items)
	}
}

func TestBindingsThatAHookHasNoMoreAreDeletedWithTheirTicks(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	attach(t, db, `{"configVersion": "v1", "kubernetes": [{"name": "pods", "kind": "Pod"}],
		"schedule": [{"name": "often", "crontab": "* * * * *"}, {"name": "rarely", "crontab": "0 0 1 1 *"}]}`)
	attach(t, db, `{"configVersion": "v1", "schedule": [{"name": "rarely", "crontab": "0 0 1 1 *"}]}`)
	var left []string
	if err := db.View(func(tx *store.Tx) error {
		for k := range tx.Range(store.BindingsOf("m")) {
			s, err := store.ParseBindingKey(k)
			if err != nil {
				return err
			}
			left = append(left, "binding "+s.Binding)
		}
		for _, id := range []string{"pods", "often", "rarely"} {
			if tx.Get(store.TickKey(graph.Subject{Module: "m", Hook: "hooks/h", Binding: id})) != nil {
				left = append(left, "tick "+id)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"binding rarely", "tick rarely"}, left); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}
