package steps

import (
	"maps"
	"slices"

	"addon-operator/internal/kube"
	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A configChange is a change of the ConfigMap and what the store holds beside it.
type configChange struct {
	before, now      values.Config
	record           store.AppliedConfig // of before
	exists           bool                // now is of a ConfigMap that exists
	startup          store.Startup
	modules          map[string]store.Module
	released         map[string]bool // modules whose release is known
	enabledOverrides map[string]values.EnabledOverride
	failing          bool // a task of the main queue has failed and waits to be retried
}

// readChange returns the change from the content in force to read. Of invalid content it holds
// the content in force only.
func (cm *ConfigMap) readChange(tx *store.Tx, read readConfig) (c configChange, err error) {
	if c.startup, err = startup(tx); err != nil {
		return c, err
	}
	if c.before, c.record, err = applied(tx); err != nil || read.Error != "" {
		return c, err
	}
	c.exists = read.ResourceVersion != ""
	c.now = read.Config
	c.now.Sections, c.now.Flags = maps.Clone(c.now.Sections), maps.Clone(c.now.Flags)
	if err := leaveAnnounced(tx, c.before, &c.now); err != nil {
		return c, err
	}
	if c.modules, err = modulesKnown(tx); err != nil {
		return c, err
	}
	if c.enabledOverrides, err = enabledOverrides(tx); err != nil {
		return c, err
	}
	c.released = map[string]bool{}
	for name := range c.modules {
		c.released[name] = tx.Get(store.ReleaseKey(name)) != nil
	}
	c.failing, err = mainFails(tx)
	return c, err
}

// mainFails reports whether a task of the main queue has failed and waits to be retried. Only the
// first task of a slot can.
func mainFails(tx *store.Tx) (bool, error) {
	for t, err := range store.Tasks(tx, workflow.Main) {
		if err != nil {
			return false, err
		}
		if t.Failed != nil && t.Node != string(lifecycle.ConfigMapChanged) {
			return true, nil
		}
		if t.Slot >= store.FirstSlot {
			return false, nil
		}
	}
	return false, nil
}

// concerned lists the modules that a change of the ConfigMap concerns: those to run at once, those
// to run after what waits already, and those to delete at once.
func (cm *ConfigMap) concerned(c configChange) (map[graph.FanOut][]graph.Item, error) {
	d, err := c.before.Diff(c.now)
	if err != nil {
		return nil, err
	}
	lists := map[graph.FanOut][]graph.Item{lifecycle.SwitchedOff: items(cm.switchedOff(c, d))}
	if len(d.Flags) > 0 && !c.failing {
		return lists, nil // a reload follows and runs every module, and nothing holds it up
	}
	for _, name := range c.startup.Enabled {
		if !slices.Contains(d.Modules, values.Camel(name)) || c.switchesOff(cm.modules.Disk(), name) {
			continue
		}
		list := lifecycle.ChangedUnstarted
		if started(c.modules[name], c.startup) {
			list = lifecycle.Changed
		}
		lists[list] = append(lists[list], graph.Item{Subject: graph.Subject{Module: name}})
	}
	return lists, nil
}

// switchedOff returns the installed modules that the change switches off, in the order in which
// they are deleted, where a reload may not reach their deletion: while a task of the main queue
// fails. Otherwise the reload deletes them in its order, after the modules that run.
//
// A change that switches other modules on is left to the reload: a new module can take over
// objects of an old one, which must not be deleted before. So is a ConfigMap that is gone, as the
// reload checks whether that may delete releases.
func (cm *ConfigMap) switchedOff(c configChange, d values.Difference) (names []string) {
	if !c.failing || !c.exists {
		return nil
	}
	disk := cm.modules.Disk()
	for _, m := range disk.Modules {
		if slices.Contains(d.Flags, values.Flag(m.Key)) && !c.decide(m, c.before) && c.decide(m, c.now) {
			return nil
		}
	}
	for _, m := range slices.Backward(disk.Modules) {
		record, known := c.modules[m.Name]
		installed := c.released[m.Name] || record.State != store.Off && record.State != ""
		if known && m.Broken == nil && installed && c.switchesOff(disk, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

// switchesOff reports whether the ConfigMap switches the module off now and did not before.
func (c configChange) switchesOff(disk module.Set, name string) bool {
	m, found := disk.Find(name)
	if !found {
		return false
	}
	said, ok := c.now.Flags[values.Flag(m.Key)]
	return ok && !said && c.decide(m, c.before)
}

// SwitchedOff returns the modules that content of the ConfigMap switches off and the content in
// force does not. Of content that is invalid it returns none.
func (cm *ConfigMap) SwitchedOff(content kube.Content) (names []string, err error) {
	read := readConfig{ResourceVersion: content.ResourceVersion}
	if read.Config, err = values.ParseConfig(content.Data); err != nil || content.ResourceVersion == "" {
		return nil, nil // step 16 says what is wrong with it
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

// decide returns what the flags say of m under config.
func (c configChange) decide(m module.Module, config values.Config) bool {
	return module.Decide(m, c.enabledOverrides, config).Enabled
}
