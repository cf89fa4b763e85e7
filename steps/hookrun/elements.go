package hookrun

import (
	"errors"

	"addon-operator/internal/hook"
	"addon-operator/steps/hookio"
	"addon-operator/workflow"
	"addon-operator/workflow/lifecycle"
)

// elements returns the binding context of the task t. For events and ticks, it has one element for each task in the
// batch of t, except tasks whose bindings are gone, and events that exist only for an earlier configuration of their
// bindings. If no element is left, the error wraps [hook.ErrGone]. All elements have the same snapshots, because each
// snapshot is read once.
func (s *Step) elements(t workflow.Task, in input, out *hookio.Output) ([]hook.Element, error) {
	look, config := s.reader(t, in), in.Hook.Config
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
	var gone error
	for _, task := range t.Batch {
		e, err := look.Event(task)
		switch {
		case err == nil:
			elements = append(elements, e)
		case errors.Is(err, hook.ErrGone):
			gone = err
		default:
			return nil, err
		}
	}
	if len(elements) == 0 {
		return nil, gone
	}
	return elements, nil
}
