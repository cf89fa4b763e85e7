package steps

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/steps/hooks"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// goodHook is a hook that prints a config.
const goodHook = "#!/bin/sh\necho '{\"configVersion\": \"v1\", \"beforeHelm\": 1}'\n"

// program writes a file that can be executed.
func program(t *testing.T, dir, name, text string) {
	t.Helper()
	write(t, dir, name, text)
	if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil { //nolint:gosec // hooks are executed
		t.Fatal(err)
	}
}

// brokenModuleSteps returns the steps for a directory with a good module, and with modules that are broken each in its
// way. All are enabled.
func brokenModuleSteps(t *testing.T) (s *Lifecycle, mounted string) {
	t.Helper()
	s, mounted, _ = newLifecycle(t)
	runner, err := hook.NewRunner(hook.Options{TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runner.Close)
	s = rebuilt(t, s, func(o *Options) { o.Hooks, o.GlobalHooksDir = runner, t.TempDir() })
	write(t, mounted, "values.yaml", "webEnabled: true\nyamlEnabled: true\nhookEnabled: true\nasleepEnabled: true\n")
	program(t, mounted, "010-web/hooks/hook.sh", goodHook)
	write(t, mounted, "020-yaml/values.yaml", "yaml: [")
	program(t, mounted, "030-hook/hooks/good.sh", goodHook)
	program(t, mounted, "030-hook/hooks/bad.sh", "#!/bin/sh\necho 'Hello, World!'\n")
	write(t, mounted, "040-asleep/enabled", "#!/bin/sh\n")
	program(t, mounted, "050-off/hooks/bad.sh", "#!/bin/sh\nexit 3\n")
	if _, err := s.Scan(); err != nil {
		t.Fatal(err)
	}
	return s, mounted
}

// brokenModules returns the broken modules and a word of why, as the store has them.
func brokenModules(t *testing.T, s *Lifecycle) map[string]string {
	t.Helper()
	broken := map[string]string{}
	if err := s.db.View(func(tx *store.Tx) error {
		known, err := store.LoadModules(tx)
		for name, m := range known {
			for _, word := range []string{"values.yaml", "hooks/bad.sh --config", "cannot be executed"} {
				if strings.Contains(m.Broken, word) {
					broken[name] = word
				}
			}
			if broken[name] == "" && m.Broken != "" {
				broken[name] = m.Broken
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return broken
}

var wantBroken = map[string]string{
	"yaml": "values.yaml", "hook": "hooks/bad.sh --config", "asleep": "cannot be executed", "off": "hooks/bad.sh --config",
}

func TestProblemsOfAllModulesAreKnownBeforeTheFirstHookRuns(t *testing.T) {
	s, _ := brokenModuleSteps(t)
	step := s.startupStep()
	o, err := step.Prepare(t.Context(), workflow.Task{})
	if err != nil {
		t.Fatal(err)
	}
	update(t, s.db, func(tx *store.Tx) error { _, err := step.Apply(tx, workflow.Task{}, o); return err })
	if diff := cmp.Diff(wantBroken, brokenModules(t, s)); diff != "" {
		t.Errorf("broken modules (-want +got):\n%s", diff)
	}
}

func TestAModuleThatCannotBeLoadedIsNotAmongThoseToRunAndStaysAsItWas(t *testing.T) {
	s, _ := brokenModuleSteps(t)
	for _, was := range []bool{true, false} {
		update(t, s.db, func(tx *store.Tx) error {
			for _, name := range []string{"web", "yaml", "hook", "asleep", "off"} {
				record := store.Module{State: store.On, Enabled: was, Broken: "before"}
				if err := store.Save(tx, store.ModuleKey(name), record); err != nil {
					return err
				}
			}
			return nil
		})
		step := s.discoverStep()
		set := s.Modules.Disk()
		k, err := step.known(set)
		if err != nil {
			t.Fatal(err)
		}
		if k.hooks, err = s.hooks.CheckHooks(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		found := discovered{Whole: true}
		var checked []hooks.Checked
		for _, m := range set.Modules {
			d, err := step.decide(t.Context(), workflow.Task{}, m, k, found.Enabled)
			if err != nil {
				t.Fatal(err)
			}
			checked = append(checked, hooks.Checked{Name: d.Name, Order: d.Order, Broken: d.Broken})
			if found.Modules = append(found.Modules, d); d.Enabled {
				found.Enabled = append(found.Enabled, d.Name)
			}
		}
		enabled := []string{"web"}
		if was {
			enabled = []string{"web", "yaml", "hook", "asleep", "off"}
		}
		if diff := cmp.Diff(enabled, found.Enabled); diff != "" {
			t.Errorf("enabled, where they were before: %t (-want +got):\n%s", was, diff)
		}
		if diff := cmp.Diff([]graph.Item{{Subject: graph.Subject{Module: "web"}}}, step.enabled(&found, k)); diff != "" {
			t.Errorf("to run, where they were enabled before: %t (-want +got):\n%s", was, diff)
		}
		update(t, s.db, func(tx *store.Tx) error { return hooks.SaveBroken(tx, checked) })
		if diff := cmp.Diff(wantBroken, brokenModules(t, s)); diff != "" {
			t.Errorf("broken modules (-want +got):\n%s", diff)
		}
	}
}

func TestARunOfAModuleThatCannotBeLoadedEndsAndSaysWhy(t *testing.T) {
	s, _ := brokenModuleSteps(t)
	for name, want := range map[string]string{"yaml": "values.yaml", "hook": "hooks/bad.sh --config", "asleep": "cannot be executed"} {
		update(t, s.db, func(tx *store.Tx) error {
			return store.Save(tx, store.ModuleKey(name), store.Module{State: store.On, Enabled: true})
		})
		update(t, s.db, func(tx *store.Tx) error { return s.ConfigMap.SaveApplied(tx, parsed(t, name+"Enabled", "true"), "1") })
		task := workflow.Task{Task: store.Task{Subject: graph.Subject{Module: name}}}
		step := s.moduleRunStep()
		o, err := step.Do(t.Context(), task)
		if err != nil || !strings.Contains(o.Detail, want) {
			t.Errorf("module %s: %q, %v; want an end that names %s", name, o.Detail, err, want)
			continue
		}
		update(t, s.db, func(tx *store.Tx) error {
			facts, err := step.Apply(tx, task, o)
			if len(facts) > 0 {
				t.Errorf("module %s is run: %v", name, facts)
			}
			return err
		})
		if got := brokenModules(t, s)[name]; got != want {
			t.Errorf("module %s is broken by %q, want %q", name, got, want)
		}
	}
}

func TestARunThatIsInterruptedDoesNotBreakItsModule(t *testing.T) {
	s, _ := brokenModuleSteps(t)
	update(t, s.db, func(tx *store.Tx) error {
		return errors.Join(s.ConfigMap.SaveApplied(tx, parsed(t, "webEnabled", "true"), "1"),
			store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, Enabled: true}))
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o, err := s.moduleRunStep().Do(ctx, workflow.Task{Task: store.Task{Subject: graph.Subject{Module: "web"}}}); err == nil {
		t.Errorf("the run ended with %q", o.Detail)
	}
}

func TestAModuleThatIsMendedOnDiskIsNoticed(t *testing.T) {
	s, mounted := brokenModuleSteps(t)
	repaired := func(want ...string) {
		t.Helper()
		got, err := s.Survey.Repaired(t.Context())
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("repaired (-want +got):\n%s", diff)
		}
	}
	repaired() // none is known to be broken
	set, err := s.Scan()
	if err != nil {
		t.Fatal(err)
	}
	checked, err := s.hooks.CheckModules(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	update(t, s.db, func(tx *store.Tx) error { return hooks.SaveBroken(tx, checked) })
	repaired()
	program(t, mounted, "030-hook/hooks/bad.sh", goodHook)
	repaired("hook")
	program(t, mounted, "030-hook/hooks/bad.sh", "#!/bin/sh\nexit 1\n")
	repaired()
	write(t, mounted, "020-yaml/values.yaml", "yaml: {}")
	repaired("yaml")
}

func TestEventsOfAModuleThatCannotBeLoadedWaitAndBlockNobody(t *testing.T) {
	s, _ := brokenModuleSteps(t)
	step := s.hookStep(lifecycle.ModuleKubernetesEvent, "")
	update(t, s.db, func(tx *store.Tx) error {
		return store.Save(tx, store.ModuleKey("yaml"), store.Module{State: store.On, Enabled: true, Broken: "values.yaml: bad\nand more"})
	})
	for name, want := range map[string]string{"yaml": "module yaml cannot be loaded: values.yaml: bad", "web": ""} {
		if err := s.db.View(func(tx *store.Tx) error {
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
