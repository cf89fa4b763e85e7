package addons

import (
	"testing"

	"addon-operator/internal/api"
	"addon-operator/store"
)

func TestConfigurationsAreComparedAgainWhenTheModulesOfTheImageChange(t *testing.T) {
	w := newFixture(t)
	defer w.forget()
	compare := func(image string) {
		t.Helper()
		w.Image = func(_ api.Identity, marked bool) (string, error) {
			if !marked {
				return "", nil
			}
			return image, nil
		}
		if err := w.compareModules(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.know("plain", 1, store.PhaseReady)
	w.know("marked", 1, store.PhaseReady)
	compared := func(image string) {
		t.Helper()
		if err := w.db.Update(func(tx *store.Tx) error {
			k := store.ConfigurationKey("", "marked")
			c, _, err := store.Load[store.Configuration](tx, k)
			if err != nil {
				return err
			}
			c.Modules, c.Image = true, image
			return store.Save(tx, k, c)
		}); err != nil {
			t.Fatal(err)
		}
	}
	compared("old image")
	compare("new image")
	w.expect("marked: the modules of the image changed")
	compare("new image")
	w.expect()
	compared("new image")
	compare("")
	w.expect("marked: the modules of the image changed")
	// After a start, compared is nil, and compareModules compares the modules with the records in
	// the store.
	compared("new image")
	w.compared = nil
	compare("new image")
	w.expect()
	w.compared = nil
	compare("")
	w.expect("marked: the modules of the image changed")
}
