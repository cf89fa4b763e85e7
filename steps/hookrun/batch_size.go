package hookrun

import (
	"addon-operator/steps/bindings"
	"addon-operator/store"
)

// BatchSize returns a function that estimates how many bytes a task adds to the binding context, in addition to its
// payload; see [bindings.Reader.Added]. Each element of the context has its own copy of the snapshots that its binding
// includes.
func (s *Step) BatchSize(tx *store.Tx, t *store.Task) func(last, next *store.Task) int {
	h, known, err := bindings.LoadHook(tx, t.Subject.Module, t.Subject.Hook)
	if err != nil || !known {
		return func(_, _ *store.Task) int { return 0 } // the run reports the error
	}
	attached, err := store.LoadBindings(tx, t.Subject.Module, t.Subject.Hook)
	if err != nil {
		return func(_, _ *store.Task) int { return 0 } // the run reports the error
	}
	return s.hooks.Bindings.Reader(t.Subject.Module, t.Subject.Hook, h.Config, attached).Added
}
