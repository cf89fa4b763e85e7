package configmap

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/charts"
	"addon-operator/steps/decide"
	"addon-operator/steps/desired"
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/steps/sections"
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

func TestAFailingTaskDelaysTheMainQueueIfItIsInThisQueueOrAwaited(t *testing.T) {
	t.Parallel()
	state, _ := scantest.New(t)
	task := func(slot uint64, node graph.NodeID, failed bool) *store.Task {
		task := &store.Task{ID: store.ID{Epoch: 1, N: slot + 1}, Run: 1, Node: string(node), Pos: store.Pos{Queue: workflow.Main, Slot: slot}}
		if failed {
			task.Failed = &store.Failure{}
		}
		return task
	}
	fanOut := func(task *store.Task) *store.Task {
		task.FanOut = &store.FanOut{Len: 1, Next: 1, Open: 1}
		return task
	}
	in := func(queue string, task, parent *store.Task) *store.Task {
		task.Queue = queue
		task.ID.Epoch++
		if parent != nil {
			task.Parent = &store.Ref{ID: parent.ID, Pos: parent.Pos, Lags: parent.FanOut == nil}
		}
		return task
	}
	var (
		modules = fanOut(task(store.FirstSlot, lifecycle.ModuleRun, false))
		run     = in("parallel-0", fanOut(task(store.FirstSlot+1, lifecycle.ModuleSynchronization, false)), modules)
		last    = task(store.FirstSlot, lifecycle.GlobalAfterAll, false)
	)
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
		"a task of another queue":  {[]*store.Task{modules, in("q", task(store.FirstSlot, lifecycle.ModuleKubernetesEvent, true), nil)}, false},
		"an awaited task":          {[]*store.Task{modules, in("parallel-0", task(store.FirstSlot, lifecycle.ModuleRun, true), modules)}, true},
		"an awaited task runs":     {[]*store.Task{modules, in("parallel-0", task(store.FirstSlot, lifecycle.ModuleRun, false), modules)}, false},
		"an awaited task of a run": {[]*store.Task{modules, run, in("q", task(store.FirstSlot, lifecycle.ModuleSynchronization, true), run)}, true},
		"a task before an awaited one": {
			[]*store.Task{
				modules, in("q", task(store.FirstSlot, lifecycle.ModuleKubernetesEvent, true), nil),
				in("q", task(store.FirstSlot+1, lifecycle.ModuleSynchronization, false), modules),
			}, true,
		},
		"the task of the ConfigMap failed before an awaited one": {
			[]*store.Task{
				task(store.FirstSlot-1, lifecycle.ConfigMapChanged, true), modules, run,
				in(workflow.Main, task(store.FirstSlot+2, lifecycle.ModuleSynchronization, false), run),
			}, false,
		},
		"a run that the last step awaits": {[]*store.Task{last, in("parallel-module-web", task(store.FirstSlot, lifecycle.ModuleRun, true), last)}, false},
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

// scripts runs the enabled scripts of modules.
type scripts struct{ *hook.Runner }

func (s scripts) RunScript(ctx context.Context, _ workflow.Task, run hook.EnabledRun) (enabled bool, reason string, err error) {
	return s.Enabled(ctx, run)
}

// stepOf returns a step that has no charts and runs the enabled scripts of modules.
func stepOf(t *testing.T, state *scan.State) *Step {
	t.Helper()
	runner := scantest.Runner(t)
	return New(state, nil, decide.New(state.Values, hooks.New(state.DB, state.Log, runner, state.Modules), scripts{runner}), nil)
}

// affected returns the names of the modules that a change affects, by fan-out.
func affected(t *testing.T, state *scan.State, c configChange) map[graph.FanOut][]string {
	t.Helper()
	c.record.At = time.Now()
	lists, err := stepOf(t, state).affected(t.Context(), workflow.Task{}, c)
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
			now: c.now, configured: !c.absent, failing: c.failing, modules: started,
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
	step := New(state, nil, nil, nil)
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

func TestADisabledModuleWhoseObjectsAnEnabledOneCanTakeOverIsLeftToTheReload(t *testing.T) {
	t.Parallel()
	object := func(version, kind string) *store.Release {
		return &store.Release{Objects: []store.Object{
			{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ops", Name: "web"}, {APIVersion: version, Kind: kind, Namespace: "ops", Name: "web"},
		}}
	}
	for name, c := range map[string]struct {
		files    map[string]string // of the enabled module
		release  *store.Release    // of the disabled module
		deferred bool
	}{
		"a module without a chart":            {nil, object("v1", "Secret"), false},
		"the record of the release is lost":   {nil, nil, true},
		"hooks, and no data":                  {map[string]string{"hooks/h.sh": ""}, object("apps/v1", "Deployment"), false},
		"hooks, and an Ingress":               {map[string]string{"hooks/h.sh": ""}, object("networking.k8s.io/v1", "Ingress"), false},
		"hooks, and a Role":                   {map[string]string{"hooks/h.sh": ""}, object("rbac.authorization.k8s.io/v1", "Role"), false},
		"hooks, and a Secret":                 {map[string]string{"hooks/h.sh": ""}, object("v1", "Secret"), true},
		"hooks, and a volume":                 {map[string]string{"hooks/h.sh": ""}, object("v1", "PersistentVolumeClaim"), true},
		"hooks, and a snapshot":               {map[string]string{"hooks/h.sh": ""}, object("snapshot.storage.k8s.io/v1", "VolumeSnapshot"), true},
		"hooks, and a definition":             {map[string]string{"hooks/h.sh": ""}, object("apiextensions.k8s.io/v1", "CustomResourceDefinition"), true},
		"hooks, and a custom resource":        {map[string]string{"hooks/h.sh": ""}, object("example.com/v1", "Database"), true},
		"the enabled module cannot be loaded": {map[string]string{"values.yaml": "new: ["}, object("v1", "ConfigMap"), true},
	} {
		state, mounted := scantest.New(t)
		scantest.Write(t, mounted, "values.yaml", "webEnabled: true\n")
		scantest.Write(t, mounted, "020-new/values.yaml", "")
		for file, text := range c.files {
			scantest.Program(t, mounted, "020-new/"+file, text)
		}
		scantest.Scan(t, state)
		change := configChange{
			now: scantest.Config(t, "webEnabled", "false", "newEnabled", "true"), configured: true, failing: true,
			modules: map[string]store.Module{"web": {State: store.On}, "new": {State: store.Off}}, releases: map[string]*store.Release{"web": c.release},
		}
		step := New(state, charts.New(state.DB, state.Log, nil, state.Modules, state.Values, nil), nil, nil)
		lists, err := step.affected(t.Context(), workflow.Task{}, change)
		want := graph.ModuleItems([]string{"web"})
		if c.deferred {
			want = graph.ModuleItems(nil)
		}
		if diff := cmp.Diff(want, lists[lifecycle.SwitchedOff]); err != nil || diff != "" {
			t.Errorf("%s: %v; modules to delete at once (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestOnlyInstalledModulesThatCanBeLoadedAreDeletedAtOnce(t *testing.T) {
	t.Parallel()
	state, mounted := scantest.New(t)
	scantest.Write(t, mounted, "values.yaml", "webEnabled: true\nbrokenEnabled: true\n")
	scantest.Write(t, mounted, "020-broken/values.yaml", "broken: [")
	scantest.Scan(t, state)
	on, off := store.Module{State: store.On}, store.Module{State: store.Off}
	for name, c := range map[string]struct {
		modules  map[string]store.Module
		released bool
		want     []string
	}{
		"on":                       {map[string]store.Module{"web": on}, false, []string{"web"}},
		"off":                      {map[string]store.Module{"web": off}, false, nil},
		"off, with a release":      {map[string]store.Module{"web": off}, true, []string{"web"}},
		"no discovery has seen it": {nil, true, nil},
		"broken":                   {map[string]store.Module{"broken": on}, true, nil},
	} {
		change := configChange{
			now: scantest.Config(t, "webEnabled", "false", "brokenEnabled", "false"), configured: true, failing: true, modules: c.modules,
		}
		if c.released {
			change.releases = map[string]*store.Release{"web": nil, "broken": nil}
		}
		if diff := cmp.Diff(c.want, affected(t, state, change)[lifecycle.SwitchedOff]); diff != "" {
			t.Errorf("%s: modules to delete at once (-want +got):\n%s", name, diff)
		}
	}
}

func TestAChangeOfTheConfigMapKnowsTheStateThatDecidesAboutIt(t *testing.T) {
	t.Parallel()
	state, _ := scantest.New(t)
	scantest.Scan(t, state)
	override := values.EnabledOverride{Value: true, Hook: "hooks/h.sh"}
	scantest.Update(t, state.DB, func(tx *store.Tx) error {
		tx.Put(store.ReleaseKey("lost"), []byte(`{"revision":`))
		return errors.Join(
			state.ConfigMap.SaveApplied(tx, scantest.Config(t, "webEnabled", "true"), "1"),
			store.Save(tx, store.EnabledOverridesKey(), map[string]values.EnabledOverride{"dbEnabled": override}),
			store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On}), store.Save(tx, store.ModuleKey("lost"), store.Module{State: store.On}),
			store.Save(tx, store.ModuleKey("idle"), store.Module{State: store.Off}), store.Save(tx, store.ReleaseKey("web"), store.Release{Revision: 2}),
		)
	})
	now := scantest.Config(t, "webEnabled", "false")
	for _, read := range []readConfig{{ResourceVersion: "2", Config: now}, {ResourceVersion: "2", OnlyHooks: true, Config: now}, {ResourceVersion: "2", Error: "bad"}} {
		invalid := read.Error != ""
		scantest.Update(t, state.DB, func(tx *store.Tx) error {
			defer tx.Delete(store.ReleaseKey("none"))
			c, err := readChange(tx, read)
			if diff := cmp.Diff(map[string]bool{"webEnabled": true}, c.before.Flags); diff != "" || c.record.ResourceVersion != "1" {
				t.Errorf("invalid content: %t: in force is version %s (-want +got):\n%s", invalid, c.record.ResourceVersion, diff)
			}
			if invalid {
				return err
			}
			if diff := cmp.Diff(map[string]*store.Release{"web": {Revision: 2}, "lost": nil}, c.releases); diff != "" {
				t.Errorf("releases (-want +got):\n%s", diff)
			}
			if c.configured == read.OnlyHooks || c.failing || len(c.modules) != 3 || c.enabledOverrides["dbEnabled"] != override || c.now.Flags["webEnabled"] {
				t.Errorf("the change is %+v", c)
			}
			return err
		})
	}
	scantest.Update(t, state.DB, func(tx *store.Tx) error { tx.Delete(store.ReleaseKey("lost")); return nil })
}

func TestWhatAHookIsWritingIsLeftOutOfAChangeAndStaysInTheContentThatWasRead(t *testing.T) {
	t.Parallel()
	state, _ := scantest.New(t)
	scantest.Scan(t, state)
	before := scantest.Config(t, "web", "{size: 1}")
	yes := true
	w, err := sections.PlanConfigWrite(before, "web", []values.Op{{Op: "add", Path: "/web/size", Value: json.RawMessage("2")}}, map[string]*bool{"newEnabled": &yes})
	if err != nil {
		t.Fatal(err)
	}
	effect, err := desired.EffectOf(*w)
	if err != nil {
		t.Fatal(err)
	}
	content := []string{"web", "{size: 2}", "newEnabled", "true", "dbEnabled", "true"}
	read := readConfig{ResourceVersion: "2", Config: scantest.Config(t, content...)}
	scantest.Update(t, state.DB, func(tx *store.Tx) error {
		journal := store.JournalKey(store.ID{Epoch: 1, N: 1})
		if err := store.Save(tx, journal, workflow.Outcome{Effects: []workflow.Effect{effect}}); err != nil {
			return err
		}
		defer tx.Delete(journal) // deleted at the end, because the journal belongs to no task
		if err := state.ConfigMap.SaveApplied(tx, before, "1"); err != nil {
			return err
		}
		c, err := readChange(tx, read)
		if diff := cmp.Diff(scantest.Config(t, "web", "{size: 1}", "dbEnabled", "true"), c.now); diff != "" {
			t.Errorf("the content after the change (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(scantest.Config(t, content...), read.Config); diff != "" {
			t.Errorf("the content that was read (-want +got):\n%s", diff)
		}
		return err
	})
}
