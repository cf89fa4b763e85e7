package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"addon-operator/internal/kube"
	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// writtenByHook replaces the unknown version of a ConfigMap that a hook has created, until the
// ConfigMap is read.
const writtenByHook = "0"

// configEffect is the kind of the effect that writes one section of the ConfigMap.
const configEffect = "ConfigMap section"

// effectOf returns the effect that makes the change w.
func effectOf(w sections.ConfigWrite) (workflow.Effect, error) {
	data, err := json.Marshal(w)
	return workflow.Effect{Kind: configEffect, Data: data}, err
}

// A ConfigMap is the operator's ConfigMap and its content in force. Content comes into force in the
// transaction that records it, and only after the schemas have accepted it.
type ConfigMap struct {
	db      *store.DB
	log     *oncelog.Logger
	object  *kube.ConfigMap
	modules *Modules
	changes Changes
}

// saveWritten puts the change w, which has been written to the ConfigMap, in force. The watch of the
// ConfigMap then reports no new content. saveWritten reports whether the content in force has
// changed.
func (cm *ConfigMap) saveWritten(tx *store.Tx, w sections.ConfigWrite) (changed bool, err error) {
	config, record, err := sections.LoadApplied(tx)
	if err != nil {
		return false, err
	}
	if changed, err = w.Apply(&config); err != nil {
		return false, err
	}
	if record.ResourceVersion == "" {
		record.ResourceVersion = writtenByHook
	}
	return changed, cm.saveApplied(tx, config, record.ResourceVersion)
}

// doConfig writes a hook's section and flags to the ConfigMap. It does not write a section that has
// the wanted content already. If somebody has changed the section meanwhile, it patches the current
// one.
func (cm *ConfigMap) doConfig(ctx context.Context, _ workflow.Task, data json.RawMessage) error {
	var w sections.ConfigWrite
	if err := json.Unmarshal(data, &w); err != nil {
		return workflow.Refused(err)
	}
	err := cm.writeConfig(ctx, w)
	if err != nil && (kube.IsRefused(err) || errors.Is(err, sections.ErrUnfit)) {
		return workflow.Refused(err)
	}
	return err
}

// writeConfig makes the hook's change of the ConfigMap in one request.
func (cm *ConfigMap) writeConfig(ctx context.Context, w sections.ConfigWrite) error {
	layers := values.Layers{Static: cm.modules.Disk().Static, Schemas: cm.modules.loaded()}
	_, err := cm.object.Update(ctx, func(data map[string]string) error {
		text, changed, err := w.Text(data, layers)
		if err != nil {
			return err
		}
		if changed {
			data[w.Section] = text
		}
		for flag, value := range w.Flags {
			delete(data, flag)
			if value != nil {
				data[flag] = strconv.FormatBool(*value)
			}
		}
		return nil
	})
	return err
}

// saveApplied puts c in force.
func (cm *ConfigMap) saveApplied(tx *store.Tx, c values.Config, resourceVersion string) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	changed, err := sectionsChanged(tx, c)
	if err != nil {
		return err
	}
	tx.OnCommit(cm.changes.ConfigApplied)
	tx.OnCommit(cm.changes.ProblemsChanged)
	return store.Save(tx, store.AppliedConfigKey(), store.AppliedConfig{
		ResourceVersion: resourceVersion, Config: b, At: tx.Now(), Changed: changed,
	})
}

// sectionsChanged returns when each section of c changed last: now if it differs from the one in force.
func sectionsChanged(tx *store.Tx, c values.Config) (map[string]time.Time, error) {
	before, record, err := sections.LoadAppliedOrLost(tx)
	if err != nil {
		return nil, err
	}
	at := map[string]time.Time{}
	for key, section := range c.Sections {
		at[key] = tx.Now().Truncate(time.Second)
		old, had := before.Sections[key]
		changed, err := values.Changed(old, section)
		if err != nil {
			return nil, err
		}
		if known, dated := record.Changed[key]; had && !changed {
			if !dated {
				known = record.At.Truncate(time.Second) // of a version that did not date sections
			}
			at[key] = known
		}
	}
	return at, nil
}

// refusal returns an error if new content of the ConfigMap is invalid. before is the content in
// force. It checks the sections of the enabled modules, and of those that the new content enables.
func (cm *ConfigMap) refusal(before, now values.Config, enabled []string) error {
	l := values.Layers{Static: cm.modules.Disk().Static, Config: before, Schemas: cm.modules.loaded()}
	keys := map[string]bool{}
	for key := range now.Sections {
		keys[key] = key == values.Global || now.Flags[values.Flag(key)] || slices.Contains(enabled, values.Kebab(key))
	}
	for flag, on := range now.Flags {
		if key := strings.TrimSuffix(flag, values.Flag("")); on {
			keys[key] = true
		}
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !keys[key] {
			continue
		}
		if err := l.CheckConfig(key, now.Sections[key]); err != nil {
			errs = append(errs, fmt.Errorf("ConfigMap key %q: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

// editConfig returns the command that edits the ConfigMap.
func (cm *ConfigMap) editConfig() string {
	text := strings.Fields(cm.object.String()) // "ConfigMap namespace/name"
	namespace, name, _ := strings.Cut(text[len(text)-1], "/")
	return "kubectl -n " + namespace + " edit configmap " + name
}

// readChange returns the change from the content in force to read. For invalid content, it has only
// the content in force.
func (cm *ConfigMap) readChange(tx *store.Tx, read readConfig) (c configChange, err error) {
	if c.startup, err = store.LoadStartup(tx); err != nil {
		return c, err
	}
	if c.before, c.record, err = sections.LoadAppliedOrLost(tx); err != nil || read.Error != "" {
		return c, err
	}
	c.exists = read.ResourceVersion != ""
	c.now = read.Config
	c.now.Sections, c.now.Flags = maps.Clone(c.now.Sections), maps.Clone(c.now.Flags)
	if err := leaveAnnounced(tx, c.before, &c.now); err != nil {
		return c, err
	}
	if c.modules, err = store.LoadModules(tx); err != nil {
		return c, err
	}
	if c.enabledOverrides, err = sections.Overrides(tx); err != nil {
		return c, err
	}
	c.releases = map[string]*store.Release{}
	for name := range c.modules {
		switch release, ok, err := store.Load[store.Release](tx, store.ReleaseKey(name)); {
		case err != nil:
			c.releases[name] = nil
		case ok:
			c.releases[name] = &release
		}
	}
	c.failing, err = mainFails(tx)
	return c, err
}

// affected lists the modules that a change of the ConfigMap affects: those to run at once, those
// to run after the tasks that wait already, and those to delete at once.
func (cm *ConfigMap) affected(ctx context.Context, c configChange, releases *Releases) (map[graph.FanOut][]graph.Item, error) {
	d, err := c.before.Diff(c.now)
	if err != nil {
		return nil, err
	}
	lists := map[graph.FanOut][]graph.Item{lifecycle.SwitchedOff: items(cm.switchedOff(ctx, c, d, releases))}
	if len(d.Flags) > 0 && !c.failing {
		return lists, nil // a reload follows and runs every module, and nothing holds it up
	}
	for _, name := range c.startup.Enabled {
		if !slices.Contains(d.Modules, values.Camel(name)) || c.switchesOff(cm.modules.Disk(), name) {
			continue
		}
		list := lifecycle.ChangedUnstarted
		if c.modules[name].HasStarted(c.startup) {
			list = lifecycle.Changed
		}
		lists[list] = append(lists[list], graph.Item{Subject: graph.Subject{Module: name}})
	}
	return lists, nil
}

// switchedOff returns the installed modules that the change switches off, in the order of their
// deletion. While a task of the main queue fails, a reload may not reach their deletion. Otherwise
// it returns none, because the reload deletes them in its order, after the modules that run.
//
// Two cases are left to the reload. The objects of a module that a newly enabled module can take
// over must not be deleted before. If the ConfigMap no longer exists, the reload checks whether
// this may delete releases.
func (cm *ConfigMap) switchedOff(ctx context.Context, c configChange, d values.Difference, releases *Releases) (names []string) {
	if !c.failing || !c.exists {
		return nil
	}
	disk := cm.modules.Disk()
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
	taken := releases.takeoverOf(ctx, on, c.now)
	return slices.DeleteFunc(names, func(name string) bool {
		release := c.releases[name]
		return release == nil || taken.of(release)
	})
}

// SwitchedOff returns the modules that content switches off and the content in force does not. For
// invalid content it returns none.
func (cm *ConfigMap) SwitchedOff(content kube.Content) (names []string, err error) {
	read := readConfig{ResourceVersion: content.ResourceVersion}
	if read.Config, err = values.ParseConfig(content.Data); err != nil || content.ResourceVersion == "" {
		return nil, nil // step 16 reports the error
	}
	var c configChange
	if err := cm.db.View(func(tx *store.Tx) error {
		c, err = cm.readChange(tx, read)
		return err
	}); err != nil {
		return nil, err
	}
	if c.record.At.IsZero() || cm.modules.usable("") != nil || cm.refusal(c.before, read.Config, c.startup.Enabled) != nil {
		return nil, nil
	}
	disk := cm.modules.Disk()
	for _, m := range disk.Modules {
		if c.switchesOff(disk, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names, nil
}

// leaveAnnounced reverts in now the changes that the effects of an open journal have just written.
func leaveAnnounced(tx *store.Tx, before values.Config, now *values.Config) error {
	for k := range tx.Range(store.At(store.Journal)) {
		o, _, err := store.Load[workflow.Outcome](tx, k)
		if err != nil {
			return err
		}
		for _, e := range o.Effects {
			var w sections.ConfigWrite
			if e.Kind != configEffect {
				continue
			}
			if err := json.Unmarshal(e.Data, &w); err != nil {
				return err
			}
			if err := w.Revert(before, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// readConfig is the data of configMapStep's outcome.
type readConfig struct {
	ResourceVersion string        `json:"resourceVersion"`
	Config          values.Config `json:"config"`
	// Error is the error of invalid content.
	Error string `json:"error,omitempty"`
}
