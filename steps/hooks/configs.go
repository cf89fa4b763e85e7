package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"addon-operator/internal/hook"
	"addon-operator/internal/module"
	"addon-operator/steps/desired"
	"addon-operator/steps/oncelog"
	"addon-operator/store"
	"addon-operator/workflow"
)

// Configs gets the configurations of global hooks and of hooks of modules by running the hooks with --config. A hook
// that has answered is run with --config again only if the digest of its code changes, or in the next epoch.
type Configs struct {
	db      *store.DB
	log     *oncelog.Logger
	runner  Runner
	modules *desired.Modules

	mu    sync.RWMutex
	asked map[[2]string]store.Hook // records of the hooks that have answered, by module and name; guarded by mu
}

// New returns Configs for the global hooks and the hooks of modules. Configs uses runner to run the hooks.
func New(db *store.DB, log *oncelog.Logger, runner Runner, modules *desired.Modules) *Configs {
	return &Configs{db: db, log: log, runner: runner, modules: modules}
}

// CheckHooks runs all hooks of the modules of set with --config. It returns one error for each module whose hooks
// cannot be used, by the name of the module. A hook that has answered in this epoch is not run again if its code is
// the same. The second result is an error only if ctx has ended.
func (hs *Configs) CheckHooks(ctx context.Context, set module.Set) (map[string]error, error) {
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
	group.SetLimit(atOnce)
	for i := range checks {
		group.Go(func() error {
			c := &checks[i]
			_, c.err = hs.AskOnce(ctx, set.Modules[c.module].Name, c.file, c.digest)
			return nil
		})
	}
	_ = group.Wait() // never an error: the functions return nil, so that each hook is run
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
		hs.log.Once(zerolog.ErrorLevel, "module cannot be loaded and stays as it was: module "+name+": "+broken[name].Error())
	}
	return broken, nil
}

// findHooks returns the hooks that are in the directory of module m. CheckHooks runs them with --config.
func (hs *Configs) findHooks(m module.Module) ([]hookCheck, error) {
	if m.Hooks == "" {
		return nil, nil
	}
	digest, err := hs.modules.Digests().Module(m)
	if err != nil {
		return nil, err
	}
	files, skipped, err := hook.Find(hook.Module, m.Path)
	if err != nil {
		return nil, err
	}
	hs.logSkipped(m.Name, files, skipped)
	checks := make([]hookCheck, len(files))
	for i, f := range files {
		checks[i].file, checks[i].digest = f, digest
	}
	return checks, nil
}

// CheckModules returns the result of the check of each module of set.
func (hs *Configs) CheckModules(ctx context.Context, set module.Set) ([]Checked, error) {
	broken, err := hs.CheckHooks(ctx, set)
	if err != nil {
		return nil, err
	}
	checked := make([]Checked, len(set.Modules))
	for i, m := range set.Modules {
		checked[i] = Checked{Name: m.Name, Order: m.Order}
		if err := m.BrokenBy(broken); err != nil {
			checked[i].Broken = err.Error()
		}
	}
	return checked, nil
}

// CheckNotEmpty returns an error if found has no hooks, but the store has records of global hooks. Without this
// check, if the directory were not mounted, the enabled overrides of the global hooks would be deleted, and modules
// would be uninstalled.
func (hs *Configs) CheckNotEmpty(found Found) error {
	if len(found.Hooks) > 0 {
		return nil
	}
	return hs.db.View(func(tx *store.Tx) error {
		for range tx.Range(store.HooksOf("")) {
			return fmt.Errorf("directory %s holds no hook, and there were hooks before: is it mounted? If the hooks were removed on purpose, start once with --startup=clean", hs.modules.GlobalHooks())
		}
		return nil
	})
}

// Ask runs the hooks below dir with --config. If some hooks fail, Ask returns an error together with the
// configurations of the other hooks. A hook that has answered in this process is not run again if the digest of its
// code is the same.
func (hs *Configs) Ask(ctx context.Context, module string, scope hook.Scope, dir, digest string) (Found, error) {
	out := Found{Digest: digest, Hooks: map[string]store.Hook{}}
	files, skipped, err := hook.Find(scope, dir)
	if err != nil {
		return out, err
	}
	hs.logSkipped(module, files, skipped)
	asked := make([]store.Hook, len(files))
	errs := make([]error, len(files)) // errors by the index of the file; nil if the hook has answered
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, f := range files {
		group.Go(func() error {
			asked[i], errs[i] = hs.AskOnce(ctx, module, f, digest)
			return nil
		})
	}
	_ = group.Wait() // never an error: the functions return nil, so that each hook is run
	code := ""
	if len(files) > 0 {
		if code, err = hs.modules.Digests().Hooks(dir); err != nil {
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

// AskOnce returns the configuration of the hook. It runs the hook with --config, unless the hook has already answered
// in this process with the same digest of its code. It does not use the configuration in the store, because a
// configuration can depend on the environment and on other files, which can change between two starts. A hook that has
// failed or has reached its timeout is run again by the next call, because a slow machine can be the reason.
func (hs *Configs) AskOnce(ctx context.Context, module string, f hook.File, digest string) (h store.Hook, err error) {
	name := [2]string{module, f.Name}
	hs.mu.RLock()
	h = hs.asked[name]
	hs.mu.RUnlock()
	if h.Digest == digest {
		// The code is the same, but the path of the file may have changed, because the directory of the module was
		// renamed.
		h.File, err = json.Marshal(f)
		return h, err
	}
	if h, err = hs.askOne(ctx, f, digest); err != nil {
		return h, err
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.asked == nil {
		hs.asked = map[[2]string]store.Hook{}
	}
	hs.asked[name] = h
	return h, nil
}

func (hs *Configs) askOne(ctx context.Context, f hook.File, digest string) (store.Hook, error) {
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

// AskModule gets the configurations of the hooks of a module, each as [Configs.AskOnce] does. It returns an outcome
// whose data is a [ModuleCheck] with the hooks. If the module no longer exists, the outcome has no data. If the module
// cannot be loaded, AskModule returns an error.
func (hs *Configs) AskModule(ctx context.Context, name string) (workflow.Outcome, error) {
	if gone, err := hs.modules.Gone(name); gone || err != nil {
		return workflow.Outcome{Detail: "its directory is gone"}, err
	}
	m, _ := hs.modules.Disk().Find(name)
	if m.Broken != nil {
		return workflow.Outcome{}, m.Broken
	}
	digest, err := hs.modules.Digests().Module(m)
	if err != nil {
		return workflow.Outcome{}, err
	}
	found, err := hs.Ask(ctx, name, hook.Module, m.Path, digest)
	if err != nil && len(found.unasked) > 0 {
		err = &unaskedError{found: found, err: err}
	}
	if err != nil {
		return workflow.Outcome{}, err
	}
	check := ModuleCheck{Found: found}
	out := workflow.Outcome{}
	if m.Addon != nil {
		check.Addon = m.Addon.Content
		out.Detail = fmt.Sprintf("addon %s %s", m.Addon.Name, m.Addon.Version)
	}
	out.Data, err = json.Marshal(check)
	return out, err
}

// AskAnswering is like [Configs.AskModule], for a module that is being deleted. The deletion must continue even if
// some hooks do not answer --config. So the outcome has only the hooks that answer. The second result is a text for the
// history that names the other hooks, or "" if all hooks answer.
func (hs *Configs) AskAnswering(ctx context.Context, name string) (out workflow.Outcome, without string, err error) {
	out, err = hs.AskModule(ctx, name)
	if some := (*unaskedError)(nil); errors.As(err, &some) && !errors.Is(err, hook.ErrInterrupted) && ctx.Err() == nil {
		without = ", without " + strings.Join(some.found.unasked, ", ") + ": " + err.Error()
		hs.log.Warn().Str("module", name).Strs("hooks", some.found.unasked).Err(err).
			Msg("module is deleted without hooks that do not answer --config")
		out.Data, err = json.Marshal(some.found)
	}
	return out, without, err
}

// logSkipped logs each file that is in the hook directory of module but is not a hook. It also logs each Python hook of
// a module that runs without a virtual environment. Each line is logged only once.
func (hs *Configs) logSkipped(module string, files []hook.File, skipped []hook.Skipped) {
	of := ""
	if module != "" {
		of = " of module " + module
	}
	for _, f := range skipped {
		hs.log.Once(zerolog.WarnLevel, fmt.Sprintf("file among the hooks%s is not a hook: %s: %s", of, f.Path, f.Reason))
	}
	for _, f := range files {
		if f.Scope == hook.Module && f.Interpreter == "" && filepath.Ext(f.Path) == ".py" {
			hs.log.Once(zerolog.WarnLevel, fmt.Sprintf("python hook %s%s runs with the python of its #! line: there is no hooks/venv/bin/python3", f.Name, of))
		}
	}
}

// atOnce is the maximum number of hooks that one call of Ask or CheckHooks runs with --config in parallel.
const atOnce = 4
