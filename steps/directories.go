package steps

import (
	"addon-operator/internal/module"
	"addon-operator/steps/addons/modules"
	"addon-operator/steps/desired"
	"addon-operator/store"
	"addon-operator/workflow"
)

// directories are the directories of modules, with those of modules made from addons. Before they are
// scanned, the modules that the registry provides are written.
type directories struct {
	db      *store.DB
	modules *desired.Modules
	addons  *modules.Provided
}

// scan writes the modules that the registry of addons provides now, and reads the directories of
// modules. After an error, the modules of the previous scan stay in use.
func (d *directories) scan() (module.Set, error) {
	if err := d.addons.Write(d.modules.AddonDirs()); err != nil {
		return module.Set{}, err
	}
	return d.modules.Scan()
}

// scanAfter reads the directories again if t, or the run that it starts, has failed: the files may
// be corrected, and nothing else reads them before t ends. It also reads them if the module is made
// from an addon and the ConfigMap or the registry requests another version.
func (d *directories) scanAfter(t workflow.Task) error {
	stale := t.Failed != nil
	if !stale && d.modules.MadeFromAddon(t.Subject.Module) {
		if err := d.db.View(func(tx *store.Tx) error {
			outdated, err := d.addons.Outdated(tx)
			stale = outdated != ""
			return err
		}); err != nil {
			return err
		}
	}
	if !stale {
		return nil
	}
	_, err := d.scan()
	return err
}
