package hooks_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/values"
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan/scantest"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

// These are encoded configurations of hooks.
const (
	noBindings = `{}`
	atStartup  = `{"ordered":{"onStartup":10}}`
	helmHook   = `{"ordered":{"beforeHelm":1,"afterHelm":2}}`
)

// found returns a hook on disk with the code and the configuration.
func found(code, config string) store.Hook {
	return store.Hook{Digest: code, Code: code, File: json.RawMessage(`{}`), Config: json.RawMessage(config)}
}

func loadHooks(t *testing.T, db *store.DB, module string) map[string]store.Hook {
	t.Helper()
	all := map[string]store.Hook{}
	if err := db.View(func(tx *store.Tx) error {
		for k := range tx.Range(store.HooksOf(module)) {
			p, err := k.Parts()
			if err != nil {
				return err
			}
			_, name := p.Str(), p.Str()
			if all[name], _, err = store.Load[store.Hook](tx, k); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func saveHooks(t *testing.T, db *store.DB, module string, all map[string]store.Hook) (changed bool) {
	t.Helper()
	scantest.Update(t, db, func(tx *store.Tx) (err error) {
		changed, err = hooks.Found{Hooks: all}.Save(tx, module)
		return err
	})
	return changed
}

func TestSavedHooksAreThoseOnDisk(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	if changed := saveHooks(t, db, "other", map[string]store.Hook{"a": found("1", noBindings)}); !changed {
		t.Error("new hooks are no change")
	}
	for _, step := range []struct {
		name    string
		found   map[string]store.Hook
		changed bool
	}{
		{"no hooks", nil, false},
		{"new hooks", map[string]store.Hook{"a": found("1", noBindings), "b": found("1", noBindings)}, true},
		{"same hooks", map[string]store.Hook{"a": found("1", noBindings), "b": found("1", noBindings)}, false},
		{"other code", map[string]store.Hook{"a": found("2", noBindings), "b": found("1", noBindings)}, true},
		{"other config", map[string]store.Hook{"a": found("2", noBindings), "b": found("1", atStartup)}, true},
		{"deleted hook", map[string]store.Hook{"b": found("1", atStartup)}, true},
		{"renamed hook", map[string]store.Hook{"c": found("1", atStartup)}, true},
		{"all deleted", nil, true},
	} {
		if changed := saveHooks(t, db, "web", step.found); changed != step.changed {
			t.Errorf("%s: changed %t, want %t", step.name, changed, step.changed)
		}
		got := loadHooks(t, db, "web")
		for name, h := range got {
			h.Awaits = nil
			got[name] = h
		}
		if len(got) != len(step.found) || len(got) > 0 && !cmp.Equal(got, step.found) {
			t.Errorf("%s: got %v, want %v", step.name, got, step.found)
		}
	}
	if got := loadHooks(t, db, "other"); len(got) != 1 {
		t.Errorf("the other module has the hooks %v", got)
	}
}

// The longest duration must be deleted if the code or the configuration changes, and kept if only the path of the file
// changes.
func TestTheLongestDurationIsThatOfTheSameCode(t *testing.T) {
	t.Parallel()
	moved := found("1", noBindings)
	moved.File = json.RawMessage(`{"path":"/elsewhere"}`)
	for name, test := range map[string]struct {
		found store.Hook
		want  time.Duration
	}{
		"same":         {found("1", noBindings), time.Minute},
		"moved":        {moved, time.Minute},
		"other code":   {found("2", noBindings), 0},
		"other config": {found("1", atStartup), 0},
	} {
		db := storetest.Memory(t)
		old := found("1", noBindings)
		old.Longest = time.Minute
		scantest.Update(t, db, func(tx *store.Tx) error { return store.Save(tx, store.HookKey("web", "a"), old) })
		saveHooks(t, db, "web", map[string]store.Hook{"a": test.found})
		if got := loadHooks(t, db, "web")["a"].Longest; got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// webHooks saves hooks of module web, an operation and a flag of each of them, and two synchronized bindings of hook a.
// Then it saves the changed hooks.
func webHooks(t *testing.T, before, after map[string]store.Hook) *store.DB {
	t.Helper()
	db := storetest.Memory(t)
	saveHooks(t, db, "web", before)
	scantest.Update(t, db, func(tx *store.Tx) error {
		var saved []values.Saved
		flags := map[string]values.EnabledOverride{}
		for _, name := range slices.Sorted(maps.Keys(before)) {
			by := sections.Author("web", name)
			saved = append(saved, values.Saved{Op: values.Op{Op: "add", Path: "/web/" + name, Value: json.RawMessage("1")}, Hook: by})
			flags[name+"Enabled"] = values.EnabledOverride{Value: true, Hook: by}
		}
		for id, kind := range map[string]store.BindingKind{"pods": store.Kubernetes, "tick": store.Schedule} {
			if err := store.Save(tx, store.BindingKey("web", "a", id), store.Binding{Kind: kind, SyncedIn: 3}); err != nil {
				return err
			}
		}
		if err := store.Save(tx, store.SavedKey("web"), saved); err != nil {
			return err
		}
		return store.Save(tx, store.EnabledOverridesKey(), flags)
	})
	saveHooks(t, db, "web", after)
	return db
}

// marked returns the paths and flags that are outdated, and the bindings of hook a that are synchronized.
func marked(t *testing.T, db *store.DB) (outdated, synced []string) {
	t.Helper()
	if err := db.View(func(tx *store.Tx) error {
		saved, _, err := store.Load[[]values.Saved](tx, store.SavedKey("web"))
		if err != nil {
			return err
		}
		for _, s := range saved {
			if s.Outdated {
				outdated = append(outdated, s.Path)
			}
		}
		flags, err := sections.Overrides(tx)
		for _, flag := range slices.Sorted(maps.Keys(flags)) {
			if flags[flag].Outdated {
				outdated = append(outdated, flag)
			}
		}
		for _, id := range []string{"pods", "tick"} {
			b, _, err := store.Load[store.Binding](tx, store.BindingKey("web", "a", id))
			if err != nil {
				return err
			}
			if b.SyncedIn == 3 {
				synced = append(synced, id)
			}
			if b.SyncedIn == 0 {
				t.Errorf("the changes of a downtime are not delivered to binding %s", id)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return outdated, synced
}

func TestValuesOfEarlierCodeWaitForTheRunsOfTheNewCode(t *testing.T) {
	t.Parallel()
	before := map[string]store.Hook{"a": found("1", helmHook), "b": found("1", helmHook)}
	written := found("1", helmHook)
	written.Code = "" // the record of an earlier version of the operator
	for name, test := range map[string]struct {
		before, after    map[string]store.Hook
		outdated, synced []string
		awaits           []string // of hook a
	}{
		"nothing changed": {before, before, nil, []string{"pods", "tick"}, nil},
		"other code": {
			before,
			map[string]store.Hook{"a": found("2", helmHook), "b": found("1", helmHook)},
			[]string{"/web/a", "aEnabled"},
			[]string{"tick"},
			[]string{"beforeHelm", "afterHelm"},
		},
		"other config": {
			before,
			map[string]store.Hook{"a": found("1", atStartup), "b": found("1", helmHook)},
			[]string{"/web/a", "aEnabled"},
			[]string{"tick"},
			[]string{"onStartup"},
		},
		// A hook without start bindings runs only for events, and possibly never runs, so its values are kept.
		"new code without start bindings": {
			before, map[string]store.Hook{"a": found("2", noBindings), "b": found("1", helmHook)}, nil, []string{"pods", "tick"}, nil,
		},
		"other file of the module": {
			before,
			map[string]store.Hook{"a": {Digest: "2", Code: "1", File: json.RawMessage(`{}`), Config: json.RawMessage(helmHook)}, "b": before["b"]},
			nil,
			[]string{"pods", "tick"},
			nil,
		},
		"record without code": {
			map[string]store.Hook{"a": written, "b": before["b"]},
			map[string]store.Hook{"a": found("2", helmHook), "b": before["b"]},
			nil,
			[]string{"pods", "tick"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := webHooks(t, test.before, test.after)
			outdated, synced := marked(t, db)
			if diff := cmp.Diff([][]string{test.outdated, test.synced}, [][]string{outdated, synced}); diff != "" {
				t.Errorf("outdated values, synchronized bindings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.awaits, loadHooks(t, db, "web")["a"].Awaits); diff != "" {
				t.Errorf("awaited bindings (-want +got):\n%s", diff)
			}
		})
	}
}

// The new code of hook a is saved before its bindings are attached again.
func TestBindingsOfAChangedHookAreOutdatedUntilTheyAreAttachedAgain(t *testing.T) {
	t.Parallel()
	rewrittenMeanwhile := found("1", noBindings) // after the digest of the module was computed
	rewrittenMeanwhile.Code = "2"
	for name, c := range map[string]struct {
		after store.Hook
		want  []string
	}{
		"same code":               {found("1", noBindings), nil},
		"other code":              {found("2", noBindings), []string{"a pods", "a tick"}},
		"other code, same digest": {rewrittenMeanwhile, []string{"a pods", "a tick"}},
		"other config":            {found("1", atStartup), []string{"a pods", "a tick"}},
	} {
		db := storetest.Memory(t)
		saveHooks(t, db, "web", map[string]store.Hook{"a": found("1", noBindings), "b": found("1", noBindings)})
		scantest.Update(t, db, func(tx *store.Tx) error {
			for id, kind := range map[string]store.BindingKind{
				"pods": store.Kubernetes, "tick": store.Schedule, "check": store.Validating, "change": store.Mutating, "up": store.Conversion,
			} {
				for _, hook := range []string{"a", "b"} {
					if err := store.Save(tx, store.BindingKey("web", hook, id), store.Binding{Kind: kind, AttachedInStart: 3, SyncedIn: 3}); err != nil {
						return err
					}
				}
			}
			return nil
		})
		// Only the run of a changed module attaches the bindings again.
		if changed := saveHooks(t, db, "web", map[string]store.Hook{"a": c.after, "b": found("1", noBindings)}); changed != (c.want != nil) {
			t.Errorf("%s: changed %t", name, changed)
		}
		var outdated []string
		if err := db.View(func(tx *store.Tx) error {
			for k := range tx.Range(store.BindingsOf("web")) {
				b, _, err := store.Load[store.Binding](tx, k)
				if err != nil {
					return err
				}
				s, err := store.ParseBindingKey(k)
				if err != nil {
					return err
				}
				if b.AttachedInStart == store.FormerCode {
					outdated = append(outdated, s.Hook+" "+s.Binding)
				}
				if b.SyncedIn != 3 {
					t.Errorf("%s: binding %s is synchronized in %d", name, s, b.SyncedIn)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, outdated); diff != "" {
			t.Errorf("%s: outdated bindings (-want +got):\n%s", name, diff)
		}
	}
}

func TestADeletedHookLeavesNoValues(t *testing.T) {
	t.Parallel()
	db := webHooks(t, map[string]store.Hook{"a": found("1", helmHook), "b": found("1", helmHook)}, map[string]store.Hook{"b": found("1", helmHook)})
	if err := db.View(func(tx *store.Tx) error {
		saved, _, err := store.Load[[]values.Saved](tx, store.SavedKey("web"))
		if len(saved) != 1 || saved[0].Path != "/web/b" {
			t.Errorf("the saved operations are %v", saved)
		}
		flags, failed := sections.Overrides(tx)
		if keys := slices.Sorted(maps.Keys(flags)); !slices.Equal(keys, []string{"bEnabled"}) {
			t.Errorf("the flags are %q", keys)
		}
		if failed != nil {
			return failed
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestTheReasonOfABrokenModuleHasTheTimeOfItsFirstCheck(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	db, err := store.OpenMemory(new(store.Memory), store.Options{Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	first := now
	scantest.Update(t, db, func(tx *store.Tx) error {
		return store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, Enabled: true, Order: 1})
	})
	for _, step := range []struct {
		name    string
		checked []hooks.Checked
		want    map[string]store.Module
	}{
		{"good", []hooks.Checked{{Name: "web", Order: 9}, {Name: "new", Order: 2}}, map[string]store.Module{"web": {State: store.On, Enabled: true, Order: 1}}},
		{"broken", []hooks.Checked{{Name: "web", Order: 9, Broken: "a"}, {Name: "new", Order: 2, Broken: "b"}}, map[string]store.Module{
			"web": {State: store.On, Enabled: true, Order: 1, Broken: "a", BrokenSince: first.Add(time.Minute)},
			"new": {State: store.Off, Order: 2, Broken: "b", BrokenSince: first.Add(time.Minute)},
		}},
		{"broken in another way", []hooks.Checked{{Name: "web", Broken: "c"}}, map[string]store.Module{
			"web": {State: store.On, Enabled: true, Order: 1, Broken: "c", BrokenSince: first.Add(time.Minute)},
			"new": {State: store.Off, Order: 2, Broken: "b", BrokenSince: first.Add(time.Minute)},
		}},
		{"good again", []hooks.Checked{{Name: "web"}, {Name: "new"}}, map[string]store.Module{
			"web": {State: store.On, Enabled: true, Order: 1}, "new": {State: store.Off, Order: 2},
		}},
	} {
		scantest.Update(t, db, func(tx *store.Tx) error { return hooks.SaveBroken(tx, step.checked) })
		if err := db.View(func(tx *store.Tx) error {
			got, err := store.LoadModules(tx)
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, diff)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
	}
}
