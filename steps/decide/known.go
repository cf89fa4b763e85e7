package decide

import (
	"cmp"
	"slices"
	"strings"

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

// Lost reports whether a directory of modules is empty although it had a values file before. It is possible that the
// directory is not mounted, and that its values file enables modules of other directories.
func (k *Known) Lost() bool { return len(k.Set.LostValues(k.Startup.ValuesFiles)) > 0 }

// preceding returns the names of the enabled modules that precede m. The argument found has the names of those that
// are on disk. If a directory of modules is empty, the result also has the modules that [Decisions.KeepUnseen] keeps.
func (k *Known) preceding(m module.Module, found []string) []string {
	if len(k.Set.Empty) == 0 {
		return found
	}
	return slices.DeleteFunc(withUnseen(k.Startup.Enabled, found, k.Set), func(name string) bool {
		_, seen := k.Set.Find(name)
		return !seen && cmp.Or(cmp.Compare(k.Modules[name].Order, m.Order), strings.Compare(name, m.Name)) > 0
	})
}
