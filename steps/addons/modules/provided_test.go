package modules_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"addon-operator/steps/addons/modules"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/scan/scantest"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

func TestModulesOfADirectoryThatIsNotMountedKeepTheirNames(t *testing.T) {
	o, mounted, unmounted := scantest.Options(t)
	scantest.Write(t, mounted, "values.yaml", "")
	scantest.Write(t, mounted, "README.md", "")
	scantest.Write(t, mounted, ".hidden/values.yaml", "")
	scantest.Update(t, o.DB, func(tx *store.Tx) error {
		for _, name := range []string{"web", "other", "addon"} {
			if err := store.Save(tx, store.ModuleKey(name), store.Module{State: store.On}); err != nil {
				return err
			}
		}
		for name, m := range map[string]store.Module{"disabled": {State: store.Off}, "former-addon": {State: store.Off, FromAddon: true}} {
			if err := store.Save(tx, store.ModuleKey(name), m); err != nil {
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
		{[]string{mounted, unmounted}, map[string]string{"web": web, "other": unmounted, "disabled": unmounted}},
	} {
		addons := modules.NewProvided(o.DB, oncelog.New(o.Log), &sections.Applied{}, "", c.dirs, false)
		got, err := addons.ImageModules()
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%v: %v (-want +got):\n%s", c.dirs, err, diff)
		}
	}
}

func TestAFailedWriteIsAProblemUntilTheModulesAreWritten(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	dir := filepath.Join(t.TempDir(), "addon-modules")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // no directory can be made here
		t.Fatal(err)
	}
	p := modules.NewProvided(db, oncelog.New(zerolog.Nop()), &sections.Applied{}, dir, nil, true)
	register(t, db, "c", true, "redis 1.0.0")
	notified := 0
	p.Failed = func() { notified++ }
	expect := func(when string, wantMended, wantProblem bool) {
		t.Helper()
		mended, failing, err := p.WriteAgain(nil)
		if mended != wantMended || failing != wantProblem || err != nil {
			t.Errorf("%s: mended %t, failing %t, %v", when, mended, failing, err)
		}
		selected, err := p.Choose()
		is := func(p store.Problem) bool {
			return p.Kind == store.UnusableAddon && p.Object == dir && strings.Contains(p.Error, "not a directory")
		}
		if got := slices.ContainsFunc(selected.Problems, is); got != wantProblem || err != nil {
			t.Errorf("%s: problems %v, %v", when, selected.Problems, err)
		}
	}
	expect("before the first write", false, false)
	if err := p.Write(nil); err != nil {
		t.Fatal(err)
	}
	expect("after a failed write", false, true)
	if notified != 1 {
		t.Errorf("Failed was called %d times after two failed writes, want 1", notified)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	expect("when the directory can be made", true, false)
	if _, err := os.Stat(filepath.Join(dir, "redis")); err != nil {
		t.Error(err)
	}
	expect("later", false, false)
}

func TestADamagedRecordStopsNeitherDiscoveriesNorChecks(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	register(t, db, "c", true, "redis 1.0.0", "acc 1.0.0")
	use(t, db, "redis")
	k := store.ModuleKey("web")
	update(t, db, func(tx *store.Tx) error { return store.Save(tx, k, store.Module{State: store.On}) })
	p := modules.NewProvided(db, oncelog.New(zerolog.Nop()), &sections.Applied{}, filepath.Join(t.TempDir(), "addon-modules"), []string{t.TempDir()}, false)
	for _, k := range []store.Key{
		k, store.ConfigurationKey("", "c"), store.AddonKey("", "id-redis1.0.0"), store.AddonModuleKey("redis"), store.AddonModuleKey("acc"),
	} {
		var record []byte
		update(t, db, func(tx *store.Tx) error {
			record = slices.Clone(tx.Get(k))
			tx.Put(k, []byte("[1]"))
			return nil
		})
		if err := p.Write(nil); err != nil {
			t.Errorf("%s: %v", k, err)
		}
		selected, err := p.Choose()
		if _, hasRedis := selected.Contents()["redis"]; err != nil || !hasRedis {
			t.Errorf("%s: selected are %v, %v", k, selected.Contents(), err)
		}
		update(t, db, func(tx *store.Tx) error {
			if _, err := p.Outdated(tx); err != nil {
				t.Errorf("%s: %v", k, err)
			}
			if _, err := p.Expected(tx); err != nil {
				t.Errorf("%s: %v", k, err)
			}
			tx.Put(k, record)
			return nil
		})
	}
}

func TestADeletionEndsThoughTheRecordOfTheModuleIsDamaged(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	register(t, db, "c", true, "redis 1.0.0")
	use(t, db, "redis")
	update(t, db, func(tx *store.Tx) error { tx.Put(store.AddonModuleKey("redis"), []byte("[1]")); return nil })
	update(t, db, func(tx *store.Tx) error { return modules.Release(tx, "redis") })
	if err := db.View(func(tx *store.Tx) error {
		for k := range tx.Range(store.HoldsOf(store.ModuleHolder("redis"))) {
			t.Errorf("%s is kept for a deleted module", k)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
