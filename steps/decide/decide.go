package decide

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"addon-operator/internal/hook"
	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/desired"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// Scripts runs the enabled scripts of modules.
type Scripts interface {
	// RunScript runs the `enabled` script of a module for the task t. It returns the decision of the script, and the
	// reason that the script has given, which may be "".
	RunScript(ctx context.Context, t workflow.Task, run hook.EnabledRun) (enabled bool, reason string, err error)
}

// Hooks checks the configurations of hooks.
type Hooks interface {
	// CheckHooks asks the hooks of the modules of set for their configurations. It returns an error for each module
	// whose hooks cannot be used, by the name of the module.
	CheckHooks(ctx context.Context, set module.Set) (map[string]error, error)
}

// A Decider decides which modules are enabled.
type Decider struct {
	values  *desired.Values
	hooks   Hooks
	scripts Scripts
}

// New returns a decider for modules with these values, hooks and enabled scripts.
func New(values *desired.Values, hooks Hooks, scripts Scripts) *Decider {
	return &Decider{values: values, hooks: hooks, scripts: scripts}
}

// Load reads the data of the store that decisions about the modules of set need: values, enabled overrides, and the
// records of the startup and of modules.
func (c *Decider) Load(tx *store.Tx, set module.Set) (*Known, error) {
	var keys []string
	for _, m := range set.Modules {
		if m.Key != "" {
			keys = append(keys, m.Key)
		}
	}
	k := &Known{Set: set}
	var err error
	if k.layers, err = c.values.LayersOf(tx, keys...); err != nil {
		return nil, err
	}
	if k.enabledOverrides, err = sections.Overrides(tx); err != nil {
		return nil, err
	}
	if k.Startup, err = store.LoadStartup(tx); err != nil {
		return nil, err
	}
	k.Modules, err = store.LoadModules(tx)
	return k, err
}

// Check asks the hooks of all modules for their configurations. It returns Decisions without modules, but with the
// values files and with the saved operations that the schemas no longer accept. Decide adds the modules.
func (c *Decider) Check(ctx context.Context, k *Known) (found Decisions, err error) {
	if k.hooks, err = c.hooks.CheckHooks(ctx, k.Set); err != nil {
		return found, err
	}
	return Decisions{
		Whole: len(k.Set.Empty) == 0, Dropped: c.values.Unfit(k.layers),
		ValuesFiles: slices.Concat(k.Set.ValuesFiles, k.Set.LostValues(k.Startup.ValuesFiles)),
	}, nil
}

// Decide adds a decision for each module to the argument found, in the order in which modules run.
func (c *Decider) Decide(ctx context.Context, t workflow.Task, k *Known, found *Decisions) error {
	var errs []error
	lost := k.Lost()
	for _, m := range k.Set.Modules {
		d, err := c.decide(ctx, t, m, k, k.preceding(m, found.Enabled))
		if err != nil {
			errs = append(errs, fmt.Errorf("module %s: %w", m.Name, err))
			continue
		}
		if lost {
			d = k.keepEnabled(m, d)
		}
		found.Modules = append(found.Modules, d)
		if d.Enabled {
			found.Enabled = append(found.Enabled, m.Name)
		}
	}
	return errors.Join(errs...)
}

// decide decides whether m is enabled: first by the enabled flags, and then by the enabled script of m. The argument
// before has the names of the enabled modules that precede m. The script receives these names.
func (c *Decider) decide(ctx context.Context, t workflow.Task, m module.Module, k *Known, before []string) (Module, error) {
	d := k.byFlags(m)
	if !d.Enabled || d.Broken != "" || m.Enabled == "" {
		return d, nil
	}
	return c.runScript(ctx, t, m, k, d, before)
}

// Keeps reports whether the enabled module m stays enabled if config is the content of the ConfigMap. Keeps runs the
// enabled script of m for the task t. The argument before has the names of the enabled modules that precede m; the script
// receives these names. The argument db has the other data that the decision needs.
func (c *Decider) Keeps(ctx context.Context, t workflow.Task, db *store.DB, m module.Module, config values.Config, before []string) (bool, error) {
	var k *Known
	if err := db.View(func(tx *store.Tx) (err error) {
		k, err = c.Load(tx, module.Set{Modules: []module.Module{m}})
		return err
	}); err != nil {
		return false, err
	}
	k.layers.Config = config
	d, err := c.decide(ctx, t, m, k, before)
	return d.Enabled && d.Broken == "", err
}

// stays is the reason given in the decision about a module that cannot be loaded.
const stays = "its files cannot be loaded, so it stays as it was"

// byFlags returns the decision of the enabled flags about m. The enabled script can still disable the module. A
// module that cannot be loaded stays enabled or disabled as before.
func (k *Known) byFlags(m module.Module) Module {
	d := Module{Name: m.Name, Order: m.Order, FromAddon: m.FromAddon}
	if m.Addon != nil {
		d.Addon = m.Addon.Content
	}
	was := k.Modules[m.Name]
	flags := module.Decide(m, k.enabledOverrides, k.layers.Config)
	// The ConfigMap can disable a module even if the module's hooks fail when called with --config.
	off := m.Broken == nil && !flags.Enabled && flags.Source == module.SourceConfig
	if broken := m.BrokenBy(k.hooks); broken != nil && !off {
		d.Broken = broken.Error()
		d.Enabled, d.Why = was.Enabled, stays
		return d
	}
	d.Enabled, d.Why = flags.Enabled, flags.String()
	if !d.Enabled || was.HasRunSince(k.Startup) {
		return d
	}
	if err := k.layers.CheckFiles(m.Key); err != nil {
		d.Broken = err.Error()
		d.Enabled, d.Why = was.Enabled, stays
	}
	return d
}

// keepEnabled returns the decision about m while a directory of modules is lost. If m was enabled and d disables it, m
// stays enabled, unless the ConfigMap disables it. Perhaps d would enable m if the directory were mounted.
func (k *Known) keepEnabled(m module.Module, d Module) Module {
	if d.Enabled || !k.Modules[m.Name].Enabled {
		return d
	}
	if flags := module.Decide(m, k.enabledOverrides, k.layers.Config); !flags.Enabled && flags.Source == module.SourceConfig {
		return d
	}
	d.Enabled, d.Kept = true, true
	d.Why = "stays enabled, because a directory of modules has become empty"
	return d
}

// runScript runs the enabled script of m, and returns d with the decision of the script.
func (c *Decider) runScript(ctx context.Context, t workflow.Task, m module.Module, k *Known, d Module, before []string) (Module, error) {
	config, err := json.Marshal(k.layers.HookConfigValues(m.Key))
	if err != nil {
		return d, err
	}
	merged, skipped := k.layers.HookValues(m.Key, append([]string{}, before...))
	c.values.WarnSkipped(skipped)
	text, err := json.Marshal(merged)
	if err != nil {
		return d, err
	}
	t.Subject = graph.Subject{Module: m.Name, Hook: "enabled"}
	enabled, reason, err := c.scripts.RunScript(ctx, t, hook.EnabledRun{
		Path: m.Enabled, Module: m.Name, Task: t.ID.String(), Attempt: t.Try, Previous: hook.Previous(t.Previous),
		ConfigValues: config, Values: text,
	})
	if err != nil {
		return d, err
	}
	d.Enabled = enabled
	if !enabled || reason != "" {
		word := "disabled"
		if enabled {
			word = "enabled"
		}
		d.Why = word + " by its enabled script"
		if reason != "" {
			d.Why += ": " + reason
		}
	}
	return d, nil
}
