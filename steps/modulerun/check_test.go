package modulerun

import (
	"context"
	"errors"
	"strings"
	"testing"

	"addon-operator/steps/hooks"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

func TestARunOfAModuleThatCannotBeLoadedEndsAndSaysWhy(t *testing.T) {
	s, _ := scantest.NewBroken(t)
	step := &checkStep{state: s, hooks: hooks.New(s.DB, s.Log, scantest.Runner(t), s.Modules)}
	for name, want := range map[string]string{"yaml": "values.yaml", "hook": "hooks/bad.sh --config", "asleep": "cannot be executed"} {
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			return store.Save(tx, store.ModuleKey(name), store.Module{State: store.On, Enabled: true})
		})
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			return s.ConfigMap.SaveApplied(tx, scantest.Config(t, name+"Enabled", "true"), "1")
		})
		task := workflow.Task{Task: store.Task{Subject: graph.Subject{Module: name}}}
		o, err := step.Do(t.Context(), task)
		if err != nil || !strings.Contains(o.Detail, want) {
			t.Errorf("module %s: %q, %v; want an end that names %s", name, o.Detail, err, want)
			continue
		}
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			facts, err := step.Apply(tx, task, o)
			if len(facts) > 0 {
				t.Errorf("module %s is run: %v", name, facts)
			}
			return err
		})
		if got := scantest.RecordedBroken(t, s.DB)[name]; got != want {
			t.Errorf("module %s is broken by %q, want %q", name, got, want)
		}
	}
}

func TestARunThatIsInterruptedDoesNotBreakItsModule(t *testing.T) {
	s, _ := scantest.NewBroken(t)
	step := &checkStep{state: s, hooks: hooks.New(s.DB, s.Log, scantest.Runner(t), s.Modules)}
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		return errors.Join(s.ConfigMap.SaveApplied(tx, scantest.Config(t, "webEnabled", "true"), "1"),
			store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, Enabled: true}))
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o, err := step.Do(ctx, workflow.Task{Task: store.Task{Subject: graph.Subject{Module: "web"}}}); err == nil {
		t.Errorf("the run ended with %q", o.Detail)
	}
}
