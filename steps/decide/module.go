package decide

import (
	"slices"

	"addon-operator/internal/module"
	"addon-operator/steps/sections"
)

// A Module is the decision about one module.
type Module struct {
	Name    string `json:"name"`
	Order   int    `json:"order"`
	Enabled bool   `json:"enabled"`
	Why     string `json:"why"`
	Broken  string `json:"broken,omitempty"`
	// Defines is set if the module has CRDs.
	Defines bool `json:"defines,omitempty"`
	// Addon is the content of the addon that the module is made from.
	Addon string `json:"addon,omitempty"`
}

// Decisions are the decisions about all modules that a discovery finds.
type Decisions struct {
	Modules []Module `json:"modules"`
	// Enabled are the names of the enabled modules in order.
	Enabled []string `json:"enabled"`
	// Dropped has, by section, the saved operations that the schemas no longer accept.
	Dropped sections.Unfit `json:"dropped,omitempty"`
	// Whole is set if no directory of modules is empty. Then a module that was not found no longer exists.
	Whole bool `json:"whole"`
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

// Runnable returns the names of the enabled modules that can be loaded, in order.
func (d *Decisions) Runnable() []string {
	return slices.DeleteFunc(slices.Clone(d.Enabled), func(name string) bool {
		return slices.ContainsFunc(d.Modules, func(m Module) bool { return m.Name == name && m.Broken != "" })
	})
}

// KeepUnseen adds modules to Enabled that were enabled before and are not on disk. Call it if a directory of modules
// is empty.
func (d *Decisions) KeepUnseen(k *Known) {
	d.Enabled = withUnseen(k.Startup.Enabled, d.Enabled, k.Set)
}

// withUnseen returns the modules in now, and the modules in before that are not on disk. The modules in before come
// first, in their order.
func withUnseen(before, now []string, set module.Set) []string {
	var all []string
	for _, name := range before {
		if _, seen := set.Find(name); !seen || slices.Contains(now, name) {
			all = append(all, name)
		}
	}
	for _, name := range now {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}
