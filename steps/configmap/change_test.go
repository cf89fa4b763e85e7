package configmap

import (
	"slices"
	"testing"

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

func TestOnlyAFlagOfTheConfigMapThatIsNewlyFalseSwitchesAModuleOff(t *testing.T) {
	t.Parallel()
	enabled := []module.Decision{{Enabled: true, Source: module.SourceModuleFile}}
	disk := module.Set{Modules: []module.Module{{Name: "web", Key: "web", Flags: enabled}, {Name: "idle", Key: "idle"}}}
	no, yes := map[string]bool{"webEnabled": false, "idleEnabled": false}, map[string]bool{"webEnabled": true}
	for name, c := range map[string]struct {
		module      string
		before, now map[string]bool
		want        bool
	}{
		"the flag is new":            {"web", nil, no, true},
		"it was true":                {"web", yes, no, true},
		"it was false before":        {"web", no, no, false},
		"it is true":                 {"web", nil, yes, false},
		"it is gone":                 {"web", yes, nil, false},
		"the module was not enabled": {"idle", nil, no, false},
		"there is no such module":    {"other", nil, map[string]bool{"otherEnabled": false}, false},
	} {
		change := configChange{before: values.Config{Flags: c.before}, now: values.Config{Flags: c.now}}
		if got := change.switchesOff(disk, c.module); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestATaskOfTheMainQueueThatWaitsForItsRetryMakesTheQueueFail(t *testing.T) {
	t.Parallel()
	state, _ := scantest.New(t)
	task := func(slot uint64, node graph.NodeID, failed bool) *store.Task {
		task := &store.Task{ID: store.ID{Epoch: 1, N: slot + 1}, Run: 1, Node: string(node), Pos: store.Pos{Queue: workflow.Main, Slot: slot}}
		if failed {
			task.Failed = &store.Failure{}
		}
		return task
	}
	for name, c := range map[string]struct {
		tasks []*store.Task
		want  bool
	}{
		"an empty queue":                   {nil, false},
		"the first task runs":              {[]*store.Task{task(store.FirstSlot, lifecycle.ModuleRun, false)}, false},
		"the first task has failed":        {[]*store.Task{task(store.FirstSlot, lifecycle.ModuleRun, true)}, true},
		"the task of the ConfigMap failed": {[]*store.Task{task(store.FirstSlot-1, lifecycle.ConfigMapChanged, true)}, false},
		"it failed before a failed task": {
			[]*store.Task{task(store.FirstSlot-1, lifecycle.ConfigMapChanged, true), task(store.FirstSlot, lifecycle.ModuleRun, true)}, true,
		},
		"a later task": {
			[]*store.Task{task(store.FirstSlot, lifecycle.ModuleRun, false), task(store.FirstSlot+1, lifecycle.ModuleRun, true)}, false,
		},
	} {
		scantest.Update(t, state.DB, func(tx *store.Tx) error {
			for _, task := range c.tasks {
				if err := store.SaveTask(tx, task); err != nil {
					return err
				}
			}
			got, err := mainFails(tx)
			if got != c.want {
				t.Errorf("%s: %t", name, got)
			}
			for _, task := range c.tasks {
				store.DropTask(tx, task)
			}
			return err
		})
	}
}

// affected returns the modules that a change affects, by fan-out.
func affected(t *testing.T, state *scan.State, c configChange) map[graph.FanOut][]string {
	t.Helper()
	lists, err := New(state, nil, nil).affected(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	found := map[graph.FanOut][]string{}
	for list, items := range lists {
		for _, item := range items {
			found[list] = append(found[list], item.Subject.Module)
		}
	}
	return found
}

func TestModulesThatAChangeOfTheConfigMapAffects(t *testing.T) {
	t.Parallel()
	state, mounted := scantest.New(t)
	scantest.Write(t, mounted, "values.yaml", "webEnabled: true\ndbEnabled: true\n")
	scantest.Write(t, mounted, "020-db/values.yaml", "")
	scantest.Scan(t, state)
	section := values.Values{"web": map[string]any{"n": int64(1)}, "db": map[string]any{"n": int64(1)}}
	started := map[string]store.Module{"web": {State: store.On, RanInStart: 4}, "db": {State: store.On, RanInStart: 3}}
	off := map[string]bool{"webEnabled": false, "dbEnabled": false}
	for name, c := range map[string]struct {
		now             values.Config
		failing, absent bool
		want            map[graph.FanOut][]string
	}{
		"no change": {values.Config{}, false, false, map[graph.FanOut][]string{}},
		"sections change": {
			values.Config{Sections: section},
			false, false,
			map[graph.FanOut][]string{lifecycle.Changed: {"web"}, lifecycle.ChangedUnstarted: {"db"}},
		},
		"flags change, and a reload runs all": {values.Config{Sections: section, Flags: off}, false, false, map[graph.FanOut][]string{}},
		"flags change while the main queue fails": {
			values.Config{Flags: off}, true, false, map[graph.FanOut][]string{lifecycle.SwitchedOff: {"db", "web"}},
		},
		"the ConfigMap is gone while the main queue fails": {values.Config{Flags: off}, true, true, map[graph.FanOut][]string{}},
	} {
		change := configChange{
			now: c.now, exists: !c.absent, failing: c.failing, modules: started,
			startup: store.Startup{StartRun: 4, Enabled: []string{"web", "db"}},
		}
		if diff := cmp.Diff(c.want, affected(t, state, change)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSwitchedOffModulesOfContentThatIsNotInForce(t *testing.T) {
	t.Parallel()
	state, mounted := scantest.New(t)
	scantest.Write(t, mounted, "values.yaml", "webEnabled: true\n")
	scantest.Scan(t, state)
	step := New(state, nil, nil)
	want := func(when, version string, content map[string]string, want ...string) {
		t.Helper()
		names, err := step.DisabledBy(version, content)
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("%s: %q, %v; want %q", when, names, err, want)
		}
	}
	off := map[string]string{"webEnabled": "false"}
	want("nothing is in force yet", "2", off)
	scantest.Update(t, state.DB, func(tx *store.Tx) error { return state.ConfigMap.SaveApplied(tx, values.Config{}, "1") })
	want("the flag is false", "2", off, "web")
	want("the ConfigMap is gone", "", off)
	want("the content is invalid", "2", map[string]string{"webEnabled": "perhaps"})
	scantest.Update(t, state.DB, func(tx *store.Tx) error {
		return state.ConfigMap.SaveApplied(tx, scantest.Config(t, "webEnabled", "false"), "2")
	})
	want("the content is in force", "2", off)
}
