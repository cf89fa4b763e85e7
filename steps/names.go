package steps

import (
	"errors"
	"fmt"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// sectionOf returns the key of the section a module's hooks may change; a
// global hook, of no module, changes the global one.
func sectionOf(module string) string {
	if module == "" {
		return values.Global
	}
	return values.Camel(module)
}

// nameOf returns the name of a hook as the author of values patches and enabled overrides.
func nameOf(module, hook string) string { return graph.Subject{Module: module, Hook: hook}.String() }

// bindingIDs returns the bindings' own names where these are unique in the
// hook, else with their number among the namesakes.
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

// ids are the names under which a hook's bindings stand in the store, in the
// order of its config.
type ids struct{ kubernetes, schedule, validating, mutating, conversion []string }

// errGone tells that what a task is about is gone since the task was made.
var errGone = errors.New("is not there any more")
