package debugapi

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

// TestHookListShowsTheNextTick stores hooks with schedules that tick, that never tick, and that are detached. The list
// of hooks must show the next tick of each hook, or that a schedule never ticks.
func TestHookListShowsTheNextTick(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 34, 56, 0, time.UTC)
	db, err := store.Open(t.TempDir()+"/store.db", store.Options{Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	attach := func(tx *store.Tx, hook, binding, crontab string, detached bool) error {
		config, err := json.Marshal(map[string]string{"name": binding, "crontab": crontab})
		if err != nil {
			return err
		}
		return store.Save(tx, store.BindingKey("web", hook, binding), store.Binding{Kind: store.Schedule, Config: config, Detached: detached})
	}
	if err := db.Update(func(tx *store.Tx) error {
		for hook, bindings := range map[string]map[string]string{
			"hourly":   {"hour": "0 * * * *", "day": "0 3 * * *"},
			"february": {"thirtieth": "0 0 30 2 *"},
			"both":     {"hour": "0 * * * *", "thirtieth": "0 0 30 2 *"},
			"every":    {"5m": "@every 5m"},
			"detached": {"hour": "0 * * * *"},
			"none":     nil,
		} {
			if err := store.Save(tx, store.HookKey("web", hook), store.Hook{Config: json.RawMessage(`{}`)}); err != nil {
				return err
			}
			for binding, crontab := range bindings {
				if err := attach(tx, hook, binding, crontab, hook == "detached"); err != nil {
					return err
				}
			}
		}
		return store.Save(tx, store.TickKey(graph.Subject{Module: "web", Hook: "every", Binding: "5m"}), now.Add(-time.Minute))
	}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		live bool
		want map[string]string
	}{
		{"a running operator", true, map[string]string{
			"hourly": "13:00:00Z", "february": "never", "both": "13:00:00Z, one never", "every": "12:38:56Z", "detached": "-", "none": "-",
		}},
		{"the store of a stopped one", false, map[string]string{
			"hourly": "-", "february": "never", "both": "never", "every": "-", "detached": "-", "none": "-",
		}},
	} {
		page, err := hookPages{db: db, live: test.live}.hookRoute(nil, "list")
		if err != nil {
			t.Fatal(err)
		}
		hooks, isList := page.Data.([]HookLine)
		if !isList {
			t.Fatalf("the page has %T", page.Data)
		}
		got := map[string]string{}
		for i := range hooks {
			got[hooks[i].Name] = hooks[i].nextTick(inspect.Layout{Now: now, Zone: time.UTC})
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestTheSchedulesOfAHookAreReadAlone stores a schedule of a hook and an unreadable binding of another hook.
// Reading the schedules of the first hook must succeed.
func TestTheSchedulesOfAHookAreReadAlone(t *testing.T) {
	t.Parallel()
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(func(tx *store.Tx) error {
		tx.Put(store.BindingKey("web", "hook.sh.bak", "main"), []byte("damaged"))
		return store.Save(tx, store.BindingKey("web", "hook.sh", "main"), store.Binding{Kind: store.Schedule, Config: []byte(`{"name":"main","crontab":"* * * * *"}`)})
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *store.Tx) error {
		lines, err := attachedSchedules(tx, store.BindingsOf("web", "hook.sh"), true)
		if of := lines[graph.Subject{Module: "web", Hook: "hook.sh"}]; err != nil || len(lines) != 1 || len(of) != 1 || of[0].Binding != "main" {
			t.Errorf("the schedules are %+v: %v", lines, err)
		}
		if _, err := attachedSchedules(tx, store.At(store.Bindings), true); err == nil {
			t.Error("a binding that cannot be read is passed over")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
