package decide

import (
	"testing"

	"addon-operator/store"
	"addon-operator/store/storetest"
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
			if err := saveModules(tx, uint64(i+1), []Module{c.decided}, before); err != nil { //nolint:gosec // it is small
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
