package decide

import (
	"slices"

	"addon-operator/steps/addons/modules"
	"addon-operator/steps/bindings"
	"addon-operator/store"
)

// Save saves the decisions in the records of the modules. If d.Whole is true, Save deletes the records of modules that
// were not found and are not in d.Missing, and of their hooks. The argument run is the number of the run that made the
// decisions, and the argument before has the previous records.
func (d *Decisions) Save(tx *store.Tx, run uint64, before map[string]store.Module) error {
	if err := saveAddonModules(tx, d.Modules, before); err != nil {
		return err
	}
	if err := saveModules(tx, run, d.Modules, before); err != nil || !d.Whole {
		return err
	}
	return d.forgetMissing(tx, before)
}

// found reports whether one of the decisions is about module.
func (d *Decisions) found(module string) bool {
	return slices.ContainsFunc(d.Modules, func(m Module) bool { return m.Name == module })
}

// forgetMissing deletes the records of the modules that have a previous record and were not found. It marks the modules
// in d.Missing as missing instead.
func (d *Decisions) forgetMissing(tx *store.Tx, before map[string]store.Module) error {
	for name, record := range before {
		if d.found(name) {
			continue
		}
		if slices.Contains(d.Missing, name) {
			record.Missing = true
			if err := store.Save(tx, store.ModuleKey(name), record); err != nil {
				return err
			}
			continue
		}
		tx.Delete(store.ModuleKey(name))
		if err := bindings.Forget(tx, name); err != nil {
			return err
		}
	}
	return nil
}

// SaveStartup saves the names of the enabled modules and the values files, if they differ from the saved ones.
func (d *Decisions) SaveStartup(tx *store.Tx) error {
	l, err := store.LoadStartup(tx)
	if err != nil || slices.Equal(l.Enabled, d.Enabled) && slices.Equal(l.ValuesFiles, d.ValuesFiles) {
		return err
	}
	l.Enabled, l.ValuesFiles = d.Enabled, d.ValuesFiles
	return store.Save(tx, store.StartupKey(), l)
}

// saveModules saves the decisions about modules in their records. The argument run is the number of the run that made
// the decisions, and the argument before has the previous records.
func saveModules(tx *store.Tx, run uint64, modules []Module, before map[string]store.Module) error {
	for _, d := range modules {
		old, known := before[d.Name]
		if !d.Enabled {
			store.DeleteProblems(tx, store.OrphanedModule, d.Name)
		}
		next := old
		next.Order, next.Enabled, next.Why, next.FromAddon = d.Order, d.Enabled, d.Why, d.FromAddon
		next.SetBroken(d.Broken, tx.Now())
		next.Missing = false
		if !known || next.Enabled != old.Enabled || next.Why != old.Why {
			next.DecidedIn, next.DecidedAt = run, tx.Now()
		}
		if next.State == "" {
			next.State = store.Off
		}
		if !d.Defines {
			next.Defined, next.Undefined = "", ""
		}
		if known && next == old {
			continue
		}
		if err := store.Save(tx, store.ModuleKey(d.Name), next); err != nil {
			return err
		}
	}
	return nil
}

// saveAddonModules records which of the found modules are made from addons. The store keeps the files of addons whose
// modules are enabled or not deleted yet. If a module made from an addon cannot be loaded, its addon may be unknown,
// and its record stays.
func saveAddonModules(tx *store.Tx, found []Module, before map[string]store.Module) error {
	saved, err := store.LoadAddonModules(tx)
	if err != nil {
		return err
	}
	contents, used := map[string]string{}, map[string]bool{}
	for _, d := range found {
		content := d.Addon
		if content == "" && d.FromAddon {
			content = saved[d.Name].Content
		}
		if content == "" {
			continue
		}
		state := before[d.Name].State
		contents[d.Name], used[d.Name] = content, d.Enabled || state != store.Off && state != ""
	}
	return modules.Save(tx, contents, func(name string) bool { return used[name] })
}
