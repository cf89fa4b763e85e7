package converge

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/steps/hooks"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
)

func TestProblemsOfAllModulesAreKnownBeforeTheFirstHookRuns(t *testing.T) {
	s, _ := scantest.NewBroken(t)
	step := &startStep{state: s, hooks: hooks.New(s.DB, s.Log, scantest.Runner(t), s.Modules)}
	o, err := step.Prepare(t.Context(), workflow.Task{})
	if err != nil {
		t.Fatal(err)
	}
	scantest.Update(t, s.DB, func(tx *store.Tx) error { _, err := step.Apply(tx, workflow.Task{}, o); return err })
	if diff := cmp.Diff(scantest.Broken, scantest.RecordedBroken(t, s.DB)); diff != "" {
		t.Errorf("broken modules (-want +got):\n%s", diff)
	}
}
