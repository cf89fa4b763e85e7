package scan_test

import (
	"os"
	"path/filepath"
	"testing"

	"addon-operator/internal/module"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

func TestAFailedTaskReadsTheDirectoriesAgain(t *testing.T) {
	t.Parallel()
	state, mounted := scantest.New(t)
	scantest.Scan(t, state)
	scantest.Write(t, mounted, "020-new/values.yaml", "")
	task := workflow.Task{Task: store.Task{Subject: graph.Subject{Module: "web"}}}
	found := func(when string, want bool) {
		t.Helper()
		if err := state.ScanAfter(task); err != nil {
			t.Fatal(err)
		}
		if _, has := state.Modules.Disk().Find("new"); has != want {
			t.Errorf("%s: the new module is read: %t", when, has)
		}
	}
	found("the first attempt", false)
	task.Failed = &store.Failure{}
	found("after a failure", true)
}

func TestModulesOfThePreviousScanStayInUseAfterAnError(t *testing.T) {
	t.Parallel()
	state, mounted := scantest.New(t)
	scantest.Scan(t, state)
	if err := os.Rename(mounted, filepath.Join(filepath.Dir(mounted), "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if set, err := state.Scan(); err == nil {
		t.Errorf("a directory that is gone was read: %+v", set)
	}
	if modules := state.Modules.Disk().Modules; len(modules) != 1 || modules[0].Name != "web" || modules[0].Chart != module.NoChart {
		t.Errorf("modules in use: %+v", modules)
	}
}
