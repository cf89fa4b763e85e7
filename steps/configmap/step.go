package configmap

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/charts"
	"addon-operator/steps/desired"
	"addon-operator/steps/scan"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// An Observer is notified of invalid content, to log and count it. An Observer does not influence the steps.
type Observer interface {
	// ConfigRefused reports invalid content of the ConfigMap at each attempt to apply it.
	ConfigRefused(resourceVersion, why string)
}

// A Decider decides whether a module is enabled.
type Decider interface {
	// Keeps reports whether the enabled module m stays enabled if config is the content of the ConfigMap. It runs the
	// enabled script of m for the task t. The argument before has the names of the enabled modules that precede m, and
	// db has the other data that the decision needs.
	Keeps(ctx context.Context, t workflow.Task, db *store.DB, m module.Module, config values.Config, before []string) (bool, error)
}

// A Step reads the ConfigMap and puts its content in force.
type Step struct {
	state    *scan.State
	charts   *charts.Charts
	decider  Decider
	observer Observer
}

// New returns the step for the ConfigMap of state. The step must know the objects of newly enabled modules, so it
// uses the argument all to render their charts. It uses decider to run the enabled scripts of changed modules.
func New(state *scan.State, all *charts.Charts, decider Decider, observer Observer) *Step {
	return &Step{state: state, charts: all, decider: decider, observer: observer}
}

// Steps returns the step of the node ConfigMapChanged.
func (s *Step) Steps() workflow.Steps { return workflow.Steps{lifecycle.ConfigMapChanged: s} }

// Do reads the ConfigMap. If the ConfigMap does not exist, its content is empty. If the content is invalid, the
// outcome contains the error; but if no content has been in force before, Do returns the error.
func (s *Step) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	if err := s.state.ScanAfter(t); err != nil {
		return workflow.Outcome{}, err
	}
	content, err := s.state.ConfigMap.Read(ctx)
	if err != nil {
		return workflow.Outcome{}, err
	}
	read := readConfig{ResourceVersion: content.ResourceVersion, OnlyHooks: content.OnlyOwn}
	if read.Config, err = values.ParseConfig(content.Data); err != nil {
		read.Error = err.Error()
	}
	var c configChange
	if err := s.state.DB.View(func(tx *store.Tx) (err error) {
		c, err = readChange(tx, read)
		return err
	}); err != nil {
		return workflow.Outcome{}, err
	}
	if err := s.check(&read, c.before, c.startup.Enabled); err != nil {
		return workflow.Outcome{}, err
	}
	if read.Error != "" && c.record.At.IsZero() {
		return workflow.Outcome{}, fmt.Errorf("%s is invalid, and nothing starts before it is valid: %s", s.state.ConfigMap.Name(), read.Error)
	}
	out := workflow.Outcome{Detail: "version " + content.ResourceVersion}
	if content.ResourceVersion == "" {
		out.Detail = "the ConfigMap does not exist"
	}
	if read.Error == "" {
		if out.Changes, err = s.valueChanges(c, read.Config); err != nil {
			return out, err
		}
	}
	if read.Error != "" {
		out.Detail = "refused: " + read.Error
	} else if out.Items, err = s.affected(ctx, t, c); err != nil {
		return out, err
	}
	out.Data, err = json.Marshal(read)
	return out, err
}

// valueChanges returns the changes of values and enabled flags that the new content, the argument now, causes; nil if
// it changes nothing. The first content that is put in force is not recorded as a change of flags.
func (s *Step) valueChanges(c configChange, now values.Config) (*store.ValueChanges, error) {
	before := c.before
	d, err := before.Diff(now)
	if err != nil {
		return nil, err
	}
	keys := d.Modules
	if d.Global {
		keys = append(keys, values.Global)
	}
	var changes *sections.Changes
	layers := values.Layers{
		Static: s.state.Modules.Disk().Static, Config: before, Saved: map[string][]values.Saved{}, Schemas: s.state.Modules.Schemas(),
	}
	if err := s.state.DB.View(func(tx *store.Tx) error {
		changes = sections.NewChanges(store.RedactionSecret(tx))
		for _, key := range keys {
			saved, _, err := store.Load[[]values.Saved](tx, store.SavedKey(key))
			if err != nil {
				return err
			}
			layers.Saved[key] = saved
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if !c.record.At.IsZero() {
		for _, flag := range d.Flags {
			changes.AddFlag(flag, before, now)
		}
	}
	for _, key := range keys {
		if err := changes.AddConfig(layers, key, now); err != nil {
			return nil, err
		}
	}
	return changes.Recorded(), nil
}

// check validates the content that the step has read against the schemas. If the content is invalid, check sets
// read.Error and reports the error to the observer. It returns an error only if the schemas of global values cannot
// be used.
func (s *Step) check(read *readConfig, before values.Config, enabled []string) error {
	if err := s.state.Modules.Usable(""); err != nil {
		return err
	}
	if read.Error == "" {
		if err := s.state.ConfigMap.Refusal(before, read.Config, enabled); err != nil {
			read.Config, read.Error = values.Config{}, err.Error()
		}
	}
	if read.Error != "" {
		s.observer.ConfigRefused(read.ResourceVersion, read.Error)
	}
	return nil
}

// Apply puts the content in force, except changes that a hook is just writing to the ConfigMap. The transition that
// ends the task of the hook puts these changes in force. If the content is invalid, Apply only records why it is
// refused.
func (s *Step) Apply(tx *store.Tx, t workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
	var read readConfig
	if err := json.Unmarshal(o.Data, &read); err != nil {
		return nil, err
	}
	if read.Error != "" {
		return nil, store.Save(tx, store.RefusedConfigKey(), store.RefusedConfig{
			ResourceVersion: read.ResourceVersion, Error: read.Error, Fix: s.state.ConfigMap.EditConfig(), At: tx.Now(), Run: t.Run,
		})
	}
	tx.Delete(store.RefusedConfigKey())
	if err := sections.MoveLostApplied(tx); err != nil {
		return nil, err
	}
	before, record, err := sections.LoadApplied(tx)
	if err != nil {
		return nil, err
	}
	if err := desired.LeaveAnnounced(tx, before, &read.Config); err != nil {
		return nil, err
	}
	save := s.state.ConfigMap.SaveApplied
	if read.OnlyHooks {
		save = s.state.ConfigMap.SaveOfHooks
	}
	if err := save(tx, read.Config, read.ResourceVersion); err != nil {
		return nil, err
	}
	c := configChange{before: before, now: read.Config, record: record}
	if c.modules, err = store.LoadModules(tx); err != nil {
		return nil, err
	}
	if c.enabledOverrides, err = sections.Overrides(tx); err != nil {
		return nil, err
	}
	return s.facts(c)
}

// facts returns the fact that says what the change concerns: everything, the decisions which modules are enabled, or
// single modules. If the change concerns nothing, facts returns nil.
func (s *Step) facts(c configChange) ([]graph.Fact, error) {
	d, err := c.before.Diff(c.now)
	if err != nil {
		return nil, err
	}
	switch {
	case c.concernsAll(d):
		return []graph.Fact{lifecycle.GlobalChanged}, nil
	case len(d.Flags) > 0 || c.asksScript(s.state.Modules.Disk(), d.Modules):
		return []graph.Fact{lifecycle.FlagsChanged}, nil
	case len(d.Modules) > 0:
		return []graph.Fact{lifecycle.ModuleChanged}, nil
	}
	return nil, nil
}

// scriptsWithin limits the time for which enabled scripts delay the content of the ConfigMap. Content that disables a
// failing module, for example, must not wait for the script of another module that hangs.
const scriptsWithin = time.Minute

// errScripts is the cause for which a script is stopped when scriptsWithin has passed.
var errScripts = fmt.Errorf("enabled scripts delay the ConfigMap for at most %s", scriptsWithin)

// affected lists the modules that a change of the ConfigMap affects: modules to run at once, modules to run after the
// tasks that already wait, and modules to delete at once.
func (s *Step) affected(ctx context.Context, t workflow.Task, c configChange) (map[graph.FanOut][]graph.Item, error) {
	d, err := c.before.Diff(c.now)
	if err != nil {
		return nil, err
	}
	lists := map[graph.FanOut][]graph.Item{lifecycle.SwitchedOff: graph.ModuleItems(s.deletedAtOnce(ctx, c, d))}
	disk := s.state.Modules.Disk()
	if c.concernsAll(d) || (len(d.Flags) > 0 || c.asksScript(disk, d.Modules)) && !c.failing {
		return lists, nil // the reload that follows runs each module
	}
	changed, err := s.stillEnabled(ctx, t, c, d)
	for _, name := range changed {
		list := lifecycle.ChangedUnstarted
		if record := c.modules[name]; record.HasRunSince(c.startup) {
			list = lifecycle.Changed
		}
		lists[list] = append(lists[list], graph.Item{Subject: graph.Subject{Module: name}})
	}
	return lists, err
}

// stillEnabled returns the enabled modules whose section has changed, in the order of modules, without those that the
// change disables. It runs the enabled scripts that must decide again.
func (s *Step) stillEnabled(ctx context.Context, t workflow.Task, c configChange, d values.Difference) (changed []string, err error) {
	scripts, stop := context.WithTimeoutCause(ctx, scriptsWithin, errScripts)
	defer stop()
	disk := s.state.Modules.Disk()
	var before []string // the enabled modules that precede the module name
	for _, name := range c.startup.Enabled {
		if c.switchesOff(disk, name) {
			continue
		}
		differs := slices.Contains(d.Modules, values.Camel(name))
		if differs && c.asksScript(disk, []string{values.Camel(name)}) {
			stays := s.staysEnabled(scripts, t, name, c.now, before)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if !stays {
				continue
			}
		}
		before = append(before, name)
		if differs {
			changed = append(changed, name)
		}
	}
	return changed, nil
}

// staysEnabled reports whether the enabled module stays enabled if config is the content of the ConfigMap. The argument
// before has the enabled modules that precede this module. If the enabled script of the module fails, or does not end
// before ctx ends, staysEnabled returns false: the reload that follows runs the script again, and reports the error.
func (s *Step) staysEnabled(ctx context.Context, t workflow.Task, name string, config values.Config, before []string) bool {
	m, found := s.state.Modules.Disk().Find(name)
	if !found || ctx.Err() != nil {
		return false
	}
	stays, err := s.decider.Keeps(ctx, t, s.state.DB, m, config, before)
	return err == nil && stays
}

// deletedAtOnce returns the installed modules that the change disables, in the order of their deletion, if a failing
// task delays the main queue. As long as this task fails, it can prevent a reload from reaching the step that deletes
// modules. If no failing task delays the queue, deletedAtOnce returns no modules, because the reload deletes the
// disabled modules after it has run the other modules.
//
// In two cases, modules are not deleted at once, but by the reload. First, if a newly enabled module can take over an
// object of a module, the module must not be deleted before the takeover. Second, if no person has written the
// ConfigMap, the reload must check whether releases may be deleted.
func (s *Step) deletedAtOnce(ctx context.Context, c configChange, d values.Difference) (names []string) {
	if !c.failing || !c.configured {
		return nil
	}
	disk := s.state.Modules.Disk()
	var on []module.Module
	for _, m := range disk.Modules {
		if slices.Contains(d.Flags, values.Flag(m.Key)) && !c.decide(m, c.before) && c.decide(m, c.now) {
			on = append(on, m)
		}
	}
	for _, m := range slices.Backward(disk.Modules) {
		record, known := c.modules[m.Name]
		_, released := c.releases[m.Name]
		installed := released || record.State != store.Off && record.State != ""
		if known && m.Broken == nil && installed && c.switchesOff(disk, m.Name) {
			names = append(names, m.Name)
		}
	}
	if len(on) == 0 || len(names) == 0 {
		return names
	}
	taken := s.charts.TakeoverOf(ctx, on, c.now)
	return slices.DeleteFunc(names, func(name string) bool {
		release := c.releases[name]
		return release == nil || taken.Of(release)
	})
}

// DisabledBy returns the modules that the argument content would disable, and that the content in force does not
// disable. It returns no modules if the content is invalid, if resourceVersion is empty, if no content is in force yet,
// or if the schemas of global values cannot be used.
func (s *Step) DisabledBy(resourceVersion string, content map[string]string) (names []string, err error) {
	read := readConfig{ResourceVersion: resourceVersion}
	if read.Config, err = values.ParseConfig(content); err != nil || resourceVersion == "" {
		return nil, nil // step 16 reports the error
	}
	var c configChange
	if err := s.state.DB.View(func(tx *store.Tx) error {
		c, err = readChange(tx, read)
		return err
	}); err != nil {
		return nil, err
	}
	if c.record.At.IsZero() || s.state.Modules.Usable("") != nil || s.state.ConfigMap.Refusal(c.before, read.Config, c.startup.Enabled) != nil {
		return nil, nil
	}
	disk := s.state.Modules.Disk()
	for _, m := range disk.Modules {
		if c.switchesOff(disk, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names, nil
}
