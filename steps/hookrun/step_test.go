package hookrun_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/steps/hookio"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

func TestOnlyEventsAndSchedulesOfModuleHooksReportChangedGlobalValues(t *testing.T) {
	s, _ := scantest.New(t)
	scantest.Scan(t, s)
	hooks := newHooks(s)
	for i, c := range []struct {
		node graph.NodeID
		want []graph.Fact
	}{
		{lifecycle.ModuleOnStartup, nil},
		{lifecycle.ModuleBeforeHelm, nil},
		{lifecycle.ModuleAfterHelm, nil},
		{lifecycle.ModuleAfterDelete, nil},
		{lifecycle.ModuleKubernetesEvent, []graph.Fact{lifecycle.GlobalChanged}},
		{lifecycle.ModuleScheduleEvent, []graph.Fact{lifecycle.GlobalChanged}},
	} {
		in := codeBench{t: t, s: s, hooks: hooks, module: "web"}.input()
		o, err := hookio.NewOutput("web").Outcome(in, hook.Result{ValuesPatch: fmt.Appendf(nil, `{"op":"add","path":"/global/a","value":%d}`, i)})
		if err != nil {
			t.Fatal(err)
		}
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			task := workflow.Task{Task: store.Task{Subject: graph.Subject{Module: "web", Hook: "hook.sh"}}}
			facts, err := hooks.Step(c.node).Apply(tx, task, o)
			if diff := cmp.Diff(c.want, facts); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.node, diff)
			}
			return err
		})
	}
}

func TestEventsOfAModuleThatCannotBeLoadedWaitAndBlockNobody(t *testing.T) {
	s, _ := scantest.NewBroken(t)
	step := newHooks(s).Step(lifecycle.ModuleKubernetesEvent)
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		return errors.Join(
			store.Save(tx, store.ModuleKey("yaml"), store.Module{State: store.On, Enabled: true, Broken: "values.yaml: bad\nand more"}),
			store.Save(tx, store.ModuleKey("lost"), store.Module{State: store.On, Enabled: true, Missing: true}),
		)
	})
	for name, want := range map[string]string{"yaml": "module yaml cannot be loaded: values.yaml: bad", "lost": "module lost has no directory", "web": ""} {
		if err := s.DB.View(func(tx *store.Tx) error {
			awaits, err := step.Gate(tx, &store.Task{Subject: graph.Subject{Module: name, Hook: "hooks/hook.sh", Binding: "b"}})
			if awaits != want {
				t.Errorf("module %s: events await %q, want %q", name, awaits, want)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}
