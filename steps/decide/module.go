package decide

import (
	"slices"

	"addon-operator/steps/sections"
)

// A Module is the decision about one module.
type Module struct {
	Name    string `json:"name"`
	Order   int    `json:"order"`
	Enabled bool   `json:"enabled"`
	Why     string `json:"why"`
	Broken  string `json:"broken,omitempty"`
	// Kept is true if the module stays enabled only because a directory of modules may not be mounted; see
	// [Known.Lost].
	Kept bool `json:"kept,omitempty"`
	// Defines is true if the module is enabled, can be loaded, and has CustomResourceDefinitions.
	Defines bool `json:"defines,omitempty"`
	// FromAddon is true if the module is made from an addon.
	FromAddon bool `json:"fromAddon,omitempty"`
	// Addon is the name of the content of the addon that the module is made from; empty for other modules. If the module
	// cannot be loaded, Addon can be empty too.
	Addon string `json:"addon,omitempty"`
}

// Decisions are the decisions about all modules that a discovery finds.
type Decisions struct {
	Modules []Module `json:"modules"`
	// Enabled are the names of the enabled modules, in the order in which they run.
	Enabled []string `json:"enabled"`
	// ValuesFiles are the values files of the directories of modules, including lost ones.
	ValuesFiles []string `json:"valuesFiles,omitempty"`
	// Dropped has, by section, the saved operations that the schemas no longer accept.
	Dropped sections.Unfit `json:"dropped,omitempty"`
	// Whole is true if no directory of modules is empty. If Whole is true, a module that was not found no longer
	// exists, unless Missing contains it.
	Whole bool `json:"whole"`
	// Missing are the modules that were not found and whose records stay. It is set only if Whole is true.
	Missing []string `json:"missing,omitempty"`
}

// Broken returns the number of modules that cannot be loaded.
func (d *Decisions) Broken() (n int) {
	for _, m := range d.Modules {
		if m.Broken != "" {
			n++
		}
	}
	return n
}

// Runnable returns the names of the enabled modules that can be loaded and are not kept, in the order in which they
// run.
func (d *Decisions) Runnable() []string {
	return slices.DeleteFunc(slices.Clone(d.Enabled), func(name string) bool {
		return slices.ContainsFunc(d.Modules, func(m Module) bool { return m.Name == name && (m.Broken != "" || m.Kept) })
	})
}

// KeepUnseen adds to Enabled the modules that were enabled at the last discovery, are not on disk, and stay as they
// are. If a directory of modules is empty, these are all modules that are not on disk, because it is possible that the
// directory is not mounted. Otherwise, these are the modules in k.Kept.
func (d *Decisions) KeepUnseen(k *Known) { d.Enabled = k.withUnseen(d.Enabled) }
