package decide

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"addon-operator/internal/hook"
	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
)

// scripts runs the `enabled` scripts of modules, and records the subject of each run.
type scripts struct {
	runner *hook.Runner
	ran    []string
}

func (s *scripts) RunScript(ctx context.Context, t workflow.Task, run hook.EnabledRun) (enabled bool, reason string, err error) {
	s.ran = append(s.ran, t.Subject.String())
	return s.runner.Enabled(ctx, run)
}

// decideAll decides which modules on disk are enabled. It also returns the subjects of the enabled scripts that ran.
func decideAll(t *testing.T, s *scan.State) (found Decisions, ran []string, err error) {
	t.Helper()
	return decideSet(t, s, s.Modules.Disk())
}

// decideSet is like decideAll, for the modules of set.
func decideSet(t *testing.T, s *scan.State, set module.Set) (found Decisions, ran []string, err error) {
	t.Helper()
	runner := scantest.Runner(t)
	run := &scripts{runner: runner}
	decider := New(s.Values, hooks.New(s.DB, s.Log, runner, s.Modules), run)
	var k *Known
	if err := s.DB.View(func(tx *store.Tx) (err error) {
		k, err = decider.Load(tx, set)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if found, err = decider.Check(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	err = decider.Decide(t.Context(), workflow.Task{}, k, &found)
	return found, run.ran, err
}

// newState returns a state before the first scan, and the directory of modules. The argument flags is the content of
// the values.yaml of this directory.
func newState(t *testing.T, flags string) (s *scan.State, mounted string) {
	t.Helper()
	o, mounted, _ := scantest.Options(t)
	o.GlobalHooksDir = t.TempDir()
	scantest.Write(t, mounted, "values.yaml", flags)
	return scan.New(o, nil), mounted
}

// answer returns an enabled script that writes the argument result as its decision. The argument reason is a command
// that prints the reason.
func answer(result, reason string) string {
	return "#!/bin/sh\necho " + result + " >$MODULE_ENABLED_RESULT\n" + reason + " >$MODULE_ENABLED_REASON\n"
}

// The constant before is a shell command for an enabled script. It prints the names of enabled modules that the
// script receives.
const before = `sed 's/.*"enabledModules":\(\[[^]]*\]\).*/\1/' $VALUES_PATH`

func TestAnEnabledScriptDecidesAboutAnEnabledModuleKnowingTheModulesBefore(t *testing.T) {
	s, mounted := newState(t, "webEnabled: true\nvetoEnabled: true\nyesEnabled: true\noffEnabled: false\nbrokenEnabled: true\nlastEnabled: true\n")
	scantest.Program(t, mounted, "020-veto/enabled", answer("false", before))
	scantest.Program(t, mounted, "030-yes/enabled", answer("true", "true"))
	scantest.Program(t, mounted, "040-off/enabled", answer("true", before))
	scantest.Write(t, mounted, "050-broken/values.yaml", "broken: [")
	scantest.Program(t, mounted, "050-broken/enabled", answer("false", before))
	scantest.Program(t, mounted, "060-last/enabled", answer("true", "{ "+before+"; cat $CONFIG_VALUES_PATH; }"))
	scantest.Scan(t, s)
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		if err := store.Save(tx, store.ModuleKey("broken"), store.Module{State: store.On, Enabled: true}); err != nil {
			return err
		}
		return s.ConfigMap.SaveApplied(tx, scantest.Config(t, "last", "{size: 1}"), "1")
	})
	found, ran, err := decideAll(t, s)
	if err != nil {
		t.Fatal(err)
	}
	file := " by " + mounted + "/values.yaml"
	if diff := cmp.Diff([]Module{
		{Name: "web", Order: 10, Enabled: true, Why: "enabled" + file},
		{Name: "veto", Order: 20, Why: `disabled by its enabled script: ["web"]`},
		{Name: "yes", Order: 30, Enabled: true, Why: "enabled" + file},
		{Name: "off", Order: 40, Why: "disabled" + file},
		{Name: "broken", Order: 50, Enabled: true, Why: stays, Broken: "any"},
		{Name: "last", Order: 60, Enabled: true, Why: `enabled by its enabled script: ["web","yes","broken"]{"global":null,"last":{"size":1}}`},
	}, found.Modules, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Broken" }, cmp.Comparer(func(a, b string) bool {
		return (a == "") == (b == "")
	}))); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"web", "yes", "broken", "last"}, found.Enabled); diff != "" || found.Broken() != 1 || !found.Whole {
		t.Errorf("%d broken, all modules are seen: %t; enabled (-want +got):\n%s", found.Broken(), found.Whole, diff)
	}
	if diff := cmp.Diff([]string{"veto/enabled", "yes/enabled", "last/enabled"}, ran); diff != "" {
		t.Errorf("scripts that ran (-want +got):\n%s", diff)
	}
}

// The enabled script of a module gets the global values. If a values file with some of these values is missing, the
// decision of the script can be another one.
func TestAnEnabledScriptDisablesNoModuleWhileADirectoryIsLost(t *testing.T) {
	s, mounted := newState(t, "webEnabled: true\n")
	scantest.Program(t, mounted, "010-web/enabled", answer("false", "true"))
	scantest.Scan(t, s)
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		return errors.Join(store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, Enabled: true}),
			store.Save(tx, store.StartupKey(), store.Startup{ValuesFiles: []string{"/lost/values.yaml"}}))
	})
	for _, empty := range [][]string{{"/lost"}, nil} {
		set := s.Modules.Disk()
		set.Empty = empty
		found, ran, err := decideSet(t, s, set)
		if err != nil || len(ran) != 1 || len(found.Modules) != 1 {
			t.Fatalf("got %+v, scripts %q, %v", found, ran, err)
		}
		if d := found.Modules[0]; d.Kept != (empty != nil) || d.Enabled != d.Kept || len(found.Runnable()) != 0 {
			t.Errorf("empty directories %q: decision %+v, to run %q", empty, d, found.Runnable())
		}
	}
}

// The modules "early" and "late" are not on disk. A directory of modules is empty, and perhaps contained them. No
// values file is missing, so it is known that nothing enables module web.
func TestAMissingModuleKeepsNoOtherModuleEnabled(t *testing.T) {
	s, mounted := newState(t, "webEnabled: false\nasksEnabled: true\n")
	scantest.Program(t, mounted, "020-asks/enabled", answer("true", before))
	scantest.Scan(t, s)
	on := store.Module{State: store.On, Enabled: true}
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		known := store.Startup{Enabled: []string{"early", "web", "late"}, ValuesFiles: s.Modules.Disk().ValuesFiles}
		early, late := on, on
		early.Order, late.Order = 5, 30
		return errors.Join(store.Save(tx, store.StartupKey(), known), store.Save(tx, store.ModuleKey("web"), on),
			store.Save(tx, store.ModuleKey("early"), early), store.Save(tx, store.ModuleKey("late"), late))
	})
	set := s.Modules.Disk()
	set.Empty = []string{"/empty"}
	found, _, err := decideSet(t, s, set)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Module{
		{Name: "web", Order: 10, Why: "disabled by " + mounted + "/values.yaml"},
		{Name: "asks", Order: 20, Enabled: true, Why: `enabled by its enabled script: ["early"]`},
	}, found.Modules); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEachEnabledScriptThatGivesNoDecisionIsAnError(t *testing.T) {
	s, mounted := newState(t, "webEnabled: true\nfailsEnabled: true\nvagueEnabled: true\nmuteEnabled: true\nlastEnabled: true\n")
	scantest.Program(t, mounted, "020-fails/enabled", "#!/bin/sh\necho no cluster >$MODULE_ENABLED_REASON\nexit 3\n")
	scantest.Program(t, mounted, "030-vague/enabled", answer("perhaps", "true"))
	scantest.Program(t, mounted, "040-mute/enabled", "#!/bin/sh\n")
	scantest.Program(t, mounted, "050-last/enabled", answer("true", "true"))
	scantest.Scan(t, s)
	found, _, err := decideAll(t, s)
	if diff := cmp.Diff([]string{"web", "last"}, found.Enabled); diff != "" {
		t.Errorf("enabled (-want +got):\n%s", diff)
	}
	if err == nil {
		t.Fatal("scripts without a decision are no error")
	}
	for i, want := range [][]string{{"module fails: enabled script: ", "no cluster"}, {"module vague: ", `"perhaps"`, "must write true or false"}, {"module mute: ", "wrote nothing"}} {
		line := append(strings.Split(err.Error(), "\n"), "", "", "")[i]
		if slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(line, part) }) {
			t.Errorf("line %d of the error is %q, want %q", i, line, want)
		}
	}
}

func TestSavedOperationsThatASchemaRejectsAreDroppedAndHiddenFromEnabledScripts(t *testing.T) {
	s, mounted := newState(t, "webEnabled: true\n")
	scantest.Write(t, mounted, "010-web/values.yaml", "web: {size: 1}")
	scantest.Write(t, mounted, "010-web/openapi/values.yaml", "properties: {size: {type: integer}, kept: {type: integer}}")
	scantest.Program(t, mounted, "010-web/enabled", answer("true", `sed 's/.*"web":/"web":/' $VALUES_PATH`))
	scantest.Scan(t, s)
	rejected := values.Saved{Op: values.Op{Op: "add", Path: "/web/size", Value: json.RawMessage(`"large"`)}, Hook: "web/h"}
	accepted := values.Saved{Op: values.Op{Op: "add", Path: "/web/kept", Value: json.RawMessage(`2`)}, Hook: "web/h"}
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		return store.Save(tx, store.SavedKey("web"), []values.Saved{rejected, accepted})
	})
	found, _, err := decideAll(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]values.Saved{rejected}, found.Dropped["web"], cmpopts.IgnoreTypes(values.Origin{})); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	if want := `enabled by its enabled script: "web":{"kept":2,"size":1}}`; len(found.Modules) != 1 || found.Modules[0].Why != want {
		t.Errorf("decisions %+v, want reason %s", found.Modules, want)
	}
}

func TestValuesFilesThatTheSchemaRejectsBreakOnlyAModuleThatHasYetToStart(t *testing.T) {
	s, mounted := newState(t, "webEnabled: true\n")
	scantest.Write(t, mounted, "010-web/values.yaml", "web: {size: large}")
	scantest.Write(t, mounted, "010-web/openapi/config-values.yaml", "properties: {size: {type: integer}}")
	scantest.Scan(t, s)
	for name, c := range map[string]struct {
		was             store.Module
		config          []string
		enabled, broken bool
	}{
		"never decided about":                    {store.Module{}, nil, false, true},
		"enabled and not started yet":            {store.Module{State: store.Off, Enabled: true}, nil, true, true},
		"started in an earlier start":            {store.Module{State: store.On, Enabled: true, RanInStart: 3}, nil, true, true},
		"started in this start":                  {store.Module{State: store.On, Enabled: true, RanInStart: 4}, nil, true, false},
		"started in this start, being deleted":   {store.Module{State: store.Deleting, RanInStart: 4}, nil, false, true},
		"not started, disabled in the ConfigMap": {store.Module{State: store.Off, Enabled: true}, []string{"webEnabled", "false"}, false, false},
	} {
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			if err := store.Save(tx, store.StartupKey(), store.Startup{StartRun: 4}); err != nil {
				return err
			}
			if err := store.Save(tx, store.ModuleKey("web"), c.was); err != nil {
				return err
			}
			return s.ConfigMap.SaveApplied(tx, scantest.Config(t, c.config...), "1")
		})
		found, _, err := decideAll(t, s)
		if err != nil || len(found.Modules) != 1 {
			t.Fatalf("%s: %+v, %v", name, found.Modules, err)
		}
		d := found.Modules[0]
		if d.Enabled != c.enabled || (d.Broken != "") != c.broken || c.broken && !strings.Contains(d.Broken, "web.size must be of type integer") {
			t.Errorf("%s: %+v, want enabled: %t, broken by the schema: %t", name, d, c.enabled, c.broken)
		}
	}
}
