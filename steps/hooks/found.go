package hooks

import (
	"bytes"

	"addon-operator/steps/hookmetrics"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// Found has the hooks of a module, or the global hooks, that were found on disk.
type Found struct {
	Digest string                `json:"digest"`
	Hooks  map[string]store.Hook `json:"hooks"`
	// unasked has the names of the hooks that did not answer --config.
	unasked []string
}

// A ModuleCheck is the data of the outcome of the first step of a module run.
type ModuleCheck struct {
	Found

	// Broken is the reason why the module cannot be loaded; empty if it can be loaded.
	Broken string `json:"broken,omitempty"`
	// Addon is the name of the content of the addon that the module is made from; empty for other modules.
	Addon string `json:"addon,omitempty"`
}

// Save replaces the hooks of module in the store by f. It reports whether a hook is new, was removed, or has another
// Digest, Code or Config in its [store.Hook]. Save deletes the metrics of such a hook, because it is possible that the
// hook does not report them again. If the Code or the Config has changed, Save marks the values patches and enabled
// overrides of the hook as outdated; see outdate. It also marks the bindings of the hook; see [store.OutdateBindings].
func (f Found) Save(tx *store.Tx, module string) (changed bool, err error) {
	others, err := f.deleteMissing(tx, module)
	if err != nil {
		return false, err
	}
	rewritten := map[string]bool{}
	for name, h := range f.Hooks {
		other, rewrote, err := saveHook(tx, module, name, h)
		if err != nil {
			return false, err
		}
		if other {
			others[name] = true
		}
		if rewrote {
			rewritten[name] = true
			if err := store.OutdateBindings(tx, module, name); err != nil {
				return false, err
			}
		}
	}
	if len(others) == 0 {
		return false, nil
	}
	if err := outdate(tx, module, f.Hooks, rewritten); err != nil {
		return false, err
	}
	return true, hookmetrics.Forget(tx, func(s graph.Subject) bool { return s.Module == module && others[s.Hook] })
}

// deleteMissing deletes the recorded hooks of module that are not in f, and returns their names.
func (f Found) deleteMissing(tx *store.Tx, module string) (deleted map[string]bool, err error) {
	deleted = map[string]bool{}
	for k := range tx.Range(store.HooksOf(module)) {
		_, name, err := parseHookKey(k)
		if err != nil {
			return nil, err
		}
		if _, ok := f.Hooks[name]; ok {
			continue
		}
		deleted[name] = true
		tx.Delete(k)
		if err := forgetHook(tx, module, name); err != nil {
			return nil, err
		}
	}
	return deleted, nil
}

// saveHook saves the found hook h. The result other reports whether the hook is new, or its Digest, Code or Config has
// changed. The result rewritten reports whether the store had a record of the hook with another Code or another Config.
// If rewritten is true, other is true as well. If a record has no Digest, the discovery has already saved the changed
// Config in it, so saveHook treats the Config as changed.
func saveHook(tx *store.Tx, module, name string, h store.Hook) (other, rewritten bool, err error) {
	old, ok, err := store.Load[store.Hook](tx, store.HookKey(module, name))
	if err != nil {
		return false, false, err
	}
	config := bytes.Equal(old.Config, h.Config)
	// If a file was written after the Digest was computed, the Code can be another one although the Digest is the same.
	code := old.Code == "" || old.Code == h.Code
	same := ok && old.Digest == h.Digest && config && code
	if same && bytes.Equal(old.File, h.File) && old.Code == h.Code {
		return false, false, nil
	}
	if h.Awaits = old.Awaits; same {
		h.Longest = old.Longest
	}
	if ok && (!config || old.Digest == "" || !code) {
		rewritten, h.Awaits = true, nil
	}
	return !same, rewritten, store.Save(tx, store.HookKey(module, name), h)
}

// forgetHook deletes the patches, the overrides and the state of the rate limit of a hook that no longer exists.
func forgetHook(tx *store.Tx, module, name string) error {
	if k := store.BucketKey(graph.Subject{Module: module, Hook: name}); tx.Get(k) != nil {
		tx.Delete(k)
	}
	return sections.Forget(tx, module, name)
}

func parseHookKey(k store.Key) (module, name string, err error) {
	p, err := k.Parts()
	if err != nil {
		return "", "", err
	}
	module, name = p.Str(), p.Str()
	return module, name, p.Err()
}

// An unaskedError means that some hooks of a module did not answer --config. The field found has the other hooks.
type unaskedError struct {
	found Found
	err   error
}

func (e *unaskedError) Error() string { return e.err.Error() }
func (e *unaskedError) Unwrap() error { return e.err }
