package steps

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/kube"
	"addon-operator/internal/values"
	"addon-operator/steps/addons/modules"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// writeFile writes a file below dir, with its directories.
func writeFile(t *testing.T, dir, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// commit changes the store of s.
func commit(t *testing.T, s *Lifecycle, do func(*store.Tx) error) {
	t.Helper()
	if err := s.db.Update(do); err != nil {
		t.Fatal(err)
	}
}

// problemsOf surveys and returns the problems, each as "kind subject: error; fix".
func problemsOf(t *testing.T, s *Lifecycle, root string) (found []string) {
	t.Helper()
	if err := s.Survey.Run(); err != nil {
		t.Fatal(err)
	}
	if err := s.db.View(func(tx *store.Tx) error {
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

func surveyedSteps(t *testing.T) (s *Lifecycle, root string) {
	t.Helper()
	s, mounted, _ := newLifecycle(t)
	root = filepath.Dir(mounted)
	global := filepath.Join(root, "global")
	s = rebuilt(t, s, func(o *Options) { o.Config, o.GlobalHooksDir = &kube.ConfigMap{}, global })
	writeFile(t, global, "hooks/g.sh", "#!/bin/bash\n", 0o755)
	s.Survey.discovered.Store(true)
	commit(t, s, func(tx *store.Tx) error {
		return store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, Enabled: true, Order: 10})
	})
	return s, root
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestHookFileWithoutExecuteBitIsAProblemUntilItHasOne(t *testing.T) {
	s, root := surveyedSteps(t)
	path := writeFile(t, root, "a/010-web/hooks/sub/x.sh", "#!/bin/bash\n", 0o644)
	writeFile(t, root, "a/010-web/hooks/functions.sh", "f() { true; }\n", 0o644)
	global := writeFile(t, root, "global/hooks/y.sh", "#!/usr/bin/env bash\n", 0o644)
	expect(t, "two hooks without the bit", problemsOf(t, s, root),
		"not executable : ROOT/global/hooks/y.sh is not executable, so it is not run as a global hook; chmod +x ROOT/global/hooks/y.sh, also where the image is built, or move a library to a directory named lib. Then run addon-operator reload",
		"not executable web: ROOT/a/010-web/hooks/sub/x.sh is not executable, so it is not run as a hook of module web; chmod +x ROOT/a/010-web/hooks/sub/x.sh, also where the image is built, or move a library to a directory named lib. Then run addon-operator reload")
	for _, p := range []string{path, global} {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, "both have it", problemsOf(t, s, root))
}

func TestNewAndMissingModuleDirectoriesAreProblems(t *testing.T) {
	s, root := surveyedSteps(t)
	writeFile(t, root, "a/020-new/values.yaml", "", 0o644)
	commit(t, s, func(tx *store.Tx) error {
		return store.Save(tx, store.ModuleKey("old"), store.Module{State: store.On, Enabled: true})
	})
	expect(t, "one new, one gone", problemsOf(t, s, root),
		"missing directory old: the directory of module old is gone; the next converge purges its release; restore or mount the directory to keep the release; reload",
		"new directory new: module directory ROOT/a/020-new is new; no converge has read it yet; reload")
	s.Survey.discovered.Store(false)
	expect(t, "before the discovery of the start", problemsOf(t, s, root))
}

func TestChangedModuleDirectoryIsAProblemUntilTheModuleHasRun(t *testing.T) {
	s, root := surveyedSteps(t)
	chart := writeFile(t, root, "a/010-web/templates/x.yaml", "a: 1\n", 0o644)
	ended := func() { commit(t, s, func(tx *store.Tx) error { s.Survey.noteRun(tx, "web", runEnded); return nil }) }
	ended()
	expect(t, "after a run", problemsOf(t, s, root))
	writeFile(t, root, "a/010-web/templates/x.yaml", "a: 2\nb: 3\n", 0o644)
	changed := "changed directory web: module directory ROOT/a/010-web has changed since the last run of module web; module run web"
	expect(t, "after an edit", problemsOf(t, s, root), changed)
	commit(t, s, func(tx *store.Tx) error { s.Survey.noteRun(tx, "web", runUnderWay); return nil })
	writeFile(t, root, "a/010-web/templates/made-by-a-hook.yaml", "c: 1\n", 0o644)
	expect(t, "while it runs", problemsOf(t, s, root))
	ended()
	expect(t, "after the run", problemsOf(t, s, root))
	if err := os.Remove(chart); err != nil {
		t.Fatal(err)
	}
	expect(t, "after a file was removed", problemsOf(t, s, root), changed)
	writeFile(t, root, "a/010-web/values.yaml", "a: [\n", 0o644)
	if got := problemsOf(t, s, root); len(got) != 1 || !strings.Contains(got[0], "has changed and cannot be loaded: ") {
		t.Errorf("a file that is no YAML: %q", got)
	}
}

func TestObjectOfTwoModulesIsAProblemUntilOneIsDisabled(t *testing.T) {
	s, root := surveyedSteps(t)
	shared := store.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "ops", Name: "web"}
	older := shared
	older.APIVersion = "apps/v1beta1"
	for name, objects := range map[string][]store.Object{
		"a": {shared, {APIVersion: "v1", Kind: "ConfigMap", Namespace: "ops", Name: "a"}},
		"b": {{APIVersion: "example.com/v1", Kind: "Deployment", Namespace: "ops", Name: "web"}},
		"c": {older},
	} {
		commit(t, s, func(tx *store.Tx) error {
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
		"remove it from one of the charts, or disable one of the modules: the operator does not delete an object that the other module still has"}
	if diff := cmp.Diff(want, has()); diff != "" {
		t.Error(diff)
	}
	commit(t, s, func(tx *store.Tx) error {
		return store.Save(tx, store.ModuleKey("a"), store.Module{State: store.On})
	})
	if found := has(); len(found) > 0 {
		t.Errorf("a disabled module shares an object: %q", found)
	}
}

func TestUnknownKeyOfTheConfigMapIsAProblemWithASuggestion(t *testing.T) {
	s, root := surveyedSteps(t)
	put := func(data map[string]string) {
		config, err := values.ParseConfig(data)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		commit(t, s, func(tx *store.Tx) error {
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
	s, root := surveyedSteps(t)
	s.Survey.addons = modules.NewProvided(s.db, s.log, s.applied, filepath.Join(root, "addon-modules"), []string{root}, false)
	config, err := values.ParseConfig(map[string]string{"bannerEnabled": "true"})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, func(tx *store.Tx) error { return s.ConfigMap.SaveApplied(tx, config, "1") })
	save := func(c store.Configuration) {
		commit(t, s, func(tx *store.Tx) error { return store.Save(tx, store.ConfigurationKey("", "c"), c) })
	}
	unknown := `unknown key : ConfigMap /: key "bannerEnabled" has no effect: there is no module "banner"; kubectl -n  edit configmap `
	s.Survey.discovered.Store(false)
	expect(t, "the start has read neither configurations nor directories", problemsOf(t, s, root))
	s.Survey.discovered.Store(true)
	save(store.Configuration{Phase: store.PhasePending})
	expect(t, "a configuration that provides no modules is pending", problemsOf(t, s, root), unknown)
	save(store.Configuration{Phase: store.PhasePending, Modules: true})
	expect(t, "one that provides modules is pending for the first time", problemsOf(t, s, root))
	save(store.Configuration{Phase: store.PhaseFailed, Modules: true})
	expect(t, "it has failed", problemsOf(t, s, root), unknown)
	save(store.Configuration{Phase: store.PhasePending, Modules: true, Earlier: store.ID{Epoch: 1, N: 1}})
	expect(t, "it is pending again", problemsOf(t, s, root), unknown)
	commit(t, s, func(tx *store.Tx) error { tx.Delete(store.ConfigurationKey("", "c")); return nil })
}

func TestUnreadableModuleDirectoryIsAProblemAndChangesNoOther(t *testing.T) {
	s, root := surveyedSteps(t)
	writeFile(t, root, "a/010-web/hooks/x.sh", "#!/bin/bash\n", 0o644)
	problemsOf(t, s, root)
	s = rebuilt(t, s, func(o *Options) { o.ModulesDirs = []string{filepath.Join(root, "nowhere")} })
	s.Survey.discovered.Store(true)
	if got := problemsOf(t, s, root); len(got) != 2 || !strings.Contains(got[1], "unreadable directory : ") {
		t.Errorf("problems %q", got)
	}
}

func TestModulesOfADirectoryThatIsNotMountedKeepTheirNames(t *testing.T) {
	s, mounted, unmounted := newLifecycle(t)
	writeFile(t, mounted, "values.yaml", "", 0o644)
	writeFile(t, mounted, "README.md", "", 0o644)
	writeFile(t, mounted, ".hidden/values.yaml", "", 0o644)
	commit(t, s, func(tx *store.Tx) error {
		for _, name := range []string{"web", "other", "addon"} {
			if err := store.Save(tx, store.ModuleKey(name), store.Module{State: store.On}); err != nil {
				return err
			}
		}
		return store.Save(tx, store.AddonModuleKey("addon"), store.AddonModule{Content: "c"})
	})
	web := filepath.Join(mounted, "010-web")
	for _, c := range []struct {
		dirs []string
		want map[string]string
	}{
		{[]string{mounted}, map[string]string{"web": web}},
		{[]string{mounted, unmounted}, map[string]string{"web": web, "other": unmounted}},
	} {
		addons := modules.NewProvided(s.db, s.log, s.applied, "", c.dirs, false)
		got, err := addons.ImageModules()
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%v: %v (-want +got):\n%s", c.dirs, err, diff)
		}
	}
}

func TestProblemOfAnOrphanedModuleIsDeletedByTheTransitionThatDisablesIt(t *testing.T) {
	for name, disable := range map[string]func(*Lifecycle, *store.Tx) error{
		"discovery": func(s *Lifecycle, tx *store.Tx) error {
			data, err := json.Marshal(discovered{Modules: []decided{{Name: "web"}}, Whole: true})
			if err == nil {
				_, err = s.discoverStep().Apply(tx, workflow.Task{}, workflow.Outcome{Data: data})
			}
			return err
		},
		"deletion": func(s *Lifecycle, tx *store.Tx) error { // the ConfigMap has disabled it, and no discovery has run
			config, err := values.ParseConfig(map[string]string{"webEnabled": "false"})
			if err != nil {
				return err
			}
			if err := s.ConfigMap.SaveApplied(tx, config, "1"); err != nil {
				return err
			}
			data, err := json.Marshal(toDelete{Released: true})
			if err == nil {
				task := workflow.Task{Task: store.Task{Subject: graph.Subject{Module: "web"}}}
				_, err = s.moduleDeleteStep().Apply(tx, task, workflow.Outcome{Data: data})
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := surveyedSteps(t)
			orphaned := func() (found []string) {
				t.Helper()
				if err := s.db.View(func(tx *store.Tx) error {
					all, err := store.AllProblems(tx)
					for _, p := range all {
						if p.Kind == store.OrphanedModule {
							found = append(found, p.Subject.Module)
						}
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
				return found
			}
			problem := store.Problem{Kind: store.OrphanedModule, Subject: graph.Subject{Module: "web"}, Error: "its addon is not registered"}
			surveyed := surveyRun{found: map[store.ProblemKind][]store.Problem{store.OrphanedModule: {problem}}}
			commit(t, s, func(tx *store.Tx) error {
				_, err := store.SaveProblem(tx, problem)
				return errors.Join(err, surveyed.leaveOutDisabled(tx))
			})
			expect(t, "survey before", orphaned(), "web")
			if len(surveyed.found[store.OrphanedModule]) != 1 {
				t.Error("a survey leaves out the orphaned module while it is enabled")
			}
			commit(t, s, func(tx *store.Tx) error { return disable(s, tx) })
			expect(t, "after the transition", orphaned())
			commit(t, s, surveyed.leaveOutDisabled)
			if found := surveyed.found[store.OrphanedModule]; len(found) != 0 {
				t.Errorf("a survey that began before finds %v again", found)
			}
		})
	}
}

// addonChanges counts the signals that other modules may be made from addons.
type addonChanges struct {
	silent

	count int
}

func (c *addonChanges) AddonModulesChanged() { c.count++ }

func TestModuleStopsUsingItsAddonWhenItsDeletionEnds(t *testing.T) {
	s, _ := surveyedSteps(t)
	var changes addonChanges
	s.options.Changes = &changes
	commit(t, s, func(tx *store.Tx) error {
		return errors.Join(
			store.Save(tx, store.AddonModuleKey("web"), store.AddonModule{Content: "1-x", Used: true}),
			store.Save(tx, store.ModuleKey("web"), store.Module{State: store.Uninstalled}),
		)
	})
	commit(t, s, func(tx *store.Tx) error {
		_, err := s.afterDeleteStep().End(tx, workflow.Task{Task: store.Task{Subject: graph.Subject{Module: "web"}}}, nil)
		return err
	})
	commit(t, s, func(tx *store.Tx) error {
		m, found, err := store.Load[store.AddonModule](tx, store.AddonModuleKey("web"))
		if m.Used || !found {
			t.Errorf("record %+v, found %t: the module still uses the addon", m, found)
		}
		return err
	})
	if changes.count != 1 {
		t.Errorf("%d signals that other modules may be made from addons, want 1", changes.count)
	}
}
