package configmap

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// judgedModules returns a state with the module web and with the module judged, which has this enabled script.
func judgedModules(t *testing.T, script string) *scan.State {
	t.Helper()
	state, mounted := scantest.New(t)
	scantest.Write(t, mounted, "values.yaml", "webEnabled: true\njudgedEnabled: true\n")
	scantest.Program(t, mounted, "020-judged/enabled", script)
	scantest.Scan(t, state)
	return state
}

// changeOfJudged returns a change of the ConfigMap to this content while a failing task delays the main queue. The
// modules web and judged have run.
func changeOfJudged(now values.Config) configChange {
	return configChange{
		now: now, failing: true, record: store.AppliedConfig{At: time.Now()},
		startup: store.Startup{StartRun: 4, Enabled: []string{"web", "judged"}},
		modules: map[string]store.Module{"web": {State: store.On, RanInStart: 4}, "judged": {State: store.On, RanInStart: 4}},
	}
}

// A decider decides with a function that gets the context of the decision.
type decider func(context.Context) bool

func (d decider) Keeps(ctx context.Context, _ workflow.Task, _ *store.DB, _ module.Module, _ values.Config, _ []string) (bool, error) {
	return d(ctx), ctx.Err()
}

func TestAnEnabledScriptGetsThePrecedingModulesThatTheChangeLeavesEnabled(t *testing.T) {
	t.Parallel()
	// The script enables its module if the module web is enabled.
	state := judgedModules(t, "#!/bin/sh\ngrep -q '\"enabledModules\":\\[\"web\"\\]' $VALUES_PATH && echo true >$MODULE_ENABLED_RESULT || echo false >$MODULE_ENABLED_RESULT\n")
	for name, c := range map[string]struct {
		flag string
		want []string
	}{"the module stays enabled": {"true", []string{"judged"}}, "the change disables the module": {"false", nil}} {
		change := changeOfJudged(scantest.Config(t, "webEnabled", c.flag, "judged", "{size: 2}"))
		if diff := cmp.Diff(c.want, affected(t, state, change)[lifecycle.Changed]); diff != "" {
			t.Errorf("%s: modules to run at once (-want +got):\n%s", name, diff)
		}
	}
}

func TestAnEnabledScriptThatDoesNotEndDelaysTheConfigMapOnlyForALimitedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := judgedModules(t, "")
		hangs := decider(func(ctx context.Context) bool {
			<-ctx.Done()
			return true
		})
		change := changeOfJudged(scantest.Config(t, "web", "{size: 2}", "judged", "{size: 2}"))
		lists, err := New(state, nil, hangs, nil).affected(t.Context(), workflow.Task{}, change)
		if diff := cmp.Diff(graph.ModuleItems([]string{"web"}), lists[lifecycle.Changed]); err != nil || diff != "" {
			t.Errorf("%v; modules to run at once (-want +got):\n%s", err, diff)
		}
	})
}

func TestACanceledAttemptAppliesNoChangeOfAModuleWithAnEnabledScript(t *testing.T) {
	t.Parallel()
	state := judgedModules(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	canceled := decider(func(context.Context) bool {
		cancel()
		return true
	})
	change := changeOfJudged(scantest.Config(t, "judged", "{size: 2}"))
	if lists, err := New(state, nil, canceled, nil).affected(ctx, workflow.Task{}, change); err == nil {
		t.Errorf("modules %v without an error", lists)
	}
}

func TestNoEnabledScriptRunsBeforeAReloadOfAllModules(t *testing.T) {
	t.Parallel()
	state := judgedModules(t, "")
	for name, alter := range map[string]func(*configChange){
		"global values change":              func(c *configChange) { c.now.Sections[values.Global] = map[string]any{"a": int64(1)} },
		"no content was in force":           func(c *configChange) { c.record.At = time.Time{} },
		"a module that could not be loaded": func(c *configChange) { c.modules["judged"] = store.Module{State: store.On, Broken: "bad values"} },
	} {
		ran := false
		runs := decider(func(context.Context) bool {
			ran = true
			return true
		})
		change := changeOfJudged(scantest.Config(t, "judged", "{size: 2}"))
		alter(&change)
		lists, err := New(state, nil, runs, nil).affected(t.Context(), workflow.Task{}, change)
		if err != nil || ran || len(lists[lifecycle.Changed])+len(lists[lifecycle.ChangedUnstarted]) > 0 {
			t.Errorf("%s: the script has run: %t; modules %v, error %v", name, ran, lists, err)
		}
	}
}
