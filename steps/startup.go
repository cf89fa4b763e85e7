package steps

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"addon-operator/internal/hook"
	"addon-operator/steps/hookmetrics"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// A startupStep is the hookStep of a node before any other node with the same hooks. It first calls
// the hooks for their config.
type startupStep struct {
	hookStep
	directories *directories
}

// prepared is the result of Prepare.
type prepared struct {
	foundHooks

	// Dropped has the saved operations that the schemas no longer accept.
	Dropped sections.Unfit `json:"dropped,omitempty"`
	// Modules has the errors of the modules.
	Modules []decided `json:"modules,omitempty"`
}

// Prepare calls the global hooks for their config, and checks the global values and all modules. A
// broken module is not an error: all others run.
func (s *startupStep) Prepare(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	if err := s.directories.scanAfter(t); err != nil {
		return workflow.Outcome{}, err
	}
	digest, err := s.modules.CodeOf("")
	if err != nil {
		return workflow.Outcome{}, err
	}
	found, err := s.hooks.ask(ctx, "", hook.Global, s.modules.GlobalHooks(), digest)
	if err != nil {
		return workflow.Outcome{}, err
	}
	if err := s.hooks.checkNoHooks(found); err != nil {
		return workflow.Outcome{}, err
	}
	p := prepared{foundHooks: found}
	if p.Dropped, err = s.values.CheckGlobal(); err != nil {
		return workflow.Outcome{}, err
	}
	set, err := s.directories.scan()
	if err != nil {
		return workflow.Outcome{}, err
	}
	if p.Modules, err = s.hooks.checkModules(ctx, set); err != nil {
		return workflow.Outcome{}, err
	}
	data, err := json.Marshal(p)
	return workflow.Outcome{Data: data, Detail: fmt.Sprintf("%d hooks", len(found.Hooks)) + p.Dropped.Note()}, err
}

// Apply saves the result of Prepare, or the output of a hook.
func (s *startupStep) Apply(tx *store.Tx, t workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
	if t.Prepared {
		return s.hookStep.Apply(tx, t, o)
	}
	var found prepared
	if err := json.Unmarshal(o.Data, &found); err != nil {
		return nil, err
	}
	if err := found.Dropped.Drop(tx); err != nil {
		return nil, err
	}
	if err := saveBroken(tx, found.Modules); err != nil {
		return nil, err
	}
	_, err := found.save(tx, "")
	return nil, err
}

// save replaces the hooks of module in the store by f, and reports whether any has changed. It
// deletes the metrics of a hook with other code or another config, because the hook may no longer
// report them. The hook's values patches are outdated until it writes them again.
func (f foundHooks) save(tx *store.Tx, module string) (changed bool, err error) {
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
		}
	}
	if len(others) == 0 {
		return false, nil
	}
	if err := f.outdate(tx, module, rewritten); err != nil {
		return false, err
	}
	return true, hookmetrics.Forget(tx, func(s graph.Subject) bool { return s.Module == module && others[s.Hook] })
}

// deleteMissing deletes the recorded hooks of module that are not in f, and returns their names.
func (f foundHooks) deleteMissing(tx *store.Tx, module string) (deleted map[string]bool, err error) {
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

// saveHook saves the found hook h. It reports whether h differs from the recorded hook, and whether
// that hook had other code or another config.
func saveHook(tx *store.Tx, module, name string, h store.Hook) (other, rewritten bool, err error) {
	old, ok, err := store.Load[store.Hook](tx, store.HookKey(module, name))
	if err != nil {
		return false, false, err
	}
	config := bytes.Equal(old.Config, h.Config)
	same := ok && old.Digest == h.Digest && config
	if same && bytes.Equal(old.File, h.File) && old.Code == h.Code {
		return false, false, nil
	}
	if h.Awaits = old.Awaits; same {
		h.Longest = old.Longest
	}
	if ok && (!config || old.Code != "" && old.Code != h.Code) {
		rewritten, h.Awaits = true, nil
	}
	return !same, rewritten, store.Save(tx, store.HookKey(module, name), h)
}

// forgetHook deletes the patches, the overrides and the rate limit state of a hook that no longer
// exists.
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
