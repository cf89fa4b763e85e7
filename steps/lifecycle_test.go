package steps

import (
	"testing"

	"addon-operator/steps/scan"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
)

func TestEachNodeOfTheLifecycleHasOneStep(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	l := New(Options{State: scan.Options{DB: db}})
	if _, err := workflow.New(db, workflow.Observer{}, l.Implementation()); err != nil {
		t.Error(err)
	}
}
