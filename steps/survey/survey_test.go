package survey

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/kube"
	"addon-operator/internal/values"
	"addon-operator/steps/addons/modules"
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow/graph"
)

// newSurvey returns a survey of the modules of state.
func newSurvey(t *testing.T, state *scan.State) *Survey {
	t.Helper()
	return New(Sources{
		DB: state.DB, Log: state.Log, Modules: state.Modules, Addons: state.Addons, Applied: state.Applied, Values: state.Values,
		ConfigMap: state.ConfigMap, Hooks: hooks.New(state.DB, state.Log, scantest.Runner(t), state.Modules),
	}, silent{})
}

// silent implements [Changes] with methods that do nothing.
type silent struct{}

func (silent) ProblemsChanged() {}

// discoveredSurvey returns a survey after a first discovery that has enabled the module web. The result root is the
// parent of the directories of modules and of global hooks.
func discoveredSurvey(t *testing.T) (s *Survey, root string) {
	t.Helper()
	o, mounted, _ := scantest.Options(t)
	root = filepath.Dir(mounted)
	o.ConfigMap, o.GlobalHooksDir = &kube.ConfigMap{}, filepath.Join(root, "global")
	scantest.Program(t, o.GlobalHooksDir, "hooks/g.sh", "#!/bin/bash\n")
	s = newSurvey(t, scan.New(o, nil))
	s.Discovered()
	scantest.Update(t, o.DB, func(tx *store.Tx) error {
		return store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, Enabled: true, Order: 10})
	})
	return s, root
}

func problemsOf(t *testing.T, s *Survey, root string) (found []string) {
	t.Helper()
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	if err := s.sources.DB.View(func(tx *store.Tx) error {
		all, err := store.AllProblems(tx)
		for _, p := range all {
			text := string(p.Kind) + " " + p.Subject.Module + ": " + p.Error + "; " + p.Fix
			if p.Fix != "" && len(p.Command) > 0 {
				text += "; "
			}
			text += strings.Join(p.Command, " ")
			found = append(found, strings.ReplaceAll(text, root, "ROOT"))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestHookFileWithoutExecuteBitIsAProblemUntilItHasOne(t *testing.T) {
	s, root := discoveredSurvey(t)
	path := scantest.Write(t, root, "a/010-web/hooks/sub/x.sh", "#!/bin/bash\n")
	scantest.Write(t, root, "a/010-web/hooks/functions.sh", "f() { true; }\n")
	global := scantest.Write(t, root, "global/hooks/y.sh", "#!/usr/bin/env bash\n")
	expect(t, "two hooks without the bit", problemsOf(t, s, root),
		"not executable : ROOT/global/hooks/y.sh is not executable, so it is not run as a global hook; chmod +x ROOT/global/hooks/y.sh, also where the image is built, or move a library to a directory named lib. Then restart the operator",
		"not executable web: ROOT/a/010-web/hooks/sub/x.sh is not executable, so it is not run as a hook of module web; chmod +x ROOT/a/010-web/hooks/sub/x.sh, also where the image is built, or move a library to a directory named lib. Then run addon-operator reload")
	for _, p := range []string{path, global} {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, "both have it", problemsOf(t, s, root))
}

func TestNewAndMissingModuleDirectoriesAreProblems(t *testing.T) {
	s, root := discoveredSurvey(t)
	scantest.Write(t, root, "a/020-new/values.yaml", "")
	scantest.Update(t, s.sources.DB, func(tx *store.Tx) error {
		return errors.Join(
			store.Save(tx, store.ModuleKey("old"), store.Module{State: store.On, Enabled: true}),
			store.Save(tx, store.ModuleKey("kept"), store.Module{State: store.On, Enabled: true, Missing: true}),
		)
	})
	expect(t, "one new, one gone", problemsOf(t, s, root),
		"missing directory old: the directory of module old is gone; the next converge purges its release; restore or mount the directory to keep the release; reload",
		"new directory new: module directory ROOT/a/020-new is new; no converge has read it yet; reload")
	s.discovered.Store(false)
	expect(t, "before the discovery of the start", problemsOf(t, s, root))
}

func TestADirectoryThatIsBackIsAProblemUntilAConvergeReadsIt(t *testing.T) {
	s, root := discoveredSurvey(t)
	scantest.Update(t, s.sources.DB, func(tx *store.Tx) error {
		return store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, Enabled: true, Missing: true})
	})
	expect(t, "the directory is back", problemsOf(t, s, root), "new directory web: module directory ROOT/a/010-web is new; no converge has read it yet; reload")
}

func TestChangedModuleDirectoryIsAProblemUntilTheModuleHasRun(t *testing.T) {
	s, root := discoveredSurvey(t)
	chart := scantest.Write(t, root, "a/010-web/templates/x.yaml", "a: 1\n")
	ended := func() {
		scantest.Update(t, s.sources.DB, func(tx *store.Tx) error { s.RunEnded(tx, "web"); return nil })
	}
	ended()
	expect(t, "after a run", problemsOf(t, s, root))
	scantest.Write(t, root, "a/010-web/templates/x.yaml", "a: 2\nb: 3\n")
	changed := "changed directory web: module directory ROOT/a/010-web has changed since the last run of module web; module run web"
	expect(t, "after an edit", problemsOf(t, s, root), changed)
	scantest.Update(t, s.sources.DB, func(tx *store.Tx) error { s.RunBegan(tx, "web"); return nil })
	scantest.Write(t, root, "a/010-web/templates/made-by-a-hook.yaml", "c: 1\n")
	expect(t, "while it runs", problemsOf(t, s, root))
	ended()
	expect(t, "after the run", problemsOf(t, s, root))
	if err := os.Remove(chart); err != nil {
		t.Fatal(err)
	}
	expect(t, "after a file was removed", problemsOf(t, s, root), changed)
	loop := filepath.Join(filepath.Dir(chart), "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	if got := problemsOf(t, s, root); len(got) != 1 || !strings.Contains(got[0], "has changed and cannot be loaded: ") || !strings.Contains(got[0], "/loop: ") {
		t.Errorf("a file that cannot be read: %q", got)
	}
	if err := os.Remove(loop); err != nil {
		t.Fatal(err)
	}
	scantest.Write(t, root, "a/010-web/values.yaml", "a: [\n")
	if got := problemsOf(t, s, root); len(got) != 1 || !strings.Contains(got[0], "has changed and cannot be loaded: ") {
		t.Errorf("a file that is no YAML: %q", got)
	}
}

func TestObjectOfTwoModulesIsAProblemUntilOneIsDisabled(t *testing.T) {
	s, root := discoveredSurvey(t)
	shared := store.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "ops", Name: "web"}
	older := shared
	older.APIVersion = "apps/v1beta1"
	for name, objects := range map[string][]store.Object{
		"a": {shared, {APIVersion: "v1", Kind: "ConfigMap", Namespace: "ops", Name: "a"}},
		"b": {{APIVersion: "example.com/v1", Kind: "Deployment", Namespace: "ops", Name: "web"}},
		"c": {older},
	} {
		scantest.Update(t, s.sources.DB, func(tx *store.Tx) error {
			return errors.Join(
				store.Save(tx, store.ModuleKey(name), store.Module{State: store.On, Enabled: true}),
				store.Save(tx, store.ReleaseKey(name), store.Release{Revision: 1, Objects: objects}))
		})
	}
	has := func() (found []string) {
		for _, p := range problemsOf(t, s, root) {
			if strings.HasPrefix(p, string(store.SharedObject)) {
				found = append(found, p)
			}
		}
		return found
	}
	want := []string{"shared object c: Deployment ops/web is in the charts of modules a and c: each upgrade of one module overwrites the object of the other; " +
		"remove it from one of the charts, or disable one of the modules. Choose the module that the annotation meta.helm.sh/release-name of the object does not name; otherwise, the operator deletes the object and creates it again"}
	if diff := cmp.Diff(want, has()); diff != "" {
		t.Error(diff)
	}
	scantest.Update(t, s.sources.DB, func(tx *store.Tx) error {
		return store.Save(tx, store.ModuleKey("a"), store.Module{State: store.On})
	})
	if found := has(); len(found) > 0 {
		t.Errorf("a disabled module shares an object: %q", found)
	}
}

func TestUnknownKeyOfTheConfigMapIsAProblemWithASuggestion(t *testing.T) {
	s, root := discoveredSurvey(t)
	put := func(data map[string]string) {
		config, err := values.ParseConfig(data)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		scantest.Update(t, s.sources.DB, func(tx *store.Tx) error {
			return store.Save(tx, store.AppliedConfigKey(), store.AppliedConfig{ResourceVersion: "1", Config: text, At: tx.Now()})
		})
	}
	put(map[string]string{"web": "a: 1", "wbe": "a: 2", "wehEnabled": "true", "velero": "a: 1", "global": "a: 1"})
	expect(t, "three unknown keys", problemsOf(t, s, root),
		`unknown key : ConfigMap /: key "velero" has no effect: there is no module "velero"; kubectl -n  edit configmap `,
		`unknown key : ConfigMap /: key "wbe" has no effect: there is no module "wbe" (did you mean "web"?); kubectl -n  edit configmap `,
		`unknown key : ConfigMap /: key "wehEnabled" has no effect: there is no module "weh" (did you mean "webEnabled"?); kubectl -n  edit configmap `)
	put(map[string]string{"web": "a: 1"})
	expect(t, "none", problemsOf(t, s, root))
}

func TestKeyOfTheConfigMapIsNotUnknownBeforeAddonsAreProcessedForTheFirstTime(t *testing.T) {
	s, root := discoveredSurvey(t)
	s.sources.Addons = modules.NewProvided(s.sources.DB, s.sources.Log, s.sources.Applied, filepath.Join(root, "addon-modules"), []string{root}, false)
	config, err := values.ParseConfig(map[string]string{"bannerEnabled": "true"})
	if err != nil {
		t.Fatal(err)
	}
	scantest.Update(t, s.sources.DB, func(tx *store.Tx) error { return s.sources.ConfigMap.SaveApplied(tx, config, "1") })
	save := func(c store.Configuration) {
		scantest.Update(t, s.sources.DB, func(tx *store.Tx) error { return store.Save(tx, store.ConfigurationKey("", "c"), c) })
	}
	unknown := `unknown key : ConfigMap /: key "bannerEnabled" has no effect: there is no module "banner"; kubectl -n  edit configmap `
	s.discovered.Store(false)
	expect(t, "the start has read neither configurations nor directories", problemsOf(t, s, root))
	s.Discovered()
	save(store.Configuration{Phase: store.PhasePending})
	expect(t, "a configuration that provides no modules is pending", problemsOf(t, s, root), unknown)
	save(store.Configuration{Phase: store.PhasePending, Modules: true})
	expect(t, "one that provides modules is pending for the first time", problemsOf(t, s, root))
	save(store.Configuration{Phase: store.PhaseFailed, Modules: true})
	expect(t, "it has failed", problemsOf(t, s, root), unknown)
	save(store.Configuration{Phase: store.PhasePending, Modules: true, Earlier: store.ID{Epoch: 1, N: 1}})
	expect(t, "it is pending again", problemsOf(t, s, root), unknown)
	scantest.Update(t, s.sources.DB, func(tx *store.Tx) error { tx.Delete(store.ConfigurationKey("", "c")); return nil })
}

func TestUnreadableModuleDirectoryIsAProblemAndChangesNoOther(t *testing.T) {
	s, root := discoveredSurvey(t)
	scantest.Write(t, root, "a/010-web/hooks/x.sh", "#!/bin/bash\n")
	problemsOf(t, s, root)
	s = newSurvey(t, scan.New(scan.Options{
		DB: s.sources.DB, ConfigMap: &kube.ConfigMap{}, ModulesDirs: []string{filepath.Join(root, "nowhere")}, UnnumberedOrder: 1,
		GlobalHooksDir: filepath.Join(root, "global"),
	}, nil))
	s.Discovered()
	if got := problemsOf(t, s, root); len(got) != 2 || !strings.Contains(got[1], "unreadable directory : ") {
		t.Errorf("problems %q", got)
	}
}

func TestAModuleThatIsMendedOnDiskIsNoticed(t *testing.T) {
	s, mounted := scantest.NewBroken(t)
	configs := hooks.New(s.DB, s.Log, scantest.Runner(t), s.Modules)
	survey := newSurvey(t, s)
	repaired := func(broken int, want ...string) {
		t.Helper()
		got, n, err := survey.Repaired(t.Context())
		if err != nil || n != broken {
			t.Errorf("%d modules are broken, want %d; error: %v", n, broken, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("repaired (-want +got):\n%s", diff)
		}
	}
	repaired(0) // the store records no module as broken
	set, err := s.Scan()
	if err != nil {
		t.Fatal(err)
	}
	checked, err := configs.CheckModules(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	scantest.Update(t, s.DB, func(tx *store.Tx) error { return hooks.SaveBroken(tx, checked) })
	broken := len(scantest.RecordedBroken(t, s.DB))
	repaired(broken)
	scantest.Program(t, mounted, "030-hook/hooks/bad.sh", scantest.GoodHook)
	repaired(broken, "hook")
	scantest.Program(t, mounted, "030-hook/hooks/bad.sh", "#!/bin/sh\nexit 1\n")
	repaired(broken)
	scantest.Write(t, mounted, "020-yaml/values.yaml", "yaml: {}")
	repaired(broken, "yaml")
}

func TestASurveyLeavesOutOrphanedModulesThatAreDisabledMeanwhile(t *testing.T) {
	s, _ := discoveredSurvey(t)
	problem := store.Problem{Kind: store.OrphanedModule, Subject: graph.Subject{Module: "web"}, Error: "its addon is not registered"}
	run := surveyRun{found: map[store.ProblemKind][]store.Problem{store.OrphanedModule: {problem}}}
	scantest.Update(t, s.sources.DB, run.leaveOutDisabled)
	if len(run.found[store.OrphanedModule]) != 1 {
		t.Error("a survey leaves out the orphaned module while it is enabled")
	}
	for _, m := range []store.Module{{State: store.On}, {State: store.Deleting, Enabled: true}, {State: store.Uninstalled, Enabled: true}} {
		run.found[store.OrphanedModule] = []store.Problem{problem}
		scantest.Update(t, s.sources.DB, func(tx *store.Tx) error {
			return errors.Join(store.Save(tx, store.ModuleKey("web"), m), run.leaveOutDisabled(tx))
		})
		if found := run.found[store.OrphanedModule]; len(found) != 0 {
			t.Errorf("%+v: a survey that began before finds %v", m, found)
		}
	}
}

func TestALostValuesFileIsAProblem(t *testing.T) {
	s, root := discoveredSurvey(t)
	if err := os.Remove(filepath.Join(root, "a/010-web")); err != nil {
		t.Fatal(err)
	}
	scantest.Update(t, s.sources.DB, func(tx *store.Tx) error {
		tx.Delete(store.ModuleKey("web"))
		return store.Save(tx, store.StartupKey(), store.Startup{ValuesFiles: []string{filepath.Join(root, "a/values.yaml")}})
	})
	expect(t, "the file is missing", problemsOf(t, s, root), "unreadable directory : ROOT/a/values.yaml is missing, and ROOT/a holds no module. A module of another directory that only this file enabled stays as it is: it is neither upgraded nor deleted, unless the ConfigMap disables it; "+
		"mount the directory. If it must stay empty, write an empty values.yaml to it, and run addon-operator reload")
	scantest.Write(t, root, "a/values.yaml", "")
	expect(t, "the file is empty", problemsOf(t, s, root))
}

func TestInstalledModulesOfAnEmptyDirectoryAreOneProblem(t *testing.T) {
	s, root := discoveredSurvey(t)
	if err := os.Remove(filepath.Join(root, "a/010-web")); err != nil {
		t.Fatal(err)
	}
	put := func(modules map[string]store.Module) {
		t.Helper()
		scantest.Update(t, s.sources.DB, func(tx *store.Tx) error {
			for k := range tx.Range(store.At(store.Modules)) {
				tx.Delete(k)
			}
			for name, m := range modules {
				if err := store.Save(tx, store.ModuleKey(name), m); err != nil {
					return err
				}
			}
			return nil
		})
	}
	put(map[string]store.Module{"web": {State: store.On, Enabled: true}, "db": {State: store.Deleting}, "idle": {State: store.Off}})
	const fix = " They stay as they are, and are neither upgraded nor deleted; mount the directory. To uninstall these modules, disable them in the ConfigMap while their directories are mounted"
	expect(t, "two installed modules", problemsOf(t, s, root), "unreadable directory : ROOT/a holds no module, so installed modules cannot be seen: db, web."+fix)
	many := map[string]store.Module{}
	for i := range mostNamed + 2 {
		many[fmt.Sprintf("m%02d", i)] = store.Module{State: store.On}
	}
	put(many)
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	if err := s.sources.DB.View(func(tx *store.Tx) error {
		all, err := store.AllProblems(tx)
		if len(all) != 1 || all[0].More != 2 || !strings.Contains(all[0].Error, ", m19.") || strings.Contains(all[0].Error, ", m20") {
			t.Errorf("problems of %d modules: %+v", len(many), all)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.discovered.Store(false)
	expect(t, "before the discovery of the start", problemsOf(t, s, root))
	s.Discovered()
	put(map[string]store.Module{"idle": {State: store.Off}})
	expect(t, "nothing is installed", problemsOf(t, s, root))
}

func TestAnEditOfADirectoryIsAProblemOfAnEnabledModuleAfterTheConvergeOfTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		record    store.Module
		converged bool // the converge of the start has ended
		want      bool
	}{
		"enabled":                              {store.Module{State: store.On, Enabled: true}, true, true},
		"enabled, during the converge":         {store.Module{State: store.On, Enabled: true}, false, false},
		"disabled":                             {store.Module{State: store.Off}, true, false},
		"the last discovery could not load it": {store.Module{State: store.On, Enabled: true, Broken: "bad"}, true, true},
	} {
		s, root := discoveredSurvey(t)
		scantest.Update(t, s.sources.DB, func(tx *store.Tx) error {
			startup := store.Startup{StartRun: 4}
			if c.converged {
				startup.Converged = 4
			}
			return errors.Join(store.Save(tx, store.ModuleKey("web"), c.record), store.Save(tx, store.StartupKey(), startup))
		})
		expect(t, name+", as first seen", problemsOf(t, s, root))
		scantest.Write(t, root, "a/010-web/templates/x.yaml", "a: 1\n")
		var want []string
		if c.want {
			want = []string{"changed directory web: module directory ROOT/a/010-web has changed since the last run of module web; module run web"}
		}
		expect(t, name+", after an edit", problemsOf(t, s, root), want...)
	}
}

func TestFilesThatBreakAModuleAreAProblemUntilADiscoveryRecordsIt(t *testing.T) {
	s, root := discoveredSurvey(t)
	scantest.Write(t, root, "a/010-web/values.yaml", "web: [")
	if got := problemsOf(t, s, root); len(got) != 1 || !strings.HasPrefix(got[0], "changed directory web: module directory ROOT/a/010-web has changed and cannot be loaded: ") ||
		!strings.HasSuffix(got[0], "; correct the file that the error names") {
		t.Errorf("problems %q", got)
	}
	scantest.Update(t, s.sources.DB, func(tx *store.Tx) error {
		return store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, Enabled: true, Broken: "values.yaml"})
	})
	expect(t, "the record of the module has the reason", problemsOf(t, s, root))
}

func TestObjectsOfReleasesAreComparedAsFarAsTheyCanBeRead(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	object := func(namespace, kind, name string) store.Object {
		return store.Object{APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name}
	}
	known := map[string]store.Module{
		"a": {State: store.On, Enabled: true}, "b": {State: store.On, Enabled: true}, "c": {State: store.On, Enabled: true}, "lost": {State: store.On, Enabled: true},
		"retiring": {State: store.Deleting, Enabled: true}, "never": {State: store.On, Enabled: true},
	}
	lost := errors.New("not committed, because a record is damaged")
	if err := db.Update(func(tx *store.Tx) error {
		tx.Put(store.ReleaseKey("lost"), []byte(`{"objects":`))
		for name, objects := range map[string][]store.Object{
			"a": {object("ops", "Secret", "s"), object("ops", "Secret", "t"), object("", "Namespace", "ops")}, "b": {object("ops", "Secret", "t"), object("ops", "Secret", "s")},
			"c": {object("", "Namespace", "ops"), object("dev", "Secret", "s")}, "retiring": {object("dev", "Secret", "s")},
		} {
			if err := store.Save(tx, store.ReleaseKey(name), store.Release{Objects: objects}); err != nil {
				return err
			}
		}
		found, err := sharedObjects(tx, known)
		var got []string
		for _, p := range found {
			got = append(got, fmt.Sprintf("%s: %s and %d more", p.Subject.Module, p.Object, p.More))
		}
		if diff := cmp.Diff([]string{"b: Secret ops/t and 1 more", "c: Namespace ops and 0 more"}, got); diff != "" {
			t.Errorf("shared objects (-want +got):\n%s", diff)
		}
		return errors.Join(err, lost)
	}); !errors.Is(err, lost) {
		t.Error(err)
	}
}
