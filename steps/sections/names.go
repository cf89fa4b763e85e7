package sections

import (
	"addon-operator/internal/values"
	"addon-operator/workflow/graph"
)

// Of returns the key of the section that a module's hooks may change. For global hooks,
// module is empty and the section is the global one.
func Of(module string) string {
	if module == "" {
		return values.Global
	}
	return values.Camel(module)
}

// Author returns the name of a hook as the author of values patches and enabled overrides.
func Author(module, hook string) string { return graph.Subject{Module: module, Hook: hook}.String() }
