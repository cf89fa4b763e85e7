package steps

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// configsAtOnce bounds how many hooks are asked for their config side by side.
const configsAtOnce = 4

// A startupStep is the hookStep of a node that comes before any other of its
// hooks: it asks them for their config first.
type startupStep struct{ hookStep }

// A prepared start is what Prepare has found.
type prepared struct {
	foundHooks

	// Dropped holds the saved operations that schemas do not take any more.
	Dropped map[string][]values.Saved `json:"dropped,omitempty"`
	// Modules says of each module what is wrong with it.
	Modules []decided `json:"modules,omitempty"`
}

// Prepare asks the global hooks for their config, and checks the global values and all
// modules. A module that is wrong is not an error: all others run.
func (s *startupStep) Prepare(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	if err := s.modules.scanAfter(t); err != nil {
		return workflow.Outcome{}, err
	}
	digest, err := s.modules.digests.GlobalHooks(s.modules.globalHooks)
	if err != nil {
		return workflow.Outcome{}, err
	}
	found, err := s.hooks.ask(ctx, "", hook.Global, s.modules.globalHooks, digest)
	if err != nil {
		return workflow.Outcome{}, err
	}
	if err := s.hooks.checkNoHooks(found); err != nil {
		return workflow.Outcome{}, err
	}
	p := prepared{foundHooks: found}
	if p.Dropped, err = s.values.checkGlobal(); err != nil {
		return workflow.Outcome{}, err
	}
	if p.Modules, err = s.hooks.checkModules(ctx); err != nil {
		return workflow.Outcome{}, err
	}
	data, err := json.Marshal(p)
	return workflow.Outcome{Data: data, Detail: fmt.Sprintf("%d hooks", len(found.Hooks)) + dropped(p.Dropped)}, err
}

// checkGlobal returns an error when nothing can start on the global values, and
// the operations saved of them that do not fit.
func (v *Values) checkGlobal() (unfit map[string][]values.Saved, err error) {
	err = v.db.View(func(tx *store.Tx) error {
		layers, err := v.layers(tx)
		if err != nil {
			return err
		}
		unfit = v.unfit(layers)
		return layers.CheckFiles(values.Global)
	})
	return unfit, err
}

// Apply keeps the configs that Prepare was told, or what a hook said.
func (s *startupStep) Apply(tx *store.Tx, t workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
	if t.Prepared {
		return s.hookStep.Apply(tx, t, o)
	}
	var found prepared
	if err := json.Unmarshal(o.Data, &found); err != nil {
		return nil, err
	}
	if err := drop(tx, found.Dropped); err != nil {
		return nil, err
	}
	if err := keepChecked(tx, found.Modules); err != nil {
		return nil, err
	}
	_, err := found.keep(tx, "")
	return nil, err
}

// foundHooks are a module's hooks as they are on disk.
type foundHooks struct {
	Digest string                `json:"digest"`
	Hooks  map[string]store.Hook `json:"hooks"`
	// unasked are the hooks that did not answer --config.
	unasked []string
}

// checkNoHooks fails where there were global hooks and none is found: what they
// hold of modules would go with them, and the modules with that.
func (hs *Hooks) checkNoHooks(found foundHooks) error {
	if len(found.Hooks) > 0 {
		return nil
	}
	return hs.db.View(func(tx *store.Tx) error {
		for range tx.Range(store.HooksOf("")) {
			return fmt.Errorf("directory %s holds no hook, and there were hooks before: is it mounted? If they are to go, start once with --startup=clean", hs.modules.globalHooks)
		}
		return nil
	})
}

// ask returns the hooks below dir with their configs. With an error it returns those that have
// answered. Those that have said it in this life, with the same digest of
// the code, are not run again.
func (hs *Hooks) ask(ctx context.Context, module string, scope hook.Scope, dir, digest string) (foundHooks, error) {
	out := foundHooks{Digest: digest, Hooks: map[string]store.Hook{}}
	files, skipped, err := hook.Find(scope, dir)
	if err != nil {
		return out, err
	}
	hs.saySkipped(module, files, skipped)
	asked := make([]store.Hook, len(files))
	errs := make([]error, len(files)) // of each file, nil where it has answered
	var group errgroup.Group
	group.SetLimit(configsAtOnce)
	for i, f := range files {
		group.Go(func() error {
			asked[i], errs[i] = hs.askOnce(ctx, module, f, digest)
			return nil
		})
	}
	_ = group.Wait() // the functions return nil: every hook is asked
	code := ""
	if len(files) > 0 {
		if code, err = hs.modules.digests.Hooks(dir); err != nil {
			return out, err
		}
	}
	for i, f := range files {
		if asked[i].Code = code; errs[i] == nil {
			out.Hooks[f.Name] = asked[i]
			continue
		}
		out.unasked = append(out.unasked, f.Name)
	}
	return out, errors.Join(errs...)
}

// askOnce asks the hook, or returns what it said earlier in this life. The store
// is not asked: a config can be made of the environment, of files beside the hook
// or elsewhere in the image, and all of these can be others at each start.
func (hs *Hooks) askOnce(ctx context.Context, module string, f hook.File, digest string) (h store.Hook, err error) {
	name := [2]string{module, f.Name}
	hs.mu.RLock()
	h = hs.told[name]
	hs.mu.RUnlock()
	if h.Digest == digest {
		// The code is the same, but the module may lie elsewhere now.
		h.File, err = json.Marshal(f)
		return h, err
	}
	if h, err = hs.askOne(ctx, f, digest); err != nil {
		return h, err
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.told == nil {
		hs.told = map[[2]string]store.Hook{}
	}
	hs.told[name] = h
	return h, nil
}

func (hs *Hooks) askOne(ctx context.Context, f hook.File, digest string) (store.Hook, error) {
	config, err := hs.runner.Config(ctx, f)
	if err != nil {
		return store.Hook{}, err
	}
	h := store.Hook{Digest: digest}
	if h.File, err = json.Marshal(f); err != nil {
		return h, err
	}
	h.Config, err = json.Marshal(config)
	return h, err
}

// keep makes module's hooks in the store those found, and reports whether any
// of them is another than before. What a hook of other code, or with another
// config, has counted ends: it may not know its metrics any more. What a hook has
// patched whose code or config is another is outdated until it is patched again.
func (f foundHooks) keep(tx *store.Tx, module string) (changed bool, err error) {
	others, rewritten := map[string]bool{}, map[string]bool{}
	for k := range tx.Range(store.HooksOf(module)) {
		_, name, err := parseHookKey(k)
		if err != nil {
			return false, err
		}
		if _, ok := f.Hooks[name]; !ok {
			others[name] = true
			tx.Delete(k)
			if err := forgetHook(tx, module, name); err != nil {
				return false, err
			}
		}
	}
	for name, h := range f.Hooks {
		old, ok, err := store.Load[store.Hook](tx, store.HookKey(module, name))
		if err != nil {
			return false, err
		}
		config := bytes.Equal(old.Config, h.Config)
		same := ok && old.Digest == h.Digest && config
		if same && bytes.Equal(old.File, h.File) && old.Code == h.Code {
			continue
		}
		if h.Awaits = old.Awaits; same {
			h.Longest = old.Longest
		} else {
			others[name] = true
		}
		if ok && (!config || old.Code != "" && old.Code != h.Code) {
			rewritten[name], h.Awaits = true, nil
		}
		if err := store.Save(tx, store.HookKey(module, name), h); err != nil {
			return false, err
		}
	}
	if len(others) == 0 {
		return false, nil
	}
	if err := f.outdate(tx, module, rewritten); err != nil {
		return false, err
	}
	return true, forgetMetrics(tx, func(s store.Subject) bool { return s.Module == module && others[s.Hook] })
}

// forgetHook drops what a hook that is gone has patched, and when it may run.
func forgetHook(tx *store.Tx, module, name string) error {
	if k := store.BucketKey(store.Subject{Module: module, Hook: name}); tx.Get(k) != nil {
		tx.Delete(k)
	}
	by := nameOf(module, name)
	for _, section := range slices.Compact([]string{sectionOf(module), values.Global}) {
		if err := dropSaved(tx, section, func(s values.Saved) bool { return s.Hook == by }); err != nil {
			return err
		}
	}
	held, err := enabledOverrides(tx)
	if err != nil {
		return err
	}
	before := len(held)
	maps.DeleteFunc(held, func(_ string, o values.EnabledOverride) bool { return o.Hook == by })
	if len(held) < before {
		return store.Save(tx, store.EnabledOverridesKey(), held)
	}
	return nil
}

// dropSaved deletes the saved operations of a section for which gone is true.
func dropSaved(tx *store.Tx, section string, gone func(values.Saved) bool) error {
	key := store.SavedKey(section)
	saved, _, err := store.Load[[]values.Saved](tx, key)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(saved), gone)
	if len(left) == len(saved) {
		return nil
	}
	return store.Save(tx, key, left)
}

func parseHookKey(k store.Key) (module, name string, err error) {
	p, err := k.Parts()
	if err != nil {
		return "", "", err
	}
	module, name = p.Str(), p.Str()
	return module, name, p.Err()
}
