package hookrun

import (
	"errors"

	"addon-operator/internal/hook"
	"addon-operator/steps/hookio"
	"addon-operator/workflow"
	"addon-operator/workflow/lifecycle"
)

// elements returns the binding context of the task t. For events and ticks, it has one element for each task in the
// batch of t, except tasks whose bindings are gone. All elements have the same snapshots, because each snapshot is read
// once.
func (s *Step) elements(t workflow.Task, config hook.Config, out *hookio.Output) ([]hook.Element, error) {
	look := s.hooks.Bindings.Reader(t.Subject.Module, t.Subject.Hook, config)
	if s.binding != "" {
		e := hook.Element{Binding: s.binding, Legacy: config.Legacy()}
		if s.node.Has(lifecycle.SnapshotsAll) && !e.Legacy {
			e.Snapshots = look.Snapshots(config.SnapshotNames())
			if e.Snapshots == nil {
				e.Snapshots = map[string][]hook.Item{}
			}
		}
		return []hook.Element{e}, nil
	}
	if s.synchronizes() {
		e, shown, err := look.Synchronization(t.Subject.Binding)
		out.Observed = shown
		return []hook.Element{e}, err
	}
	elements := make([]hook.Element, 0, len(t.Batch))
	for _, task := range t.Batch {
		e, err := look.Event(task)
		if err != nil && !errors.Is(err, hook.ErrGone) {
			return nil, err
		}
		if err == nil {
			elements = append(elements, e)
		}
	}
	if len(elements) == 0 {
		return nil, look.Gone(t.Subject.Binding)
	}
	return elements, nil
}
