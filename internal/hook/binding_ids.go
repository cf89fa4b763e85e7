package hook

import (
	"errors"
	"fmt"
)

// ErrGone means that a hook, its file or one of its bindings no longer exists.
var ErrGone = errors.New("is not there any more")

// BindingIDs are the IDs that identify the bindings of a hook in the store. Each list has the order of the hook's
// config.
type BindingIDs struct{ Kubernetes, Schedule, Validating, Mutating, Conversion []string }

// BindingIDs returns the IDs of all bindings except the ordered ones. The ID of a binding is its name. If several
// bindings have the same name, the ID of the second and of each further one has a number appended, as in
// "kubernetes#2".
func (c Config) BindingIDs() BindingIDs {
	var out BindingIDs
	taken := map[string]bool{}
	id := func(name string) string {
		id := name
		for n := 2; taken[id]; n++ {
			id = fmt.Sprintf("%s#%d", name, n)
		}
		taken[id] = true
		return id
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
