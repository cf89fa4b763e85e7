package converge

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

func TestProblemsOfAllModulesAreKnownBeforeTheFirstHookRuns(t *testing.T) {
	s, _ := scantest.NewBroken(t)
	step := &startStep{state: s, hooks: hooks.New(s.DB, s.Log, scantest.Runner(t), s.Modules)}
	o, err := step.Prepare(t.Context(), workflow.Task{})
	if err != nil {
		t.Fatal(err)
	}
	scantest.Update(t, s.DB, func(tx *store.Tx) error { return step.ApplyPrepared(tx, workflow.Task{}, o) })
	if diff := cmp.Diff(scantest.Broken, scantest.RecordedBroken(t, s.DB)); diff != "" {
		t.Errorf("broken modules (-want +got):\n%s", diff)
	}
}

// globalHook is the script of a global hook that prints its configuration.
const globalHook = "#!/bin/sh\necho '{\"configVersion\": \"v1\", \"onStartup\": 1}'\n"

// newStart returns a startStep, and the directory of global hooks, which contains the hook a.sh.
func newStart(t *testing.T, runner *hook.Runner) (step *startStep, globals string) {
	t.Helper()
	o, mounted, _ := scantest.Options(t)
	o.GlobalHooksDir = t.TempDir()
	scantest.Write(t, mounted, "values.yaml", "global: {size: 1}")
	scantest.Program(t, o.GlobalHooksDir, "hooks/a.sh", globalHook)
	s := scan.New(o, nil)
	scantest.Scan(t, s)
	return &startStep{ItemStep: outputStep{}, state: s, hooks: hooks.New(s.DB, s.Log, runner, s.Modules)}, o.GlobalHooksDir
}

// outputStep is an ItemStep whose Apply returns a fact, so that tests see that it was called.
type outputStep struct{ workflow.ItemStep }

func (outputStep) Apply(*store.Tx, workflow.Task, workflow.Outcome) ([]graph.Fact, error) {
	return []graph.Fact{"output of a hook"}, nil
}

// globalHooks returns the names of the recorded global hooks.
func globalHooks(t *testing.T, db *store.DB) (names []string) {
	t.Helper()
	scantest.Update(t, db, func(tx *store.Tx) error {
		all, err := bindings.LoadHooks(tx, "")
		for _, h := range all {
			names = append(names, h.File.Name)
		}
		return err
	})
	return names
}

func TestTheStartReplacesTheRecordsOfGlobalHooks(t *testing.T) {
	step, globals := newStart(t, scantest.Runner(t))
	prepare := func(detail string, want ...string) {
		t.Helper()
		o, err := step.Prepare(t.Context(), workflow.Task{})
		if err != nil || o.Detail != detail {
			t.Fatalf("the history says %q, %v; want %q", o.Detail, err, detail)
		}
		before := globalHooks(t, step.state.DB)
		for range 2 { // the second attempt changes nothing
			scantest.Update(t, step.state.DB, func(tx *store.Tx) error { return step.ApplyPrepared(tx, workflow.Task{}, o) })
			if diff := cmp.Diff(want, globalHooks(t, step.state.DB)); diff != "" {
				t.Errorf("after %q, the recorded hooks are (-want +got):\n%s", before, diff)
			}
		}
	}
	prepare("1 hooks", "hooks/a.sh")
	scantest.Program(t, globals, "hooks/b.sh", globalHook)
	prepare("2 hooks", "hooks/a.sh", "hooks/b.sh")
	if err := os.Remove(filepath.Join(globals, "hooks/a.sh")); err != nil {
		t.Fatal(err)
	}
	prepare("1 hooks", "hooks/b.sh")
	for what, task := range map[string]store.Task{
		"an item of the fan-out": {Prepared: true}, "a task of its own, as after a quarantine or a pause": {OwnQueue: true},
	} {
		scantest.Update(t, step.state.DB, func(tx *store.Tx) error {
			facts, err := step.Apply(tx, workflow.Task{Task: task}, workflow.Outcome{Data: json.RawMessage(`{}`)})
			if diff := cmp.Diff([]graph.Fact{"output of a hook"}, facts); diff != "" {
				t.Errorf("%s: facts of a hook (-want +got):\n%s", what, diff)
			}
			return err
		})
		if diff := cmp.Diff([]string{"hooks/b.sh"}, globalHooks(t, step.state.DB)); diff != "" {
			t.Errorf("%s: after the output of a hook, the recorded hooks are (-want +got):\n%s", what, diff)
		}
	}
}

func TestTheStartFailsWithoutTheGlobalHooksOrValues(t *testing.T) {
	runner := scantest.Runner(t)
	for name, c := range map[string]struct {
		change func(t *testing.T, step *startStep, globals string)
		want   []string
	}{
		"a hook that does not print its config": {func(t *testing.T, _ *startStep, globals string) {
			t.Helper()
			scantest.Program(t, globals, "hooks/bad.sh", "#!/bin/sh\necho no cluster >&2; exit 3\n")
		}, []string{"hooks/bad.sh --config", "no cluster"}},
		"a hook with a binding for modules": {func(t *testing.T, _ *startStep, globals string) {
			t.Helper()
			scantest.Program(t, globals, "hooks/bad.sh", scantest.GoodHook)
		}, []string{"hooks/bad.sh --config", "beforeHelm"}},
		"an empty directory, and there were hooks": {func(t *testing.T, step *startStep, globals string) {
			t.Helper()
			scantest.Update(t, step.state.DB, func(tx *store.Tx) error {
				return store.Save(tx, store.HookKey("", "hooks/a.sh"), store.Hook{File: json.RawMessage(`{"name":"hooks/a.sh"}`), Config: json.RawMessage(`{}`)})
			})
			if err := os.RemoveAll(filepath.Join(globals, "hooks")); err != nil {
				t.Fatal(err)
			}
		}, []string{"GLOBALS holds no hook", "--startup=clean"}},
		"values that the schema rejects": {func(t *testing.T, step *startStep, globals string) {
			t.Helper()
			scantest.Write(t, globals, "openapi/config-values.yaml", "properties: {size: {type: string}}")
			scantest.Scan(t, step.state)
		}, []string{"GLOBALS/openapi/config-values.yaml", "global.size must be of type string"}},
	} {
		step, globals := newStart(t, runner)
		c.change(t, step, globals)
		before := globalHooks(t, step.state.DB)
		_, err := step.Prepare(t.Context(), workflow.Task{})
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range c.want {
			if text := strings.ReplaceAll(err.Error(), globals, "GLOBALS"); !strings.Contains(text, want) {
				t.Errorf("%s: %s, want %q in it", name, text, want)
			}
		}
		if diff := cmp.Diff(before, globalHooks(t, step.state.DB)); diff != "" {
			t.Errorf("%s: recorded hooks (-want +got):\n%s", name, diff)
		}
	}
}

func TestASavedGlobalValueThatTheSchemaRejectsIsDroppedAtTheStart(t *testing.T) {
	step, globals := newStart(t, scantest.Runner(t))
	scantest.Write(t, globals, "openapi/values.yaml", "properties: {size: {type: integer}, kept: {type: integer}}")
	scantest.Scan(t, step.state)
	saved := []values.Saved{
		{Op: values.Op{Op: "add", Path: "/global/size", Value: json.RawMessage(`"large"`)}, Hook: "hooks/a.sh"},
		{Op: values.Op{Op: "add", Path: "/global/kept", Value: json.RawMessage(`2`)}, Hook: "hooks/a.sh"},
	}
	scantest.Update(t, step.state.DB, func(tx *store.Tx) error { return store.Save(tx, store.SavedKey(values.Global), saved) })
	o, err := step.Prepare(t.Context(), workflow.Task{})
	if want := "1 hooks, saved values dropped that the schemas no longer accept: /global/size"; err != nil || o.Detail != want {
		t.Fatalf("the history says %q, %v; want %q", o.Detail, err, want)
	}
	scantest.Update(t, step.state.DB, func(tx *store.Tx) error {
		if err := step.ApplyPrepared(tx, workflow.Task{}, o); err != nil {
			return err
		}
		left, _, err := store.Load[[]values.Saved](tx, store.SavedKey(values.Global))
		if len(left) != 1 || left[0].Path != "/global/kept" {
			t.Errorf("saved values: %+v", left)
		}
		return err
	})
}
