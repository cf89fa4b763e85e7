package hooks

import (
	"encoding/json"
	"slices"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/steps/sections"
	"addon-operator/store"
)

// Values patches and enabled overrides of a hook are kept after a restart, but they must not be kept after the code
// that wrote them is gone. When the code or the configuration of a hook has changed, its patches and overrides are
// marked as outdated. A patch or override that the new code writes again loses the mark. When the hook has run for
// all of its start bindings, which [hook.Config.StartBindings] returns, the patches and overrides that still have the
// mark are deleted. Before that, other hooks and the chart still see the outdated values. The changed hook itself does
// not see them, because many hooks write a value only if it is missing. If a changed hook has no start bindings, its
// patches and overrides are kept without a mark.

// outdate marks the patches and overrides of the changed hooks as outdated, except those of hooks without start
// bindings. The argument hooks has all hooks of module, and the argument changed has the names of the changed hooks.
func outdate(tx *store.Tx, module string, hooks map[string]store.Hook, changed map[string]bool) error {
	awaits := map[string][]string{} // start bindings of the changed hooks, by the author name of the hook
	for name := range changed {
		h, known := hooks[name]
		if !known {
			continue
		}
		var c hook.Config
		if err := json.Unmarshal(h.Config, &c); err != nil {
			return err
		}
		if bindings := c.StartBindings(); len(bindings) > 0 {
			awaits[sections.Author(module, name)] = bindings
		}
	}
	left := map[string]bool{} // the changed hooks with outdated patches or overrides, by the author name of the hook
	earlier := func(by string) bool {
		if awaits[by] == nil {
			return false
		}
		left[by] = true
		return true
	}
	for _, section := range slices.Compact([]string{sections.Of(module), values.Global}) {
		if err := sections.OutdatePatches(tx, section, func(s values.Saved) bool { return earlier(s.Hook) }); err != nil {
			return err
		}
	}
	if err := sections.OutdateOverrides(tx, func(_ string, o values.EnabledOverride) bool { return earlier(o.Hook) }); err != nil {
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

// resynchronize marks the kubernetes bindings of the hook as not synchronized. So the next run of the module runs the
// Synchronization of the hook again, even if the module has already run in this start. SyncedIn does not become 0,
// because earlier code of the hook has got its snapshot.
func resynchronize(tx *store.Tx, module, name string) error {
	return store.ChangeBindings(tx, module, name, func(b *store.Binding) bool {
		if b.Kind != store.Kubernetes || b.SyncedIn == 0 {
			return false
		}
		b.SyncedIn = store.FormerCode
		return true
	})
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
