package hookrun

import (
	"addon-operator/steps/bindings"
	"addon-operator/steps/hookio"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/lifecycle"
)

// An input is the state that was read from the store before a run of a hook.
type input struct {
	hookio.Input

	attached map[string]store.Binding // records of the hook's bindings by ID; nil if the hook gets no events
}

func (s *Step) read(t workflow.Task) (in input, err error) {
	err = s.hooks.state.DB.View(func(tx *store.Tx) error {
		found, err := s.hooks.Exchange.Find(tx, t.Subject)
		if err != nil {
			return err
		}
		if err := s.hooks.state.Modules.Usable(t.Subject.Module); err != nil {
			return err
		}
		if in.Input, err = s.hooks.Exchange.Read(tx, found, t.Subject, s.node.Has(lifecycle.EnabledAll)); err != nil {
			return err
		}
		in.At = tx.Now()
		if s.node.Batch {
			in.attached, err = store.LoadBindings(tx, t.Subject.Module, t.Subject.Hook)
		}
		return err
	})
	return in, err
}

// reader returns a reader of the snapshots and events of the hook of t.
func (s *Step) reader(t workflow.Task, in input) *bindings.Reader {
	return s.hooks.Bindings.Reader(t.Subject.Module, t.Subject.Hook, in.Hook.Config, in.attached)
}
