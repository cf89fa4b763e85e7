package steps

import (
	"addon-operator/internal/values"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// changedFact returns the fact that the values of a section changed.
func changedFact(section string) graph.Fact {
	if section == values.Global {
		return lifecycle.GlobalChanged
	}
	return lifecycle.ModuleChanged
}
