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
	// Kept are the modules that have no directory and stay as they are, because the deletion of a release is blocked or
	// postponed. The caller of [Decider.Decide] sets it. If a directory of modules is empty, all modules without a
	// directory stay as they are, and Kept is empty.
	Kept []string

	layers           values.Layers
	enabledOverrides map[string]values.EnabledOverride
	hooks            map[string]error // errors of modules whose hooks cannot be used, by module
}

// Lost reports whether a directory of modules is empty although it had a values file before. It is possible that the
// directory is not mounted, and that its values file enables modules of other directories.
func (k *Known) Lost() bool { return len(k.Set.LostValues(k.Startup.ValuesFiles)) > 0 }

// preceding returns the names of the enabled modules that precede m. The argument found has the names of those that
// are on disk. The result also has the modules that [Decisions.KeepUnseen] keeps.
func (k *Known) preceding(m module.Module, found []string) []string {
	return slices.DeleteFunc(k.withUnseen(found), func(name string) bool {
		_, seen := k.Set.Find(name)
		return !seen && cmp.Or(cmp.Compare(k.Modules[name].Order, m.Order), strings.Compare(name, m.Name)) > 0
	})
}

// withUnseen returns the names in the argument enabled, and the modules that were enabled at the last discovery, are
// not on disk, and stay as they are. The modules that were enabled at the last discovery come first, in the order of
// that discovery. If no module without a directory stays as it is, withUnseen returns the argument.
func (k *Known) withUnseen(enabled []string) []string {
	if len(k.Set.Empty) == 0 && len(k.Kept) == 0 {
		return enabled
	}
	var all []string
	for _, name := range k.Startup.Enabled {
		if k.keeps(name) || slices.Contains(enabled, name) {
			all = append(all, name)
		}
	}
	for _, name := range enabled {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// keeps reports whether the module is not on disk and stays as it is.
func (k *Known) keeps(module string) bool {
	_, seen := k.Set.Find(module)
	return !seen && (len(k.Set.Empty) > 0 || slices.Contains(k.Kept, module))
}
