package hook

import (
	"errors"
	"fmt"
)

// ErrGone means that a hook, its file or one of its bindings no longer exists.
var ErrGone = errors.New("is not there any more")

// BindingIDs are the IDs of a hook's bindings in the store, in the order of its config.
type BindingIDs struct{ Kubernetes, Schedule, Validating, Mutating, Conversion []string }

// BindingIDs returns the IDs of the hook's bindings. The ID of the first binding of a name is the
// name. The IDs of further bindings of the same name have a number appended, as in "kubernetes#2".
func (c Config) BindingIDs() BindingIDs {
	var out BindingIDs
	count := map[string]int{}
	id := func(name string) string {
		count[name]++
		if count[name] == 1 {
			return name
		}
		return fmt.Sprintf("%s#%d", name, count[name])
	}
	for _, b := range c.Kubernetes {
		out.Kubernetes = append(out.Kubernetes, id(b.Name))
	}
	for _, b := range c.Schedule {
		out.Schedule = append(out.Schedule, id(b.Name))
	}
	for _, b := range c.Validating {
		out.Validating = append(out.Validating, id(b.Name))
	}
	for _, b := range c.Mutating {
		out.Mutating = append(out.Mutating, id(b.Name))
	}
	for _, b := range c.Conversion {
		out.Conversion = append(out.Conversion, id(b.Name))
	}
	return out
}
