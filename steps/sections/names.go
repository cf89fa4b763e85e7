package sections

import (
	"addon-operator/internal/values"
	"addon-operator/workflow/graph"
)

// Of returns the key of the section of module. If module is empty, it returns the key of the global section.
func Of(module string) string {
	if module == "" {
		return values.Global
	}
	return values.Camel(module)
}

// Author returns the name of a hook as the author of values patches and enabled overrides.
func Author(module, hook string) string { return graph.Subject{Module: module, Hook: hook}.String() }
