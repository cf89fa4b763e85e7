package modules_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/steps/addons/modules"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/scan/scantest"
	"addon-operator/steps/sections"
	"addon-operator/store"
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
		addons := modules.NewProvided(o.DB, oncelog.New(o.Log), &sections.Applied{}, "", c.dirs, false)
		got, err := addons.ImageModules()
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%v: %v (-want +got):\n%s", c.dirs, err, diff)
		}
	}
}
