package steps

import (
	"errors"
	"fmt"

	"addon-operator/internal/hook"
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

// bindingIDs returns the IDs of the hook's bindings. An ID is the binding's name, with a number for
// each further binding of the same name.
func bindingIDs(c hook.Config) ids {
	var out ids
	count := map[string]int{}
	id := func(name string) string {
		count[name]++
		if count[name] == 1 {
			return name
		}
		return fmt.Sprintf("%s#%d", name, count[name])
	}
	for _, b := range c.Kubernetes {
		out.kubernetes = append(out.kubernetes, id(b.Name))
	}
	for _, b := range c.Schedule {
		out.schedule = append(out.schedule, id(b.Name))
	}
	for _, b := range c.Validating {
		out.validating = append(out.validating, id(b.Name))
	}
	for _, b := range c.Mutating {
		out.mutating = append(out.mutating, id(b.Name))
	}
	for _, b := range c.Conversion {
		out.conversion = append(out.conversion, id(b.Name))
	}
	return out
}

// changedFact returns the fact that the values of a section changed.
func changedFact(section string) graph.Fact {
	if section == values.Global {
		return lifecycle.GlobalChanged
	}
	return lifecycle.ModuleChanged
}

// ids are the IDs of a hook's bindings in the store, in the order of its config.
type ids struct{ kubernetes, schedule, validating, mutating, conversion []string }

// errGone means that the subject of a task no longer exists.
var errGone = errors.New("is not there any more")
