package steps

import (
	"addon-operator/internal/values"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// sectionOf returns the key of the section that a module's hooks may change. For global hooks,
// module is empty and the section is the global one.
func sectionOf(module string) string {
	if module == "" {
		return values.Global
	}
	return values.Camel(module)
}

// nameOf returns the name of a hook as the author of values patches and enabled overrides.
func nameOf(module, hook string) string { return graph.Subject{Module: module, Hook: hook}.String() }

// changedFact returns the fact that the values of a section changed.
func changedFact(section string) graph.Fact {
	if section == values.Global {
		return lifecycle.GlobalChanged
	}
	return lifecycle.ModuleChanged
}
