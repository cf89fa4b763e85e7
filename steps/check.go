package steps

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"addon-operator/internal/hook"
	"addon-operator/internal/module"
	"addon-operator/store"
)

// configTimeout bounds how long a hook of a module may take to print its config.
const configTimeout = 30 * time.Second

// Hooks are the hooks of modules and the global ones, as their --config describes them. A hook is
// asked at most once in an epoch for each digest of its code.
type Hooks struct {
	db      *store.DB
	log     *logger
	runner  *hook.Runner
	modules *Modules

	mu   sync.RWMutex
	told map[[2]string]store.Hook // what hooks printed, by module and name; guarded by mu
}

// A hookCheck asks one hook of a module for its config.
type hookCheck struct {
	module int // index in the set
	file   hook.File
	digest string
	err    error
}

// checkHooks asks the hooks of all modules of set for their config, and returns by module why
// its hooks cannot be used. Hooks that have printed it in this epoch, with the same code, are
// not run again. The error is that of ctx.
func (hs *Hooks) checkHooks(ctx context.Context, set module.Set) (map[string]error, error) {
	broken := map[string]error{}
	var checks []hookCheck
	for i, m := range set.Modules {
		if m.Broken != nil {
			continue
		}
		found, err := hs.findHooks(m)
		if err != nil {
			broken[m.Name] = err
			continue
		}
		for _, check := range found {
			check.module = i
			checks = append(checks, check)
		}
	}
	var group errgroup.Group
	group.SetLimit(configsAtOnce)
	for i := range checks {
		group.Go(func() error {
			c := &checks[i]
			_, c.err = hs.askModuleHook(ctx, set.Modules[c.module].Name, c.file, c.digest)
			return nil
		})
	}
	_ = group.Wait() // the functions return nil: every hook is asked
	for _, c := range checks {
		if c.err != nil {
			name := set.Modules[c.module].Name
			broken[name] = errors.Join(broken[name], c.err)
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for _, name := range slices.Sorted(maps.Keys(broken)) {
		hs.log.once(zerolog.ErrorLevel, "module cannot be loaded and stays as it was: module "+name+": "+broken[name].Error())
	}
	return broken, nil
}

// findHooks returns the hooks of m that must be asked.
func (hs *Hooks) findHooks(m module.Module) ([]hookCheck, error) {
	if m.Hooks == "" {
		return nil, nil
	}
	digest, err := hs.modules.digests.Module(m)
	if err != nil {
		return nil, err
	}
	files, skipped, err := hook.Find(hook.Module, m.Path)
	if err != nil {
		return nil, err
	}
	hs.saySkipped(m.Name, files, skipped)
	checks := make([]hookCheck, len(files))
	for i, f := range files {
		checks[i].file, checks[i].digest = f, digest
	}
	return checks, nil
}

// askModuleHook asks a hook of a module for its config, for a bounded time.
func (hs *Hooks) askModuleHook(ctx context.Context, name string, f hook.File, digest string) (store.Hook, error) {
	bounded, cancel := context.WithTimeout(ctx, configTimeout)
	defer cancel()
	h, err := hs.askOnce(bounded, name, f, digest)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = fmt.Errorf("hook %s --config did not end within %s", f.Name, configTimeout)
	}
	return h, err
}

// checkModules scans the module directories and returns what is wrong with each module.
func (hs *Hooks) checkModules(ctx context.Context) ([]decided, error) {
	set, err := hs.modules.Scan()
	if err != nil {
		return nil, err
	}
	broken, err := hs.checkHooks(ctx, set)
	if err != nil {
		return nil, err
	}
	checked := make([]decided, len(set.Modules))
	for i, m := range set.Modules {
		checked[i] = decided{Name: m.Name, Order: m.Order}
		if err := brokenBy(m, broken); err != nil {
			checked[i].Broken = err.Error()
		}
	}
	return checked, nil
}

// brokenBy returns why m cannot be loaded: because of its files, or of its hooks.
func brokenBy(m module.Module, hooks map[string]error) error {
	if m.Broken != nil {
		return m.Broken
	}
	if err := hooks[m.Name]; err != nil {
		return fmt.Errorf("module %s: %w", m.Name, err)
	}
	return nil
}

// keepChecked writes to the modules' records what is wrong with them. All else of the records
// is left to the discovery of modules.
func keepChecked(tx *store.Tx, checked []decided) error {
	for _, c := range checked {
		key := store.ModuleKey(c.Name)
		record, known, err := store.Load[store.Module](tx, key)
		if err != nil {
			return err
		}
		if record.Broken == c.Broken {
			continue
		}
		if record.Broken = c.Broken; !known {
			record.State, record.Order = store.Off, c.Order
		}
		if err := store.Save(tx, key, record); err != nil {
			return err
		}
	}
	return nil
}

// Mended returns the modules that could not be loaded and can be loaded now, so that a
// converge would use them. The modules in force stay what they are.
func (s *Survey) Mended(ctx context.Context) (names []string, err error) {
	var known map[string]store.Module
	if err := s.db.View(func(tx *store.Tx) (err error) {
		known, err = modulesKnown(tx)
		return err
	}); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(known)), func(m store.Module) bool { return m.Broken != "" }) {
		return nil, nil
	}
	set, err := s.modules.read()
	if err != nil {
		return nil, err
	}
	schemas, err := s.modules.loadSchemas(set)
	if err != nil {
		return nil, err
	}
	suspects := module.Set{Static: set.Static}
	for _, m := range set.Modules {
		if known[m.Name].Broken != "" && m.Broken == nil {
			suspects.Modules = append(suspects.Modules, m)
		}
	}
	broken, err := s.hooks.checkHooks(ctx, suspects)
	if err != nil {
		return nil, err
	}
	for _, m := range suspects.Modules {
		if broken[m.Name] != nil {
			continue
		}
		if err := s.db.View(func(tx *store.Tx) error {
			layers, err := s.values.layers(tx, m.Key)
			if err != nil {
				return err
			}
			layers.Static, layers.Schemas = set.Static, schemas
			return layers.CheckFiles(m.Key)
		}); err == nil {
			names = append(names, m.Name)
		}
	}
	return names, nil
}

// AnyBroken reports whether any of the modules is known as one that cannot be loaded.
func AnyBroken(tx *store.Tx, names []string) (bool, error) {
	for _, name := range names {
		m, _, err := store.Load[store.Module](tx, store.ModuleKey(name))
		if err != nil || m.Broken != "" {
			return err == nil, err
		}
	}
	return false, nil
}
