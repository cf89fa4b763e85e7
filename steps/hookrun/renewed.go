package hookrun

import (
	"encoding/json"
	"slices"

	"addon-operator/internal/hook"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// renewed is called after a successful run of the hook of t. It removes the bindings of this run from
// [store.Hook.Awaits]. If no binding is left there, renewed deletes the values patches and overrides that only earlier
// code of the hook has written. It returns facts that say whether this deletion has changed values or flags.
func (s *Step) renewed(tx *store.Tx, t workflow.Task) ([]graph.Fact, error) {
	key := store.HookKey(t.Subject.Module, t.Subject.Hook)
	h, ok, err := store.Load[store.Hook](tx, key)
	if err != nil || !ok || len(h.Awaits) == 0 {
		return nil, err
	}
	var c hook.Config
	if err := json.Unmarshal(h.Config, &c); err != nil {
		return nil, err
	}
	ran := s.ranBindings(t, c)
	awaits := slices.DeleteFunc(slices.Clone(h.Awaits), func(name string) bool { return slices.Contains(ran, name) })
	if len(awaits) == len(h.Awaits) {
		return nil, nil
	}
	var facts []graph.Fact
	if len(awaits) == 0 {
		dropped, err := s.hooks.state.Values.DropOutdated(tx, t)
		if err != nil {
			return nil, err
		}
		facts = changes(dropped.Module, dropped.Global)
		if !dropped.All {
			awaits = c.StartBindings() // after the runs for these bindings in the next start, the deletion is tried again
		}
	}
	h.Awaits = awaits
	return facts, store.Save(tx, key, h)
}

// ranBindings returns the names of the bindings for which the hook has run in the task t, without those of Kubernetes
// events. The names have the form of the names that [hook.Config.StartBindings] returns.
func (s *Step) ranBindings(t workflow.Task, c hook.Config) (names []string) {
	switch {
	case s.binding != "":
		return []string{s.binding}
	case s.synchronizes():
		ids := c.BindingIDs().Kubernetes
		own := slices.Index(ids, t.Subject.Binding)
		if own < 0 {
			return nil
		}
		for i, b := range c.Kubernetes { // the bindings of one group and queue share one run
			if i == own || b.Group != "" && b.Group == c.Kubernetes[own].Group && b.Queue == c.Kubernetes[own].Queue {
				names = append(names, hook.AwaitedKubernetes+ids[i])
			}
		}
		return names
	}
	for _, task := range t.Batch { // events and ticks of a hook can share one run
		if node := graph.NodeID(task.Node); node == lifecycle.GlobalScheduleEvent || node == lifecycle.ModuleScheduleEvent {
			names = append(names, hook.AwaitedSchedule+task.Subject.Binding)
		}
	}
	return names
}

// changes returns the facts for changed values: ModuleChanged if the argument module is true, and GlobalChanged if
// the argument global is true.
func changes(module, global bool) (facts []graph.Fact) {
	if module {
		facts = append(facts, lifecycle.ModuleChanged)
	}
	if global {
		facts = append(facts, lifecycle.GlobalChanged)
	}
	return facts
}
