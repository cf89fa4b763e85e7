package discover

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"addon-operator/internal/helm"
	"addon-operator/internal/module"
	"addon-operator/steps/decide"
	"addon-operator/steps/hookrun"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/safety"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// silent implements Observer and Changes. Its methods do nothing.
type silent struct{ hookrun.Silent }

func (silent) HelmBegins(string, string) func() { return func() {} }
func (silent) DeletionBlocked([]string, string) {}
func (silent) ProblemsChanged()                 {}

// newDiscovery returns the discovery of the modules of state. The discovery can run hooks, but it has no cluster.
func newDiscovery(t *testing.T, state *scan.State, o Options) *Discovery {
	t.Helper()
	hooks := hookrun.New(hookrun.Options{Runner: scantest.Runner(t)}, state, nil, silent{})
	return New(o, state, Hooks{Configs: hooks.Configs, Scripts: hooks}, silent{}, silent{})
}

// inCluster returns the safety checks of a discovery that has found releases with these names. None of the releases is
// unknown.
func inCluster(o safety.Options, names ...string) *safety.Discovery {
	var releases []helm.Summary
	for _, name := range names {
		releases = append(releases, helm.Summary{Name: name})
	}
	return safety.New(o, oncelog.New(zerolog.Nop()), nil, silent{}).Discovery(releases, safety.Permission{Configured: true})
}

// decideWith scans the directories of state, and decides about the modules. The argument releases has the releases in
// the cluster.
func decideWith(t *testing.T, state *scan.State, releases *safety.Discovery) (found discovered, items map[graph.FanOut][]graph.Item, err error) {
	t.Helper()
	scantest.Scan(t, state)
	s := newDiscovery(t, state, Options{}).step
	var k *decide.Known
	if err := state.DB.View(func(tx *store.Tx) (err error) {
		k, err = s.decider.Load(tx, state.Modules.Disk())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if found.Decisions, err = s.decider.Check(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	items, err = s.decide(t.Context(), workflow.Task{}, k, releases, &found)
	return found, items, err
}

// A new image lacks the module "gone", and the safety check keeps the release of this module.
func TestAModuleThatDependsOnAKeptModuleIsNotDeleted(t *testing.T) {
	t.Parallel()
	o, mounted, _ := scantest.Options(t)
	o.GlobalHooksDir = t.TempDir()
	scantest.Write(t, mounted, "values.yaml", "webEnabled: true")
	scantest.Program(t, mounted, "010-web/enabled", "#!/bin/sh\ngrep -q '\"enabledModules\":\\[\"gone\"\\]' $VALUES_PATH && echo true >$MODULE_ENABLED_RESULT || echo false >$MODULE_ENABLED_RESULT\n")
	state := scan.New(o, nil)
	scantest.Update(t, state.DB, func(tx *store.Tx) error {
		return errors.Join(
			store.Save(tx, store.StartupKey(), store.Startup{Converged: 1, Enabled: []string{"gone", "web", "late"}}),
			store.Save(tx, store.ModuleKey("gone"), store.Module{State: store.On, Order: 5, Enabled: true}),
			store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, Order: 10, Enabled: true}),
			store.Save(tx, store.ModuleKey("late"), store.Module{State: store.On, Order: 20, Enabled: true}),
		)
	})
	for most, want := range map[int][][]string{0: {{"web"}, nil, nil}, 2: {nil, {"web"}, {"gone", "late"}}} { // at most this number of releases may be purged
		releases := inCluster(safety.Options{AllowPurge: most}, "gone", "late", "web")
		releases.Unknown = []string{"gone", "late"}
		_, items, err := decideWith(t, state, releases)
		if err != nil {
			t.Fatal(err)
		}
		got := [][]string{names(items[lifecycle.Enabled]), names(items[lifecycle.Disabled]), names(items[lifecycle.Unknown])}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("at most %d purges: to run, to delete, to purge (-want +got):\n%s", most, diff)
		}
	}
}

func TestErrorOfAnEnabledScriptNamesItOnceWithItsExitStatus(t *testing.T) {
	t.Parallel()
	o, mounted, _ := scantest.Options(t)
	o.GlobalHooksDir = t.TempDir()
	scantest.Write(t, mounted, "values.yaml", "webEnabled: true")
	scantest.Program(t, mounted, "010-web/enabled", "#!/bin/sh\necho cannot ask >&2\nexit 4\n")
	_, _, err := decideWith(t, scan.New(o, nil), inCluster(safety.Options{}))
	if want := "module web: enabled script: exit status 4: cannot ask"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestProblemOfAnOrphanedModuleIsDeletedWhenADiscoveryDisablesIt(t *testing.T) {
	t.Parallel()
	state, _ := scantest.New(t)
	d := newDiscovery(t, state, Options{})
	data, err := json.Marshal(discovered{Decisions: decide.Decisions{Modules: []decide.Module{{Name: "web"}}, Whole: true}})
	if err != nil {
		t.Fatal(err)
	}
	scantest.Update(t, state.DB, func(tx *store.Tx) error {
		_, err := store.SaveProblem(tx, store.Problem{Kind: store.OrphanedModule, Subject: graph.Subject{Module: "web"}, Error: "its addon is not registered"})
		return errors.Join(err, store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, Enabled: true}))
	})
	scantest.Update(t, state.DB, func(tx *store.Tx) error {
		if _, err := d.step.Apply(tx, workflow.Task{}, workflow.Outcome{Data: data}); err != nil {
			return err
		}
		left, err := store.AllProblems(tx)
		if len(left) > 0 {
			t.Errorf("problems after the transition: %+v", left)
		}
		return err
	})
}

func TestAModuleThatIsNotFoundIsForgottenIfAllDirectoriesAreSeen(t *testing.T) {
	t.Parallel()
	state, _ := scantest.New(t)
	d := newDiscovery(t, state, Options{})
	for _, whole := range []bool{false, true} {
		data, err := json.Marshal(discovered{Decisions: decide.Decisions{Modules: []decide.Module{{Name: "web"}}, Whole: whole}})
		if err != nil {
			t.Fatal(err)
		}
		scantest.Update(t, state.DB, func(tx *store.Tx) error {
			return errors.Join(store.Save(tx, store.ModuleKey("old"), store.Module{State: store.Off}), store.Save(tx, store.HookKey("old", "h"), store.Hook{}))
		})
		scantest.Update(t, state.DB, func(tx *store.Tx) error {
			if _, err := d.step.Apply(tx, workflow.Task{}, workflow.Outcome{Data: data}); err != nil {
				return err
			}
			_, known, err := store.Load[store.Module](tx, store.ModuleKey("old"))
			if hook := tx.Get(store.HookKey("old", "h")) != nil; known == whole || hook == whole {
				t.Errorf("whole %t: the module is known: %t, its hook: %t", whole, known, hook)
			}
			return err
		})
	}
}

// The directories may be missing by mistake, for example in a new image.
func TestAModuleWithoutADirectoryKeepsItsRecordsUntilItsReleaseIsDeleted(t *testing.T) {
	t.Parallel()
	state, _ := scantest.New(t)
	d := newDiscovery(t, state, Options{})
	records := map[string]store.Key{
		"values patches": store.SavedKey(sections.Of("old")), "hook": store.HookKey("old", "h"),
		"binding": store.BindingKey("old", "h", "b"), "release": store.ReleaseKey("old"),
	}
	was := store.Module{State: store.On, Enabled: true, Why: "w"}
	scantest.Update(t, state.DB, func(tx *store.Tx) error {
		for _, key := range records {
			tx.Put(key, []byte(`{}`))
		}
		return store.Save(tx, store.ModuleKey("old"), was)
	})
	for _, c := range []struct {
		when    string
		decided decide.Decisions
		missing bool
	}{
		{"without its directory", decide.Decisions{Whole: true, Missing: []string{"old"}}, true},
		{"while a directory is empty", decide.Decisions{}, true},
		{"with its directory", decide.Decisions{Whole: true, Modules: []decide.Module{{Name: "old", Enabled: true, Why: "w"}}}, false},
	} {
		data, err := json.Marshal(discovered{Decisions: c.decided})
		if err != nil {
			t.Fatal(err)
		}
		scantest.Update(t, state.DB, func(tx *store.Tx) error {
			if _, err := d.step.Apply(tx, workflow.Task{}, workflow.Outcome{Data: data}); err != nil {
				return err
			}
			was.Missing = c.missing
			record, _, err := store.Load[store.Module](tx, store.ModuleKey("old"))
			if diff := cmp.Diff(was, record); diff != "" {
				t.Errorf("%s: record of the module (-want +got):\n%s", c.when, diff)
			}
			for what, key := range records {
				if tx.Get(key) == nil {
					t.Errorf("%s: the record of the %s is deleted", c.when, what)
				}
			}
			return err
		})
	}
}

// names returns the names of the modules of items. If a module has a parallel group, the name is followed by the
// group.
func names(items []graph.Item) (all []string) {
	for _, item := range items {
		name := item.Subject.Module
		if item.Width > 0 {
			name += " in " + item.Group
		}
		all = append(all, name)
	}
	return all
}

func TestListsOfADiscovery(t *testing.T) {
	t.Parallel()
	on, off := store.Module{State: store.On}, store.Module{State: store.Off}
	for name, c := range map[string]struct {
		modules  []decide.Module
		records  map[string]store.Module
		releases []string
		unknown  []string
		partly   bool // a directory of modules is empty, so some modules are unknown
		first    bool // no converge has ended in this store
		parallel int
		run      []string
		delete   []string
		purge    []string
		left     []string
	}{
		"enabled modules run in order, disabled ones are deleted in reverse order": {
			modules: []decide.Module{{Name: "a", Enabled: true}, {Name: "b"}, {Name: "c", Enabled: true}, {Name: "d"}},
			records: map[string]store.Module{"b": on, "d": on}, run: []string{"a", "c"}, delete: []string{"d", "b"},
		},
		"a disabled module that is off is deleted only if it has a release": {
			modules: []decide.Module{{Name: "a"}, {Name: "b"}}, records: map[string]store.Module{"a": off}, releases: []string{"b", "x", "y"}, delete: []string{"b"},
		},
		"a broken module is neither run nor deleted": {
			modules: []decide.Module{{Name: "a", Enabled: true, Broken: "bad"}, {Name: "b", Broken: "bad"}}, records: map[string]store.Module{"b": on},
		},
		"a kept module is neither run nor deleted": {
			modules: []decide.Module{{Name: "a", Enabled: true, Kept: true}, {Name: "b", Enabled: true}}, records: map[string]store.Module{"a": on}, releases: []string{"a"}, partly: true,
			run: []string{"b"},
		},
		"an unknown release is purged": {releases: []string{"x", "y"}, unknown: []string{"x"}, purge: []string{"x"}},
		"no release is purged while some modules cannot be seen": {
			releases: []string{"x", "y"}, unknown: []string{"x"}, partly: true,
		},
		"the first converge leaves all deletions to the next one": {
			modules: []decide.Module{{Name: "a"}}, records: map[string]store.Module{"a": on}, releases: []string{"x", "y"}, unknown: []string{"x"},
			first: true, left: []string{"a", "x"},
		},
		"modules of equal order form a parallel group": {
			modules:  []decide.Module{{Name: "a", Order: 1, Enabled: true}, {Name: "b", Order: 1, Enabled: true}, {Name: "c", Order: 2, Enabled: true}},
			parallel: 2, run: []string{"a in 1", "b in 1", "c in 2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := discovered{Decisions: decide.Decisions{Modules: c.modules, Whole: !c.partly}}
			for _, m := range c.modules {
				if m.Enabled {
					found.Enabled = append(found.Enabled, m.Name)
				}
			}
			checked := inCluster(safety.Options{}, c.releases...)
			checked.Unknown = c.unknown
			k := &decide.Known{Modules: c.records, Startup: store.Startup{Converged: 1}}
			if c.first {
				k.Startup.Converged = 0
			}
			purged := found.findPurges(k, checked)
			lists := (&step{parallelModules: c.parallel}).lists(&found, k, checked, purged)
			got := [][]string{names(lists[lifecycle.Enabled]), names(lists[lifecycle.Disabled]), names(lists[lifecycle.Unknown]), found.Left}
			if diff := cmp.Diff([][]string{c.run, c.delete, c.purge, c.left}, got); diff != "" {
				t.Errorf("to run, to delete, to purge, left (-want +got):\n%s", diff)
			}
		})
	}
}

// After the start has converged, the removal of a conversion would make the API server return objects that no hook has
// converted. If a module or a directory is missing, perhaps one of its hooks converts the objects. In both cases, a
// conversion without a replacement must stay.
func TestAConversionIsRemovedWithoutAReplacementOnlyInAStartWithAllHooks(t *testing.T) {
	t.Parallel()
	good, broken := decide.Module{Name: "a", Enabled: true}, decide.Module{Name: "b", Broken: "bad"}
	enabled, kept := broken, decide.Module{Name: "b", Enabled: true, Kept: true}
	enabled.Enabled = true
	for name, c := range map[string]struct {
		other     decide.Module
		partly    bool
		converged uint64
		want      bool
	}{
		"in a start":                       {decide.Module{Name: "b"}, false, 6, true},
		"in the first start":               {decide.Module{Name: "b"}, false, 0, true},
		"with a disabled broken module":    {broken, false, 6, true},
		"with an enabled broken module":    {enabled, false, 6, false},
		"with a kept module":               {kept, false, 6, false},
		"with an empty directory":          {decide.Module{Name: "b"}, true, 6, false},
		"after the start has converged":    {decide.Module{Name: "b"}, false, 7, false},
		"after later converges have ended": {decide.Module{Name: "b"}, false, 9, false},
	} {
		found := discovered{Decisions: decide.Decisions{Modules: []decide.Module{good, c.other}, Enabled: []string{"a"}, Whole: !c.partly}}
		if c.other.Enabled {
			found.Enabled = append(found.Enabled, "b")
		}
		k := &decide.Known{Startup: store.Startup{StartRun: 7, Converged: c.converged}}
		if got := found.removesConversions(k); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestDefinitionsOfEnabledModulesAreInstalledAgainAfterAStart(t *testing.T) {
	t.Parallel()
	state, mounted := scantest.New(t)
	path := scantest.Write(t, mounted, "010-web/crds/a.yaml", "kind: CustomResourceDefinition")
	scantest.Scan(t, state)
	d := newDiscovery(t, state, Options{})
	set := state.Modules.Disk()
	web, _ := set.Find("web")
	digest, err := state.Modules.Digests().CRDs(web)
	if err != nil || web.CRDs == "" {
		t.Fatalf("module with %s: %+v, %v", path, web, err)
	}
	for name, c := range map[string]struct {
		module decide.Module
		record store.Module
		want   []string
	}{
		"never installed":     {decide.Module{Enabled: true}, store.Module{}, []string{"web"}},
		"installed":           {decide.Module{Enabled: true}, store.Module{Defined: digest, DefinedIn: 2}, nil},
		"of an earlier start": {decide.Module{Enabled: true}, store.Module{Defined: digest, DefinedIn: 1}, []string{"web"}},
		"other files":         {decide.Module{Enabled: true}, store.Module{Defined: "other", DefinedIn: 2}, []string{"web"}},
		"could not be installed": {
			decide.Module{Enabled: true}, store.Module{Defined: digest, DefinedIn: 2, Undefined: "bad"}, []string{"web"},
		},
		"a disabled module": {decide.Module{}, store.Module{}, nil},
		"a broken module":   {decide.Module{Enabled: true, Broken: "bad"}, store.Module{}, nil},
	} {
		c.module.Name = "web"
		found := discovered{Decisions: decide.Decisions{Modules: []decide.Module{c.module}}}
		items, err := d.step.defining(&found, &decide.Known{
			Set: module.Set{Modules: []module.Module{web}}, Startup: store.Startup{StartRun: 2}, Modules: map[string]store.Module{"web": c.record},
		})
		if diff := cmp.Diff(c.want, names(items)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if want := c.module.Enabled && c.module.Broken == ""; found.Modules[0].Defines != want {
			t.Errorf("%s: the module defines kinds: %t", name, !want)
		}
	}
}
