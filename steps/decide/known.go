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
