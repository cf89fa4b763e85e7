package steps

import (
	"encoding/json"
	"slices"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// Values patches and enabled overrides survive restarts, but must not survive the code that
// wrote them. When a hook's code or config has changed, they are marked as outdated. A value or
// override that the new code writes again loses the mark. When all start bindings of the hook have
// run, those that still have the mark are dropped. Until then other hooks and the chart see the
// outdated values. The hook itself does not, because many hooks write only missing values.

// startBindings returns the bindings that a hook with config c runs at each start, by the names
// under which its record awaits them. If there are none, it returns the schedules of the hook. For
// a hook that runs only on events it returns none, because no run tells that the hook has written
// all its values.
func startBindings(c hook.Config) (names []string) {
	for _, binding := range []string{hook.OnStartup, hook.BeforeAll, hook.AfterAll, hook.BeforeHelm, hook.AfterHelm} {
		if _, has := c.Order(binding); has {
			names = append(names, binding)
		}
	}
	ids := c.BindingIDs()
	for i, b := range c.Kubernetes {
		if b.ExecuteOnSynchronization {
			names = append(names, awaitedKubernetes+ids.Kubernetes[i])
		}
	}
	if len(names) > 0 {
		return names
	}
	for _, id := range ids.Schedule {
		names = append(names, awaitedSchedule+id)
	}
	return names
}

// Prefixes of the names of awaited bindings that have names of their own.
const (
	awaitedKubernetes = "kubernetes "
	awaitedSchedule   = "schedule "
)

// outdate marks the patches and overrides of module's changed hooks as outdated.
func (f foundHooks) outdate(tx *store.Tx, module string, changed map[string]bool) error {
	awaits := map[string][]string{} // by the name of the hook as an author
	for name := range changed {
		h, known := f.Hooks[name]
		if !known {
			continue
		}
		var c hook.Config
		if err := json.Unmarshal(h.Config, &c); err != nil {
			return err
		}
		if bindings := startBindings(c); len(bindings) > 0 {
			awaits[sections.Author(module, name)] = bindings
		}
	}
	left := map[string]bool{}
	for _, section := range slices.Compact([]string{sections.Of(module), values.Global}) {
		if err := sections.OutdatePatches(tx, section, awaits, left); err != nil {
			return err
		}
	}
	if err := sections.OutdateOverrides(tx, awaits, left); err != nil {
		return err
	}
	for name := range changed {
		by := sections.Author(module, name)
		if !left[by] {
			continue
		}
		if err := saveAwaits(tx, module, name, awaits[by]); err != nil {
			return err
		}
		if err := resynchronize(tx, module, name); err != nil {
			return err
		}
	}
	return nil
}

// resynchronize makes the next run of the module run Synchronization of the hook again, even if the
// hook has changed after the start.
func resynchronize(tx *store.Tx, module, name string) error {
	for k := range tx.Range(store.BindingsOf(module, name)) {
		b, _, err := store.Load[store.Binding](tx, k)
		if err != nil {
			return err
		}
		if b.Kind != store.Kubernetes || b.SyncedIn == 0 {
			continue
		}
		b.SyncedIn = 0
		if err := store.Save(tx, k, b); err != nil {
			return err
		}
	}
	return nil
}

func saveAwaits(tx *store.Tx, module, name string, bindings []string) error {
	key := store.HookKey(module, name)
	h, ok, err := store.Load[store.Hook](tx, key)
	if err != nil || !ok {
		return err
	}
	h.Awaits = bindings
	return store.Save(tx, key, h)
}

// renewed records that the hook of t has run successfully. After the last binding that its record
// awaits, it drops the output of the hook's earlier code. It returns which values or flags that
// changed.
func (s *hookStep) renewed(tx *store.Tx, t workflow.Task) ([]graph.Fact, error) {
	h, ok, err := store.Load[store.Hook](tx, store.HookKey(t.Subject.Module, t.Subject.Hook))
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
		sections, dropped, err := s.values.DropOutdated(tx, t)
		if err != nil {
			return nil, err
		}
		for _, section := range sections {
			facts = append(facts, changedFact(section))
		}
		if !dropped {
			awaits = startBindings(c) // the next start tries again
		}
	}
	return facts, saveAwaits(tx, t.Subject.Module, t.Subject.Hook, awaits)
}

// ranBindings returns the bindings of the run of t, by the names under which they are awaited.
func (s *hookStep) ranBindings(t workflow.Task, c hook.Config) (names []string) {
	switch {
	case s.binding != "":
		return []string{s.binding}
	case s.node.Has(lifecycle.Objects):
		ids := c.BindingIDs().Kubernetes
		own := slices.Index(ids, t.Subject.Binding)
		if own < 0 {
			return nil
		}
		for i, b := range c.Kubernetes { // the bindings of one group and queue have one run
			if i == own || b.Group != "" && b.Group == c.Kubernetes[own].Group && b.Queue == c.Kubernetes[own].Queue {
				names = append(names, awaitedKubernetes+ids[i])
			}
		}
		return names
	case s.node.Has(lifecycle.EventObject):
		return nil
	}
	names = []string{awaitedSchedule + t.Subject.Binding}
	for _, other := range t.Batch {
		names = append(names, awaitedSchedule+other.Subject.Binding)
	}
	return names
}
