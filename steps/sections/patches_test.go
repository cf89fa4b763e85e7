package sections

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/values"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

// patch returns a saved operation of a hook.
func patch(path, hook string) values.Saved {
	return values.Saved{Op: values.Op{Op: "add", Path: path, Value: json.RawMessage("1")}, Hook: hook}
}

// hookState returns a store with patches and overrides of two hooks of the module "web", a and b, and of the global
// hook a.
func hookState(t *testing.T) *store.DB {
	t.Helper()
	db := storetest.Memory(t)
	update(t, db, func(tx *store.Tx) error {
		for section, saved := range map[string][]values.Saved{
			"web":         {patch("/web/1", "web/a"), patch("/web/2", "web/b")},
			"db":          {patch("/db/1", "web/a")},
			values.Global: {patch("/global/1", "web/a"), patch("/global/2", "a")},
		} {
			if err := store.Save(tx, store.SavedKey(section), saved); err != nil {
				return err
			}
		}
		return store.Save(tx, store.EnabledOverridesKey(), map[string]values.EnabledOverride{
			"xEnabled": {Value: true, Hook: "web/a"}, "yEnabled": {Value: true, Hook: "a"},
		})
	})
	return db
}

func update(t *testing.T, db *store.DB, do func(*store.Tx) error) {
	t.Helper()
	if err := db.Update(do); err != nil {
		t.Fatal(err)
	}
}

// held returns the paths of the saved operations and the flags of the overrides. If an operation or override is
// outdated, its path or flag has the prefix "-".
func held(t *testing.T, db *store.DB) []string {
	t.Helper()
	var all []string
	add := func(name string, outdated bool) {
		if outdated {
			name = "-" + name
		}
		all = append(all, name)
	}
	update(t, db, func(tx *store.Tx) error {
		for _, section := range []string{"db", values.Global, "web"} {
			saved, _, err := store.Load[[]values.Saved](tx, store.SavedKey(section))
			if err != nil {
				return err
			}
			for _, s := range saved {
				add(s.Path, s.Outdated)
			}
		}
		overrides, err := Overrides(tx)
		for _, flag := range slices.Sorted(maps.Keys(overrides)) {
			add(flag, overrides[flag].Outdated)
		}
		return err
	})
	return all
}

func TestAForgottenHookLeavesTheValuesOfOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		module, hook string
		want         []string
	}{
		{"web", "a", []string{"/db/1", "/global/2", "/web/2", "yEnabled"}},
		{"", "a", []string{"/db/1", "/global/1", "/web/1", "/web/2", "xEnabled"}},
		{"web", "b", []string{"/db/1", "/global/1", "/global/2", "/web/1", "xEnabled", "yEnabled"}},
		{"web", "unknown", []string{"/db/1", "/global/1", "/global/2", "/web/1", "/web/2", "xEnabled", "yEnabled"}},
	} {
		db := hookState(t)
		update(t, db, func(tx *store.Tx) error { return Forget(tx, c.module, c.hook) })
		if diff := cmp.Diff(c.want, held(t, db)); diff != "" {
			t.Errorf("after %q of module %q (-want +got):\n%s", c.hook, c.module, diff)
		}
	}
}

func TestOnlyValuesOfHooksWithNewCodeBecomeOutdated(t *testing.T) {
	t.Parallel()
	db := hookState(t)
	own := func(s values.Saved) bool { return s.Hook == "web/a" }
	update(t, db, func(tx *store.Tx) error {
		return errors.Join(
			OutdatePatches(tx, "web", own), OutdatePatches(tx, values.Global, own),
			OutdateOverrides(tx, func(flag string, o values.EnabledOverride) bool { return o.Hook == "web/a" && flag == "xEnabled" }),
		)
	})
	want := []string{"/db/1", "-/global/1", "/global/2", "-/web/1", "/web/2", "-xEnabled", "yEnabled"}
	if diff := cmp.Diff(want, held(t, db)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAHookDoesNotSeeTheValuesOfItsEarlierCode(t *testing.T) {
	t.Parallel()
	mine, mineOld, theirsOld := patch("/web/1", "web/a"), patch("/web/2", "web/a"), patch("/web/3", "web/b")
	mineOld.Outdated, theirsOld.Outdated = true, true
	l := values.Layers{Saved: map[string][]values.Saved{"web": {mine, mineOld, theirsOld}}}
	if diff := cmp.Diff(map[string][]values.Saved{"web": {mine, theirsOld}}, AsSeenBy(l, "web/a").Saved); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(l.Saved["web"]) != 3 || l.Saved["web"][1].Path != "/web/2" {
		t.Errorf("the layers of the caller have changed: %v", l.Saved)
	}
}

func TestDroppedOperationsAreThoseThatDoNotFitAndNoOthers(t *testing.T) {
	t.Parallel()
	db := hookState(t)
	newer := patch("/web/2", "web/b")
	newer.Value = json.RawMessage("2")
	unfit := Unfit{"web": {patch("/web/1", "web/a"), newer}, values.Global: {patch("/global/1", "another")}}
	update(t, db, unfit.Drop)
	want := []string{"/db/1", "/global/1", "/global/2", "/web/2", "xEnabled", "yEnabled"}
	if diff := cmp.Diff(want, held(t, db)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := unfit.Note(); got != ", saved values dropped that the schemas no longer accept: /global/1, /web/1, /web/2" {
		t.Errorf("note %q", got)
	}
	remove := patch("/web/1", "web/a")
	remove.Op.Op = "remove"
	if got := (Unfit{"web": {remove, patch("/web/1", "web/a")}}).Note(); got != ", saved values dropped that the schemas no longer accept: /web/1" {
		t.Errorf("note of two operations on one path %q", got)
	}
	if got := (Unfit{"web": nil}).Note(); got != "" {
		t.Errorf("note of nothing %q", got)
	}
}

func TestRemovalsWithoutEffectAreSavedOnlyUpToALimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ removals, saved, noOp int }{{mostSaved, mostSaved, 0}, {mostSaved + 1, 0, mostSaved + 1}} {
		var ops []values.Op
		for i := range c.removals {
			path := fmt.Sprintf("/web/%04d", i)
			ops = append(ops, values.Op{Op: "add", Path: path, Value: json.RawMessage("1")}, values.Op{Op: "remove", Path: path})
		}
		trial, err := Try(values.Layers{}, "web", ops, "web/a")
		if err != nil {
			t.Fatal(err)
		}
		if len(trial.Saved) != c.saved || len(trial.noOp) != c.noOp {
			t.Errorf("of %d removals %d are saved and %d are not, want %d and %d", c.removals, len(trial.Saved), len(trial.noOp), c.saved, c.noOp)
		}
	}
}

func TestTheConfigMapOverridesTheFlagsOfHooks(t *testing.T) {
	t.Parallel()
	got := Flags(map[string]values.EnabledOverride{"aEnabled": {Value: true}, "bEnabled": {Value: true}},
		values.Config{Flags: map[string]bool{"bEnabled": false, "cEnabled": true}})
	if diff := cmp.Diff(map[string]bool{"aEnabled": true, "bEnabled": false, "cEnabled": true}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestKeysOfNoModuleAreNamedWithTheNearestKey(t *testing.T) {
	t.Parallel()
	modules := []string{values.Global, "certManager", "web"}
	config := values.Config{
		Sections: values.Values{"web": map[string]any{}, "certManger": map[string]any{}, values.Global: map[string]any{}},
		Flags:    map[string]bool{"webEnabled": true, "certMangerEnabled": true, "nothingEnabled": true},

		Maintained: map[string]bool{"web": true, "certMangerr": true, "nothing": true},
	}
	if diff := cmp.Diff([]string{"certMangerEnabled", "certMangerrMaintenance", "nothingEnabled"}, UnknownKeys(modules, config)); diff != "" {
		t.Errorf("unknown keys (-want +got):\n%s", diff)
	}
	for key, want := range map[string]string{
		"certManger":        `there is no module "cert-manger" (did you mean "certManager"?)`,
		"certMangerEnabled": `there is no module "cert-manger" (did you mean "certManagerEnabled"?)`,
		"nothingEnabled":    `there is no module "nothing"`,
		"wibMaintenance":    `there is no module "wib" (did you mean "webMaintenance"?)`,
		"webMaintenance":    `there is no module "web-maintenance"`,
	} {
		if got := NoModule(key, modules); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}
