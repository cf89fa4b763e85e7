package bindings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"addon-operator/internal/hook"
	"addon-operator/store"
	"addon-operator/workflow"
)

// A Hook is the decoded record of a hook.
type Hook struct {
	File    hook.File
	Config  hook.Config
	Longest time.Duration // approximate duration of the longest successful run with this code; zero if there is none
	Awaits  []string      // names of bindings for which the changed code has not run yet; see store.Hook
}

// LoadHook returns the hook of module with this name, and whether the store has a record of it. For a global hook,
// module is "".
func LoadHook(tx *store.Tx, module, name string) (Hook, bool, error) {
	r, ok, err := store.Load[store.Hook](tx, store.HookKey(module, name))
	if err != nil || !ok {
		return Hook{}, false, err
	}
	h, err := DecodeHook(r)
	if err != nil {
		return h, false, fmt.Errorf("hook %s of module %q in the store: %w", name, module, err)
	}
	return h, true, nil
}

// DecodeHook decodes the record of a hook.
func DecodeHook(r store.Hook) (h Hook, err error) {
	if err = json.Unmarshal(r.File, &h.File); err == nil {
		err = json.Unmarshal(r.Config, &h.Config)
	}
	h.Longest, h.Awaits = r.Longest, r.Awaits
	return h, err
}

// LoadHooks returns the recorded hooks of module, sorted by name.
func LoadHooks(tx *store.Tx, module string) ([]Hook, error) {
	var hooks []Hook
	for k := range tx.Range(store.HooksOf(module)) {
		r, _, err := store.Load[store.Hook](tx, k)
		if err != nil {
			return nil, err
		}
		h, err := DecodeHook(r)
		if err != nil {
			return nil, err
		}
		hooks = append(hooks, h)
	}
	slices.SortFunc(hooks, func(a, b Hook) int { return strings.Compare(a.File.Name, b.File.Name) })
	return hooks, nil
}

// Silent reports whether the kubernetes binding with this ID has "executeHookOnSynchronization: false". The hook does
// not run for the Synchronization of such a binding, and so does not receive the existing objects.
func (h Hook) Silent(id string) bool {
	i := slices.Index(h.Config.BindingIDs().Kubernetes, id)
	return i >= 0 && !h.Config.Kubernetes[i].ExecuteOnSynchronization
}

// Timeouts returns the timeouts of the bindings for which the hook runs: of the binding of the task t, and of the
// bindings of the other tasks in its batch. For a binding without a timeout, the timeout in the settings of the hook
// applies. Zero means the default of the operator. Timeouts leaves out bindings that do not exist any more, because the
// hook does not get their tasks.
func (h Hook) Timeouts(t workflow.Task) (timeouts []time.Duration) {
	general := time.Duration(0)
	if h.Config.Settings != nil {
		general = h.Config.Settings.Timeout.Duration
	}
	ids := h.Config.BindingIDs()
	add := func(binding string) {
		if i := slices.Index(ids.Kubernetes, binding); i >= 0 {
			timeouts = append(timeouts, cmp.Or(h.Config.Kubernetes[i].Timeout.Duration, general))
		} else if i := slices.Index(ids.Schedule, binding); i >= 0 {
			timeouts = append(timeouts, cmp.Or(h.Config.Schedule[i].Timeout.Duration, general))
		}
	}
	add(t.Subject.Binding)
	for _, other := range t.Batch {
		if other.ID != t.ID {
			add(other.Subject.Binding)
		}
	}
	if len(timeouts) == 0 { // the hook runs for an ordered binding, or all bindings are gone
		return []time.Duration{general}
	}
	return timeouts
}
