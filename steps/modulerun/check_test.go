package modulerun

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/values"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

func TestARunOfAModuleThatCannotBeLoadedEndsAndSaysWhy(t *testing.T) {
	s, _ := scantest.NewBroken(t)
	step := &checkStep{state: s, hooks: hooks.New(s.DB, s.Log, scantest.Runner(t), s.Modules)}
	for name, want := range map[string]string{"yaml": "values.yaml", "hook": "hooks/bad.sh --config", "asleep": "cannot be executed"} {
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			return store.Save(tx, store.ModuleKey(name), store.Module{State: store.On, Enabled: true})
		})
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			return s.ConfigMap.SaveApplied(tx, scantest.Config(t, name+"Enabled", "true"), "1")
		})
		task := workflow.Task{Task: store.Task{Subject: graph.Subject{Module: name}}}
		o, err := step.Do(t.Context(), task)
		if err != nil || !strings.Contains(o.Detail, want) {
			t.Errorf("module %s: %q, %v; want an end that names %s", name, o.Detail, err, want)
			continue
		}
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			facts, err := step.Apply(tx, task, o)
			if len(facts) > 0 {
				t.Errorf("module %s is run: %v", name, facts)
			}
			return err
		})
		if got := scantest.RecordedBroken(t, s.DB)[name]; got != want {
			t.Errorf("module %s is broken by %q, want %q", name, got, want)
		}
	}
}

func TestARunThatIsInterruptedDoesNotBreakItsModule(t *testing.T) {
	s, _ := scantest.NewBroken(t)
	step := &checkStep{state: s, hooks: hooks.New(s.DB, s.Log, scantest.Runner(t), s.Modules)}
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		return errors.Join(s.ConfigMap.SaveApplied(tx, scantest.Config(t, "webEnabled", "true"), "1"),
			store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, Enabled: true}))
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o, err := step.Do(ctx, workflow.Task{Task: store.Task{Subject: graph.Subject{Module: "web"}}}); err == nil {
		t.Errorf("the run ended with %q", o.Detail)
	}
}

// A bench has a checkStep and a module "web" with one hook. The ConfigMap enables the module.
type bench struct {
	t        *testing.T
	s        *scan.State
	mounted  string
	step     *checkStep
	reported reported
}

// web is the task of a run of module web.
var web = workflow.Task{Task: store.Task{Run: 9, Subject: graph.Subject{Module: "web"}}}

// newBench returns a bench in the start with the number 4. An earlier run of the module has saved
// its hook.
func newBench(t *testing.T) *bench {
	t.Helper()
	s, mounted := scantest.New(t)
	x := &bench{t: t, s: s, mounted: mounted}
	x.step = &checkStep{state: s, hooks: hooks.New(s.DB, s.Log, scantest.Runner(t), s.Modules), survey: &x.reported}
	scantest.Write(t, mounted, "010-web/values.yaml", "web: {size: 1}")
	scantest.Program(t, mounted, "010-web/hooks/hook.sh", scantest.GoodHook)
	scantest.Scan(t, s)
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		return errors.Join(store.Save(tx, store.StartupKey(), store.Startup{StartRun: 4}), s.ConfigMap.SaveApplied(tx, scantest.Config(t, "webEnabled", "true"), "1"))
	})
	x.record(store.Module{State: store.On, Enabled: true})
	x.apply(x.do())
	x.reported.calls = nil
	return x
}

// record replaces the record of the module "web".
func (x *bench) record(m store.Module) {
	x.t.Helper()
	scantest.Update(x.t, x.s.DB, func(tx *store.Tx) error { return store.Save(tx, store.ModuleKey("web"), m) })
}

func (x *bench) do() workflow.Outcome {
	x.t.Helper()
	o, err := x.step.Do(x.t.Context(), web)
	if err != nil {
		x.t.Fatal(err)
	}
	return o
}

// apply calls Apply with the outcome o. It returns the facts, and the record of the module after
// the transaction.
func (x *bench) apply(o workflow.Outcome) (facts []graph.Fact, m store.Module) {
	x.t.Helper()
	scantest.Update(x.t, x.s.DB, func(tx *store.Tx) (err error) {
		if facts, err = x.step.Apply(tx, web, o); err != nil {
			return err
		}
		m, _, err = store.Load[store.Module](tx, store.ModuleKey("web"))
		return err
	})
	return facts, m
}

func TestTheStateOfAModuleDecidesHowItsRunBegins(t *testing.T) {
	edit := func(x *bench) {
		scantest.Program(t, x.mounted, "010-web/hooks/hook.sh", scantest.GoodHook+"# another version\n")
	}
	since := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	ended := store.Module{State: store.On, Enabled: true, RanInStart: 4, RanIn: 3}
	begun := store.Module{State: store.On, Enabled: true, RanIn: 3}
	for name, c := range map[string]struct {
		was    store.Module
		change func(*bench)
		facts  []graph.Fact
		want   store.Module
	}{
		"off":                              {store.Module{State: store.Off, Enabled: true, RanIn: 3}, nil, []graph.Fact{lifecycle.JustEnabled}, begun},
		"interrupted before its first end": {begun, nil, []graph.Fact{lifecycle.JustEnabled}, begun},
		"started in this start":            {ended, nil, []graph.Fact{lifecycle.AlreadyStarted}, ended},
		"started in an earlier start":      {store.Module{State: store.On, Enabled: true, RanInStart: 3, RanIn: 3}, nil, []graph.Fact{lifecycle.JustEnabled}, begun},
		"started, with other hooks":        {ended, edit, []graph.Fact{lifecycle.JustEnabled}, begun},
		"enabled again while it is deleted": {
			store.Module{State: store.Deleting, Enabled: true, RanInStart: 4, RanIn: 3}, nil, []graph.Fact{lifecycle.JustEnabled}, begun,
		},
		"its release is deleted": {
			store.Module{State: store.Uninstalled, Enabled: true, RanInStart: 4}, nil, []graph.Fact{lifecycle.HalfDeleted}, store.Module{State: store.Uninstalled, Enabled: true, RanInStart: 4},
		},
		"its files are corrected": {
			store.Module{State: store.On, Enabled: true, RanInStart: 4, RanIn: 3, Broken: "bad", BrokenSince: since}, nil, []graph.Fact{lifecycle.AlreadyStarted}, ended,
		},
		"its files are corrected before its first end": {
			store.Module{State: store.On, Enabled: true, RanIn: 3, Broken: "bad", BrokenSince: since}, nil, []graph.Fact{lifecycle.JustEnabled}, begun,
		},
	} {
		x := newBench(t)
		x.record(c.was)
		if c.change != nil {
			c.change(x)
			scantest.Scan(t, x.s)
		}
		facts, m := x.apply(x.do())
		if diff := cmp.Diff(c.facts, facts); diff != "" {
			t.Errorf("%s: facts (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.want, m); diff != "" {
			t.Errorf("%s: record (-want +got):\n%s", name, diff)
		}
		began := !slices.Equal(facts, []graph.Fact{lifecycle.HalfDeleted})
		if got := len(x.reported.calls) == 1 && x.reported.calls[0] == "began web"; got != began {
			t.Errorf("%s: reported %q, a run has begun: %t", name, x.reported.calls, began)
		}
	}
}

// conversions returns the attached conversion bindings of the module "web", sorted.
func (x *bench) conversions() (names []string) {
	x.t.Helper()
	scantest.Update(x.t, x.s.DB, func(tx *store.Tx) error {
		for k := range tx.Range(store.BindingsOf("web")) {
			b, _, err := store.Load[store.Binding](tx, k)
			if err != nil {
				return err
			}
			s, err := store.ParseBindingKey(k)
			if err != nil {
				return err
			}
			if b.Kind == store.Conversion && !b.Detached {
				names = append(names, s.Hook+" "+s.Binding)
			}
		}
		return nil
	})
	slices.Sort(names)
	return names
}

// converts returns the script of a hook with a conversion binding called name.
func converts(name string) string {
	return "#!/bin/sh\necho '" + `{"configVersion":"v1","kubernetes":[{"name":"pods","kind":"Pod"}],` +
		`"kubernetesCustomResourceConversion":[{"name":"` + name + `","crdName":"things.x.io","conversions":[{"fromVersion":"v1","toVersion":"v2"}]}]}` + "'\n"
}

// The bindings of a module are attached after its onStartup hooks, which may already need a conversion.
func TestARenamedConversionIsAttachedAsSoonAsItsHookIsSaved(t *testing.T) {
	x := newBench(t)
	run := func(when string, want ...string) {
		t.Helper()
		scantest.Scan(t, x.s)
		x.apply(x.do())
		if diff := cmp.Diff(want, x.conversions()); diff != "" {
			t.Errorf("%s: attached conversions (-want +got):\n%s", when, diff)
		}
	}
	attach := func(change func(*store.Tx) error) {
		t.Helper()
		scantest.Update(t, x.s.DB, func(tx *store.Tx) error {
			all, err := bindings.LoadHooks(tx, "web")
			if err != nil {
				return err
			}
			if _, err = bindings.Attach(tx, "web", all); err != nil {
				return err
			}
			return change(tx)
		})
	}
	const hook = "010-web/hooks/hook.sh"
	scantest.Program(t, x.mounted, hook, converts("up"))
	run("before the module has attached its bindings")
	attach(func(*store.Tx) error { return nil })
	scantest.Program(t, x.mounted, hook, converts("upgrade"))
	run("a renamed binding", "hooks/hook.sh upgrade")
	if err := os.Rename(filepath.Join(x.mounted, hook), filepath.Join(x.mounted, "010-web/hooks/10-hook.sh")); err != nil {
		t.Fatal(err)
	}
	run("a renamed hook", "hooks/10-hook.sh upgrade")
	scantest.Program(t, x.mounted, hook, converts("down"))
	run("one more hook", "hooks/10-hook.sh upgrade", "hooks/hook.sh down")
	for _, name := range []string{"hooks/10-hook.sh", "hooks/hook.sh"} {
		scantest.Program(t, x.mounted, "010-web/"+name, scantest.GoodHook)
	}
	run("no conversion is left")
	scantest.Program(t, x.mounted, hook, converts("up"))
	run("a conversion again, which is attached with the other bindings")
	attach(func(tx *store.Tx) error { return bindings.Detach(tx, "web") })
	scantest.Program(t, x.mounted, hook, converts("upgrade"))
	run("the bindings are detached")
}

func TestARunOfAModuleThatMustNotRunEndsAndSaysWhy(t *testing.T) {
	enabled := store.Module{State: store.On, Enabled: true, RanInStart: 4}
	undefined, starting, disabled := enabled, enabled, enabled
	undefined.Undefined, starting.RanInStart, disabled.Enabled = "bad CRD", 0, false
	for name, c := range map[string]struct {
		was    store.Module
		change func(*bench)
		detail string
		broken string // a part of the reason that must be in the record
	}{
		"disabled by the last discovery":              {disabled, func(*bench) {}, "it is not enabled any more", ""},
		"disabled by the last discovery, and deleted": {disabled, func(x *bench) { scantest.Write(t, x.mounted, "020-db/values.yaml", ""); x.remove() }, "it is not enabled any more", ""},
		"disabled by the ConfigMap since": {enabled, func(x *bench) {
			scantest.Update(t, x.s.DB, func(tx *store.Tx) error { return x.s.ConfigMap.SaveApplied(tx, values.Config{}, "2") })
		}, "it is not enabled any more", ""},
		"without its CRDs":         {undefined, func(*bench) {}, "not run: its CRDs could not be installed", ""},
		"its directory is deleted": {enabled, func(x *bench) { scantest.Write(t, x.mounted, "020-db/values.yaml", ""); x.remove() }, "its directory is gone", ""},
		"its directory is not mounted": {
			enabled, func(x *bench) { x.remove() }, "not run, it cannot be loaded: module web is not on disk, but MOUNTED holds no module at all: is it mounted?", "",
		},
		"its values do not match its schema": {starting, func(x *bench) {
			scantest.Write(t, x.mounted, "010-web/openapi/config-values.yaml", "properties: {size: {type: string}}")
		}, "not run, it cannot be loaded: MOUNTED/010-web/openapi/config-values.yaml rejects the values in values.yaml and the ConfigMap: " +
			"web.size must be of type string, and is of type number (type)", "web.size must be of type string"},
	} {
		x := newBench(t)
		x.record(c.was)
		c.change(x)
		scantest.Scan(t, x.s)
		o := x.do()
		if got := strings.ReplaceAll(o.Detail, x.mounted, "MOUNTED"); got != c.detail {
			t.Errorf("%s: the run says %q, want %q", name, got, c.detail)
		}
		facts, m := x.apply(o)
		if len(facts) > 0 || len(x.reported.calls) > 0 {
			t.Errorf("%s: facts %q, reported %q", name, facts, x.reported.calls)
		}
		if !strings.Contains(m.Broken, c.broken) || (m.Broken == "") != (c.broken == "") || m.BrokenSince.IsZero() != (c.broken == "") {
			t.Errorf("%s: the module is broken by %q since %s, want %q", name, m.Broken, m.BrokenSince, c.broken)
		}
		m.Broken, m.BrokenSince = "", time.Time{}
		if diff := cmp.Diff(c.was, m); diff != "" {
			t.Errorf("%s: other fields of the record (-want +got):\n%s", name, diff)
		}
	}
}

// remove deletes the directory of the module "web".
func (x *bench) remove() {
	x.t.Helper()
	if err := os.RemoveAll(filepath.Join(x.mounted, "010-web")); err != nil {
		x.t.Fatal(err)
	}
}

func TestAModuleThatIsDisabledWhileItsHooksAreReadIsNotRun(t *testing.T) {
	x := newBench(t)
	record := store.Module{State: store.Off, Enabled: true}
	x.record(record)
	scantest.Program(t, x.mounted, "010-web/hooks/new.sh", scantest.GoodHook)
	scantest.Scan(t, x.s)
	o := x.do()
	scantest.Update(t, x.s.DB, func(tx *store.Tx) error {
		return x.s.ConfigMap.SaveApplied(tx, scantest.Config(t, "webEnabled", "false"), "2")
	})
	facts, m := x.apply(o)
	if diff := cmp.Diff(record, m); len(facts) > 0 || diff != "" {
		t.Errorf("facts %q, record (-want +got):\n%s", facts, diff)
	}
	if err := x.s.DB.View(func(tx *store.Tx) error {
		all, err := bindings.LoadHooks(tx, "web")
		if len(all) != 1 {
			t.Errorf("%d hooks are recorded, want the one of the earlier run", len(all))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
