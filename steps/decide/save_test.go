package decide

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rs/zerolog"

	"addon-operator/steps/addons/modules"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow/graph"
)

func TestRunThatDecidedAboutAModuleIsStored(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	for i, c := range []struct {
		decided Module
		want    uint64
	}{
		{Module{Name: "web", Enabled: true, Why: "enabled by modules/values.yaml"}, 1},
		{Module{Name: "web", Enabled: true, Why: "enabled by modules/values.yaml", Order: 20}, 1},
		{Module{Name: "web", Enabled: true, Why: "enabled by ConfigMap key webEnabled"}, 3},
		{Module{Name: "web", Why: "enabled by ConfigMap key webEnabled"}, 4},
	} {
		var m store.Module
		err := db.Update(func(tx *store.Tx) error {
			before, err := store.LoadModules(tx)
			if err != nil {
				return err
			}
			if err := saveModules(tx, uint64(i+1), []Module{c.decided}, before); err != nil { //nolint:gosec // the index is small
				return err
			}
			m, _, err = store.Load[store.Module](tx, store.ModuleKey("web"))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if m.DecidedIn != c.want || m.DecidedAt.IsZero() {
			t.Errorf("after run %d the record is %+v, want run %d", i+1, m, c.want)
		}
	}
}

func TestADecisionChangesOnlyWhatItDecidesInTheRecordOfItsModule(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	early := db.Now().Add(-time.Hour)
	was := store.Module{
		State: store.On, Order: 10, RanInStart: 4, RanIn: 5, RanAt: early, Enabled: true, Why: "on", DecidedIn: 3, DecidedAt: early,
		Defined: "sum", DefinedIn: 4, Undefined: "bad CRD",
	}
	broken := was
	broken.Broken, broken.BrokenSince = "bad", early
	for name, c := range map[string]struct {
		was     *store.Module // previous record; nil if the module is new
		decided Module
		want    store.Module // each time other than "early" must be near the time of the save
	}{
		"the same decision": {&was, Module{Order: 10, Enabled: true, Why: "on", Defines: true}, was},
		"a module without CRDs, with another number": {&was, Module{Order: 20, Enabled: true, Why: "on"}, store.Module{
			State: store.On, Order: 20, RanInStart: 4, RanIn: 5, RanAt: early, Enabled: true, Why: "on", DecidedIn: 3, DecidedAt: early, DefinedIn: 4,
		}},
		"it can no longer be loaded": {&was, Module{Order: 10, Enabled: true, Why: "on", Broken: "bad", Defines: true}, func() store.Module {
			next := was
			next.Broken, next.BrokenSince = "bad", db.Now()
			return next
		}()},
		"it cannot be loaded for another reason": {&broken, Module{Order: 10, Enabled: true, Why: "on", Broken: "worse", Defines: true}, func() store.Module {
			next := broken
			next.Broken = "worse"
			return next
		}()},
		"it can be loaded again":   {&broken, Module{Order: 10, Enabled: true, Why: "on", Defines: true}, was},
		"a new module is disabled": {nil, Module{Order: 10, Why: "off"}, store.Module{State: store.Off, Order: 10, Why: "off", DecidedIn: 9, DecidedAt: db.Now()}},
	} {
		before := map[string]store.Module{}
		if c.was != nil {
			before["web"] = *c.was
		}
		c.decided.Name = "web"
		var got store.Module
		if err := db.Update(func(tx *store.Tx) (err error) {
			tx.Delete(store.ModuleKey("web"))
			if c.was != nil {
				if err := store.Save(tx, store.ModuleKey("web"), *c.was); err != nil {
					return err
				}
			}
			if err := saveModules(tx, 9, []Module{c.decided}, before); err != nil {
				return err
			}
			got, _, err = store.Load[store.Module](tx, store.ModuleKey("web"))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got, cmpopts.EquateApproxTime(time.Minute)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAProblemOfAnOrphanedModuleEndsWhenTheModuleIsDisabled(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	update := func(do func(*store.Tx) error) {
		t.Helper()
		if err := db.Update(do); err != nil {
			t.Fatal(err)
		}
	}
	update(func(tx *store.Tx) error {
		_, err := store.ReplaceProblems(tx, store.OrphanedModule, []store.Problem{
			{Subject: graph.Subject{Module: "off"}, Error: "gone"}, {Subject: graph.Subject{Module: "on"}, Error: "gone"},
		})
		return err
	})
	update(func(tx *store.Tx) error {
		return (&Decisions{Modules: []Module{{Name: "off"}, {Name: "on", Enabled: true}}}).Save(tx, 1, nil)
	})
	update(func(tx *store.Tx) error {
		problems, err := store.AllProblems(tx)
		if len(problems) != 1 || problems[0].Subject.Module != "on" {
			t.Errorf("problems %+v, want one of module on", problems)
		}
		return err
	})
}

func TestEnabledModulesAndValuesFilesReplaceThoseOfTheLastDiscoveryAndNothingElse(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	was := store.Startup{StartRun: 4, Epoch: 2, Digest: "code", Converged: 3, Cluster: "uid", Enabled: []string{"web", "db"}, ValuesFiles: []string{"/b"}}
	for _, decided := range []Decisions{
		{Enabled: []string{"db", "web"}, ValuesFiles: []string{"/b"}},
		{Enabled: []string{"db", "web"}, ValuesFiles: []string{"/b"}},
		{Enabled: []string{"db", "web"}, ValuesFiles: []string{"/c"}},
		{ValuesFiles: []string{"/c"}},
		{},
	} {
		if err := db.Update(func(tx *store.Tx) error {
			if err := store.Save(tx, store.StartupKey(), was); err != nil {
				return err
			}
			if err := decided.SaveStartup(tx); err != nil {
				return err
			}
			got, err := store.LoadStartup(tx)
			was.Enabled, was.ValuesFiles = decided.Enabled, decided.ValuesFiles
			if diff := cmp.Diff(was, got); diff != "" {
				t.Errorf("record of the start (-want +got):\n%s", diff)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestModulesInUseKeepTheFilesOfTheirAddons(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	before := map[string]store.Module{
		"retired": {State: store.Uninstalled}, "deleted": {State: store.Off}, "lost": {State: store.On, Enabled: true}, "plain": {State: store.On},
		"broken": {State: store.On, Enabled: true},
	}
	decided := Decisions{Modules: []Module{
		{Name: "new", Enabled: true, FromAddon: true, Addon: "a"},
		{Name: "retired", FromAddon: true, Addon: "b"},
		{Name: "deleted", FromAddon: true, Addon: "c"},
		{Name: "never", FromAddon: true, Addon: "d"},
		{Name: "plain", Enabled: true},
		{Name: "broken", Enabled: true, Broken: "its files cannot be read", FromAddon: true},
		{Name: "replaced", Enabled: true, Broken: "the files of the image cannot be read"},
	}}
	if err := db.Update(func(tx *store.Tx) error {
		return errors.Join(
			store.Save(tx, store.AddonModuleKey("lost"), store.AddonModule{Content: "e", Used: true}),
			store.Save(tx, store.AddonModuleKey("broken"), store.AddonModule{Content: "f", Used: true}),
			store.Save(tx, store.AddonModuleKey("replaced"), store.AddonModule{Content: "g", Used: true}),
		)
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *store.Tx) error {
		if err := decided.Save(tx, 1, before); err != nil {
			return err
		}
		saved, err := store.LoadAddonModules(tx)
		if diff := cmp.Diff(map[string]store.AddonModule{
			"new": {Content: "a", Used: true}, "retired": {Content: "b", Used: true}, "deleted": {Content: "c"}, "never": {Content: "d"},
			"broken": {Content: "f", Used: true},
		}, saved); diff != "" {
			t.Errorf("modules made from addons (-want +got):\n%s", diff)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestOnlyModulesOfDirectoriesKeepTheirNames finds two modules, and then none, while a directory is empty. The name of
// the module that was made from an addon must be free again, even if the addons were dropped from the store.
func TestOnlyModulesOfDirectoriesKeepTheirNames(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	empty := t.TempDir()
	provided := modules.NewProvided(db, oncelog.New(zerolog.Nop()), &sections.Applied{}, t.TempDir(), []string{empty}, true)
	save := func(found ...Module) {
		t.Helper()
		if err := db.Update(func(tx *store.Tx) error {
			before, err := store.LoadModules(tx)
			if err != nil {
				return err
			}
			d := Decisions{Modules: found}
			return d.Save(tx, 1, before)
		}); err != nil {
			t.Fatal(err)
		}
	}
	names := func(when string) {
		t.Helper()
		got, err := provided.ImageModules()
		if diff := cmp.Diff(map[string]string{"web": empty}, got); diff != "" || err != nil {
			t.Errorf("%s: modules of the image: %v (-want +got):\n%s", when, err, diff)
		}
	}
	addon, web := Module{Name: "greeter", FromAddon: true, Addon: "content"}, Module{Name: "web"}
	save(addon, web)
	names("while the addon is registered")
	save(Module{Name: "greeter", FromAddon: true, Broken: "its files cannot be read"}, web)
	names("while the module cannot be loaded")
	save(web)
	names("after the addon was unregistered")
	save(addon, web)
	if err := db.DropWork(t.Context(), store.LostSpan{How: "the store is a copy"}); err != nil {
		t.Fatal(err)
	}
	names("after the addons were dropped")
}
