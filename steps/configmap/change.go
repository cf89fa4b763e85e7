package configmap

import (
	"maps"
	"slices"

	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/desired"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/lifecycle"
)

// A configChange is a change of the ConfigMap. It also has the records of the store that decide which modules the
// change affects.
type configChange struct {
	before, now      values.Config       // the content in force, and the new content
	record           store.AppliedConfig // the record of the content in force
	configured       bool                // whether a person has written the ConfigMap; if not, it does not exist, or only hooks have written it
	startup          store.Startup
	modules          map[string]store.Module
	releases         map[string]*store.Release // known releases by module; nil if the record cannot be read
	enabledOverrides map[string]values.EnabledOverride
	failing          bool // a failing task delays the main queue
}

// mainFails reports whether a failing task delays the main queue: a task of the main queue, or of another queue for which
// the main queue waits. It ignores the task that applies the ConfigMap.
func mainFails(tx *store.Tx) (bool, error) {
	return workflow.MainWaitsFor(tx, func(t *store.Task) bool {
		return t.Failed != nil && t.Node != string(lifecycle.ConfigMapChanged)
	})
}

// switchesOff reports whether the change of the ConfigMap disables a module that was enabled before.
func (c configChange) switchesOff(disk module.Set, name string) bool {
	m, found := disk.Find(name)
	if !found {
		return false
	}
	want, ok := c.now.Flags[values.Flag(m.Key)]
	return ok && !want && c.decide(m, c.before)
}

// decide reports whether module m is enabled if config is the content of the ConfigMap.
func (c configChange) decide(m module.Module, config values.Config) bool {
	return module.Decide(m, c.enabledOverrides, config).Enabled
}

// concernsAll reports whether the change with the difference d concerns all modules, so that a reload runs each of them.
// A new section can repair a module that could not be loaded; the next discovery checks this.
func (c configChange) concernsAll(d values.Difference) bool {
	return d.Global || c.record.At.IsZero() ||
		slices.ContainsFunc(d.Modules, func(key string) bool { return c.modules[values.Kebab(key)].Broken != "" })
}

// asksScript reports whether the change can change the decision of an enabled script. The argument keys has the keys of
// the modules whose section or maintenance mode has changed. A script receives the section of its module, and runs only
// if the flags enable the module.
func (c configChange) asksScript(disk module.Set, keys []string) bool {
	return slices.ContainsFunc(disk.Modules, func(m module.Module) bool {
		if m.Enabled == "" || !slices.Contains(keys, m.Key) || !c.decide(m, c.now) {
			return false
		}
		changed, err := values.Changed(c.before.Sections[m.Key], c.now.Sections[m.Key])
		return changed || err != nil
	})
}

// readChange returns the change from the content in force to the content that the step has read. If the new content
// is invalid, only the fields startup, before and record are set.
func readChange(tx *store.Tx, read readConfig) (c configChange, err error) {
	if c.startup, err = store.LoadStartup(tx); err != nil {
		return c, err
	}
	if c.before, c.record, err = sections.LoadAppliedOrLost(tx); err != nil || read.Error != "" {
		return c, err
	}
	c.configured = read.ResourceVersion != "" && !read.OnlyHooks
	c.now = read.Config
	c.now.Sections, c.now.Flags = maps.Clone(c.now.Sections), maps.Clone(c.now.Flags)
	if err := desired.LeaveAnnounced(tx, c.before, &c.now); err != nil {
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

// readConfig is the content of the ConfigMap that the step has read. It is the data of the step's outcome.
type readConfig struct {
	ResourceVersion string `json:"resourceVersion"`
	// OnlyHooks is true if the ConfigMap exists, and only hooks have written its content.
	OnlyHooks bool          `json:"onlyHooks,omitempty"`
	Config    values.Config `json:"config"`
	// Error says why the content is invalid; it is empty if the content is valid.
	Error string `json:"error,omitempty"`
}
