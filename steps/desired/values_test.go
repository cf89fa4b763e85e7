package desired_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/desired"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// clock is the clock of a store. Its time changes only when a test sets it.
type clock struct{ now time.Time }

// valuesState returns the scanned state of a directory with the modules web and other, and the clock of its store. The
// schema of web accepts only integers.
func valuesState(t *testing.T) (*scan.State, *clock) {
	t.Helper()
	o, mounted, _ := scantest.Options(t)
	at := &clock{time.Date(2026, 11, 28, 9, 0, 0, 123456789, time.UTC)}
	db, err := store.OpenMemory(new(store.Memory), store.Options{Clock: func() time.Time { return at.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	o.DB = db
	o.GlobalHooksDir = t.TempDir()
	scantest.Write(t, mounted, "010-web/openapi/values.yaml", "additionalProperties: {type: integer}")
	scantest.Write(t, mounted, "010-web/values.yaml", "web: {size: 1}\nwebEnabled: true\n")
	scantest.Write(t, mounted, "020-other/values.yaml", "other: {}\n")
	s := scan.New(o, nil)
	scantest.Scan(t, s)
	return s, at
}

func add(path, value string) values.Op {
	return values.Op{Op: "add", Path: path, Value: json.RawMessage(value)}
}

// saved returns the record of an operation that the hook has saved at the time at.
func saved(op values.Op, hook string, at time.Time) values.Saved {
	return values.Saved{Op: op, Hook: hook, Origin: values.Origin{At: at}}
}

func outdated(s values.Saved) values.Saved {
	s.Outdated = true
	return s
}

func savedOf(t *testing.T, tx *store.Tx, section string) []values.Saved {
	t.Helper()
	s, _, err := store.Load[[]values.Saved](tx, store.SavedKey(section))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tried returns the patch with these operations, after a check against the current values of the section.
func tried(t *testing.T, s *scan.State, section string, ops ...values.Op) sections.Patch {
	t.Helper()
	var p sections.Patch
	if err := s.DB.View(func(tx *store.Tx) error {
		layers, err := s.Values.LayersOf(tx, section)
		if err != nil {
			return err
		}
		base, err := s.Values.Base(tx, section)
		if err != nil {
			return err
		}
		p, err = sections.NewPatch(layers, base, section, ops)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return p
}

// save saves a patch in a transaction of its own.
func save(t *testing.T, s *scan.State, section string, p sections.Patch, by string) (changed bool) {
	t.Helper()
	scantest.Update(t, s.DB, func(tx *store.Tx) (err error) {
		changed, err = s.Values.SavePatch(tx, section, p, by)
		return err
	})
	return changed
}

func TestASavedPatchKeepsTheTimeOfUnchangedOperations(t *testing.T) {
	t.Parallel()
	s, at := valuesState(t)
	first := at.now.Truncate(time.Second)
	if !save(t, s, "web", tried(t, s, "web", add("/web/a", "1"), add("/web/b", "1")), "web/x.sh") {
		t.Error("new values changed nothing")
	}
	at.now = at.now.Add(time.Minute)
	if !save(t, s, "web", tried(t, s, "web", add("/web/a", "1"), add("/web/b", "2")), "web/x.sh") {
		t.Error("another value changed nothing")
	}
	at.now = at.now.Add(time.Minute)
	if save(t, s, "web", tried(t, s, "web", add("/web/a", "1"), add("/web/b", "2")), "web/y.sh") {
		t.Error("the same values of another hook changed the values")
	}
	if err := s.DB.View(func(tx *store.Tx) error {
		want := []values.Saved{saved(add("/web/a", "1"), "web/y.sh", first.Add(2*time.Minute)), saved(add("/web/b", "2"), "web/y.sh", first.Add(2*time.Minute))}
		if diff := cmp.Diff(want, savedOf(t, tx, "web")); diff != "" {
			t.Errorf("after the hook y.sh (-want +got):\n%s", diff)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	at.now = at.now.Add(time.Minute)
	save(t, s, "web", tried(t, s, "web", add("/web/a", "3"), add("/web/b", "2")), "web/y.sh")
	if err := s.DB.View(func(tx *store.Tx) error {
		want := []values.Saved{saved(add("/web/a", "3"), "web/y.sh", first.Add(3*time.Minute)), saved(add("/web/b", "2"), "web/y.sh", first.Add(2*time.Minute))}
		if diff := cmp.Diff(want, savedOf(t, tx, "web")); diff != "" {
			t.Errorf("after another value (-want +got):\n%s", diff)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAPatchOnValuesThatChangedMeanwhileIsTriedAgain(t *testing.T) {
	t.Parallel()
	s, at := valuesState(t)
	late := tried(t, s, "web", add("/web/a", "1"))
	if !late.Changed {
		t.Fatalf("got %+v", late)
	}
	save(t, s, "web", tried(t, s, "web", add("/web/a", "1")), "web/x.sh")
	if save(t, s, "web", late, "web/y.sh") {
		t.Error("a value that another hook has set meanwhile changed the values")
	}

	at.now = at.now.Add(time.Minute)
	below := tried(t, s, "web", values.Op{Op: "test", Path: "/web/a", Value: json.RawMessage("1")}, add("/web/b", "2"))
	save(t, s, "web", tried(t, s, "web", values.Op{Op: "remove", Path: "/web/a"}), "web/x.sh")
	err := s.DB.Update(func(tx *store.Tx) error {
		_, err := s.Values.SavePatch(tx, "web", below, "web/y.sh")
		return err
	})
	if err == nil || !strings.HasPrefix(err.Error(), "$VALUES_JSON_PATCH_PATH does not fit the values, which have changed during the run: ") || !strings.Contains(err.Error(), "/web/a") {
		t.Errorf("got %v", err)
	}
}

func TestTheBaseOfAPatchChangesWithEachLayerOfItsSection(t *testing.T) {
	t.Parallel()
	s, _ := valuesState(t)
	base := func(section string) (base string) {
		if err := s.DB.View(func(tx *store.Tx) (err error) {
			base, err = s.Values.Base(tx, section)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return base
	}
	if first, second, other := base("web"), base("web"), base("other"); first != second || first == other {
		t.Errorf("the bases are %s, %s and %s", first, second, other)
	}
	for name, test := range map[string]struct {
		change      func()
		web, others bool // whether the base of the section web, and the base of the section other, change
	}{
		"patch of the section":   {func() { save(t, s, "web", tried(t, s, "web", add("/web/a", "1")), "x") }, true, false},
		"patch of other section": {func() { save(t, s, "other", tried(t, s, "other", add("/other/a", "1")), "x") }, false, true},
		"scan":                   {func() { scantest.Scan(t, s) }, true, true},
		"ConfigMap": {func() {
			scantest.Update(t, s.DB, func(tx *store.Tx) error { return s.ConfigMap.SaveApplied(tx, scantest.Config(t, "web", "b: 1"), "7") })
		}, true, true},
		"nothing": {func() {}, false, false},
	} {
		web, other := base("web"), base("other")
		test.change()
		if changed := base("web") != web; changed != test.web {
			t.Errorf("%s: the base of web has changed: %t", name, changed)
		}
		if changed := base("other") != other; changed != test.others {
			t.Errorf("%s: the base of other has changed: %t", name, changed)
		}
	}
}

func TestEnabledFlagsOfHooksChangeOnlyFlagsThatTheConfigMapDoesNotSet(t *testing.T) {
	t.Parallel()
	s, at := valuesState(t)
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		return s.ConfigMap.SaveApplied(tx, scantest.Config(t, "webEnabled", "true"), "7")
	})
	on, off := true, false
	for _, step := range []struct {
		name    string
		want    map[string]*bool
		changed bool
	}{
		{"flag that the ConfigMap sets", map[string]*bool{"webEnabled": &off}, false},
		{"other flag", map[string]*bool{"otherEnabled": &off}, true},
		{"same flag again", map[string]*bool{"otherEnabled": &off}, false},
		{"other value", map[string]*bool{"otherEnabled": &on}, true},
		{"no flags", nil, false},
		{"removed flag", map[string]*bool{"otherEnabled": nil}, true},
		{"removed flag that the ConfigMap sets", map[string]*bool{"webEnabled": nil}, false},
		{"unknown flag removed", map[string]*bool{"newEnabled": nil}, false},
	} {
		at.now = at.now.Add(time.Minute)
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			changed, err := s.Values.SaveFlags(tx, step.want, "g.sh")
			if changed != step.changed {
				t.Errorf("%s: changed %t, want %t", step.name, changed, step.changed)
			}
			return err
		})
	}
	if err := s.DB.View(func(tx *store.Tx) error {
		left, err := sections.Overrides(tx)
		if len(left) != 0 {
			t.Errorf("flags that were removed are left: %v", left)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestTheNoteOfAFanOutTellsWhetherTheValuesOfItsModuleChanged(t *testing.T) {
	t.Parallel()
	on := true
	config := func(pairs ...string) func(*testing.T, *scan.State) {
		return func(t *testing.T, s *scan.State) {
			t.Helper()
			scantest.Update(t, s.DB, func(tx *store.Tx) error { return s.ConfigMap.SaveApplied(tx, scantest.Config(t, pairs...), "7") })
		}
	}
	patch := func(section string, op values.Op) func(*testing.T, *scan.State) {
		return func(t *testing.T, s *scan.State) { t.Helper(); save(t, s, section, tried(t, s, section, op), "x") }
	}
	for name, test := range map[string]struct {
		change          func(*testing.T, *scan.State)
		web, globalHook bool // whether the fingerprints of the module web, and of the global section, change
	}{
		"nothing":                               {func(*testing.T, *scan.State) {}, false, false},
		"scan of the same files":                {func(t *testing.T, s *scan.State) { t.Helper(); scantest.Scan(t, s) }, false, false},
		"patch of the module":                   {patch("web", add("/web/a", "1")), true, false},
		"patch with the same result":            {patch("web", add("/web/size", "1")), false, false},
		"patch of another module":               {patch("other", add("/other/a", "1")), false, false},
		"patch of global values":                {patch("global", add("/global/a", "1")), false, true},
		"section of the module":                 {config("web", "a: 1"), true, false},
		"section with the same values as files": {config("web", "size: 1"), true, false}, // the fingerprint depends on the ConfigMap, too
		"section of another module":             {config("other", "a: 1"), false, false},
		"global section":                        {config("global", "a: 1"), false, true},
		"flag in the ConfigMap":                 {config("otherEnabled", "true"), false, true},
		"flag of a hook": {func(t *testing.T, s *scan.State) {
			t.Helper()
			scantest.Update(t, s.DB, func(tx *store.Tx) error {
				_, err := s.Values.SaveFlags(tx, map[string]*bool{"otherEnabled": &on}, "g.sh")
				return err
			})
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := valuesState(t)
			notes := map[string]json.RawMessage{}
			for _, module := range []string{"web", ""} {
				if err := s.DB.View(func(tx *store.Tx) (err error) {
					notes[module], err = s.Values.Note(tx, module)
					return err
				}); err != nil || !json.Valid(notes[module]) {
					t.Fatalf("got the note %s: %v", notes[module], err)
				}
			}
			test.change(t, s)
			for module, want := range map[string]bool{"web": test.web, "": test.globalHook} {
				if err := s.DB.View(func(tx *store.Tx) error {
					changed, err := s.Values.ChangedSince(tx, notes[module], module)
					if changed != want {
						t.Errorf("the values of module %q have changed: %t, want %t", module, changed, want)
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestADamagedNoteIsAnError(t *testing.T) {
	t.Parallel()
	s, _ := valuesState(t)
	for _, note := range []string{"", "null", `"`, "{}"} {
		if err := s.DB.View(func(tx *store.Tx) error {
			_, err := s.Values.ChangedSince(tx, json.RawMessage(note), "web")
			if err == nil || !strings.HasPrefix(err.Error(), "the note of the fan-out is invalid") {
				t.Errorf("%q: got %v", note, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// In each case, saved and flags are stored before the call of DropOutdated, and left and flagsLeft must be stored after
// it.
func TestOnlyOutdatedValuesOfTheHookAreDropped(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC)
	const by = "web/hooks/x.sh"
	own, other := func(path string) values.Saved { return saved(add(path, "1"), by, at) }, func(path string) values.Saved { return saved(add(path, "1"), "web/hooks/y.sh", at) }
	flag := func(value, isOutdated bool, hook string) values.EnabledOverride {
		return values.EnabledOverride{Value: value, Hook: hook, Origin: values.Origin{At: at, Outdated: isOutdated}}
	}
	for name, test := range map[string]struct {
		saved, left map[string][]values.Saved
		flags       map[string]values.EnabledOverride
		flagsLeft   []string
		want        desired.Dropped
	}{
		"nothing saved": {want: desired.Dropped{All: true}},
		"present operations": {
			saved: map[string][]values.Saved{"web": {own("/web/a"), other("/web/b")}},
			left:  map[string][]values.Saved{"web": {own("/web/a"), other("/web/b")}},
			want:  desired.Dropped{All: true},
		},
		"outdated operation of the module": {
			saved: map[string][]values.Saved{"web": {outdated(own("/web/a")), own("/web/b"), outdated(other("/web/c"))}},
			left:  map[string][]values.Saved{"web": {own("/web/b"), outdated(other("/web/c"))}},
			want:  desired.Dropped{Module: true, All: true},
		},
		"outdated operation without effect": {
			saved: map[string][]values.Saved{"web": {outdated(own("/web/size"))}},
			left:  map[string][]values.Saved{"web": {}},
			want:  desired.Dropped{All: true},
		},
		"outdated global operation": {
			saved: map[string][]values.Saved{"web": {own("/web/a")}, "global": {outdated(own("/global/a"))}},
			left:  map[string][]values.Saved{"web": {own("/web/a")}, "global": {}},
			want:  desired.Dropped{Global: true, All: true},
		},
		"outdated flag": {
			flags:     map[string]values.EnabledOverride{"otherEnabled": flag(true, true, by), "webEnabled": flag(true, false, by), "thirdEnabled": flag(true, true, "g.sh")},
			flagsLeft: []string{"thirdEnabled", "webEnabled"},
			want:      desired.Dropped{Global: true, All: true},
		},
		"outdated flag that the ConfigMap sets": {
			flags: map[string]values.EnabledOverride{"setEnabled": flag(false, true, by)},
			want:  desired.Dropped{All: true},
		},
		"operation that the schema needs": {
			saved: map[string][]values.Saved{"needs": {outdated(saved(add("/needs/a", "1"), "needs/hooks/x.sh", at))}, "global": {outdated(saved(add("/global/a", "1"), "needs/hooks/x.sh", at))}},
			left:  map[string][]values.Saved{"needs": {outdated(saved(add("/needs/a", "1"), "needs/hooks/x.sh", at))}, "global": {}},
			want:  desired.Dropped{Global: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := valuesState(t)
			scantest.Write(t, s.Modules.Dirs()[0], "030-needs/openapi/values.yaml", "required: [a]\nproperties: {a: {type: integer}}")
			scantest.Scan(t, s)
			scantest.Update(t, s.DB, func(tx *store.Tx) error {
				err := s.ConfigMap.SaveApplied(tx, scantest.Config(t, "setEnabled", "true"), "7")
				for section, ops := range test.saved {
					err = errors.Join(err, store.Save(tx, store.SavedKey(section), ops))
				}
				return errors.Join(err, store.Save(tx, store.EnabledOverridesKey(), test.flags))
			})
			module := "web"
			if test.saved["needs"] != nil {
				module = "needs"
			}
			task := workflow.Task{Task: store.Task{Subject: graph.Subject{Module: module, Hook: "hooks/x.sh"}}}
			scantest.Update(t, s.DB, func(tx *store.Tx) error {
				got, err := s.Values.DropOutdated(tx, task)
				if got != test.want {
					t.Errorf("got %+v, want %+v", got, test.want)
				}
				return err
			})
			if err := s.DB.View(func(tx *store.Tx) error {
				for section, want := range test.left {
					if diff := cmp.Diff(want, savedOf(t, tx, section)); diff != "" {
						t.Errorf("%s (-want +got):\n%s", section, diff)
					}
				}
				flags, err := sections.Overrides(tx)
				if left := slices.Sorted(maps.Keys(flags)); !slices.Equal(left, test.flagsLeft) {
					t.Errorf("the flags %q are left, want %q", left, test.flagsLeft)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestAModuleIsWantedIfItsScriptAndTheFlagsEnableIt(t *testing.T) {
	t.Parallel()
	s, _ := valuesState(t)
	on := true
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		_, err := s.Values.SaveFlags(tx, map[string]*bool{"otherEnabled": &on}, "g.sh")
		return err
	})
	check := func(name string, record, want bool, decision module.Decision) {
		t.Helper()
		if err := s.DB.View(func(tx *store.Tx) error {
			got, err := s.Values.Wanted(tx, name, store.Module{Enabled: record})
			if got != want || err != nil {
				t.Errorf("%s is wanted: %t, %v", name, got, err)
			}
			d, err := s.Values.Decide(tx, name)
			if diff := cmp.Diff(decision, d); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	web, _ := s.Modules.Disk().Find("web")
	check("web", true, true, web.Flags[len(web.Flags)-1])
	check("web", false, false, web.Flags[len(web.Flags)-1])
	check("other", true, true, module.Decision{Enabled: true, Source: module.SourceHook, By: "g.sh"})
	check("gone", true, false, module.Decision{})
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		return s.ConfigMap.SaveApplied(tx, scantest.Config(t, "webEnabled", "false", "otherEnabled", "true"), "7")
	})
	check("web", true, false, module.Decision{Source: module.SourceConfig, By: "webEnabled"})
	check("other", true, true, module.Decision{Enabled: true, Source: module.SourceConfig, By: "otherEnabled"})
}

func TestGlobalValuesThatTheSchemaRejectsStopEverything(t *testing.T) {
	t.Parallel()
	s, _ := valuesState(t)
	if unfit, err := s.Values.CheckGlobal(); err != nil || len(unfit) != 0 {
		t.Errorf("got %v, %v", unfit, err)
	}
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		return store.Save(tx, store.SavedKey("global"), []values.Saved{saved(add("/global/zone", "1"), "g.sh", time.Time{})})
	})
	scantest.Write(t, s.Modules.GlobalHooks(), "openapi/values.yaml", "properties: {zone: {type: string}}")
	scantest.Scan(t, s)
	unfit, err := s.Values.CheckGlobal()
	if err != nil || len(unfit["global"]) != 1 || unfit["global"][0].Path != "/global/zone" {
		t.Errorf("an operation that the schema no longer accepts: got %v, %v", unfit, err)
	}
	scantest.Write(t, s.Modules.Dirs()[0], "values.yaml", "global: {zone: 2}\n")
	scantest.Scan(t, s)
	if _, err := s.Values.CheckGlobal(); err == nil || !strings.Contains(err.Error(), "global.zone") {
		t.Errorf("a values file that the schema rejects: got %v", err)
	}
}
