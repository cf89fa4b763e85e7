package decide

import (
	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/store"
)

// Known is the state of the modules of a set before a discovery.
type Known struct {
	Set     module.Set
	Startup store.Startup
	// Modules are the records of modules by name.
	Modules map[string]store.Module

	layers           values.Layers
	enabledOverrides map[string]values.EnabledOverride
	hooks            map[string]error // errors of modules whose hooks cannot be used, by module
}

// Lost reports whether a directory of modules is empty that had an installed module or a values file before. It is
// possible that the directory is not mounted. Then the values file may be missing that enables modules of other
// directories, and enabled scripts do not get the names of all enabled modules.
func (k *Known) Lost() bool {
	if len(k.Set.Empty) == 0 {
		return false
	}
	for name, m := range k.Modules {
		if _, seen := k.Set.Find(name); !seen && m.State != store.Off {
			return true
		}
	}
	return len(k.Set.LostValues(k.Startup.ValuesFiles)) > 0
}
