package configmap

import (
	"context"
	"testing"
	"time"

	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
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

func (d decider) Keeps(ctx context.Context, _ workflow.Task, _ *store.DB, _ module.Module, _ values.Config) (bool, error) {
	return d(ctx), ctx.Err()
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
