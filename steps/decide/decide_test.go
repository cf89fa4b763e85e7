package decide

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/steps/hooks"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
)

func TestAModuleThatCannotBeLoadedIsNotAmongThoseToRunAndStaysAsItWas(t *testing.T) {
	s, _ := scantest.NewBroken(t)
	configs := hooks.New(s.DB, s.Log, scantest.Runner(t), s.Modules)
	decider := New(s.Values, configs, nil)
	for _, was := range []bool{true, false} {
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			for _, name := range []string{"web", "yaml", "hook", "asleep", "off"} {
				record := store.Module{State: store.On, Enabled: was, Broken: "before"}
				if err := store.Save(tx, store.ModuleKey(name), record); err != nil {
					return err
				}
			}
			return nil
		})
		var k *Known
		if err := s.DB.View(func(tx *store.Tx) (err error) {
			k, err = decider.Load(tx, s.Modules.Disk())
			return err
		}); err != nil {
			t.Fatal(err)
		}
		found, err := decider.Check(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		if err := decider.Decide(t.Context(), workflow.Task{}, k, &found); err != nil {
			t.Fatal(err)
		}
		var checked []hooks.Checked
		for _, d := range found.Modules {
			checked = append(checked, hooks.Checked{Name: d.Name, Order: d.Order, Broken: d.Broken})
		}
		enabled := []string{"web"}
		if was {
			enabled = []string{"web", "yaml", "hook", "asleep", "off"}
		}
		if diff := cmp.Diff(enabled, found.Enabled); diff != "" {
			t.Errorf("enabled, where they were before: %t (-want +got):\n%s", was, diff)
		}
		if diff := cmp.Diff([]string{"web"}, found.Runnable()); diff != "" {
			t.Errorf("to run, where they were enabled before: %t (-want +got):\n%s", was, diff)
		}
		scantest.Update(t, s.DB, func(tx *store.Tx) error { return hooks.SaveBroken(tx, checked) })
		if diff := cmp.Diff(scantest.Broken, scantest.RecordedBroken(t, s.DB)); diff != "" {
			t.Errorf("broken modules (-want +got):\n%s", diff)
		}
	}
}
