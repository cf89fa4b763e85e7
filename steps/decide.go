package steps

import (
	"context"
	"encoding/json"

	"addon-operator/internal/hook"
	"addon-operator/internal/module"
	"addon-operator/steps/hooks"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// decide decides whether m is enabled: by the flags, then by its script, which receives the modules
// enabled before it.
func (s *discoverStep) decide(ctx context.Context, t workflow.Task, m module.Module, k known, before []string) (decided, error) {
	d := decided{Name: m.Name, Order: m.Order}
	if m.Addon != nil {
		d.Addon = m.Addon.Content
	}
	flags := module.Decide(m, k.enabledOverrides, k.layers.Config)
	// The ConfigMap can also switch off a module whose hooks do not answer --config.
	off := m.Broken == nil && !flags.Enabled && flags.Source == module.SourceConfig
	if broken := hooks.BrokenBy(m, k.hooks); broken != nil && !off {
		d.Broken = broken.Error()
		d.Enabled, d.Why = k.modules[m.Name].Enabled, "its files cannot be loaded, so it stays as it was"
		return d, nil // a broken module is found, and stays as it was
	}
	d.Enabled, d.Why = flags.Enabled, flags.String()
	if !d.Enabled {
		return d, nil
	}
	if was := k.modules[m.Name]; !was.HasStarted(k.startup) {
		if err := k.layers.CheckFiles(m.Key); err != nil {
			d.Broken = err.Error()
			d.Enabled, d.Why = was.Enabled, "its files cannot be loaded, so it stays as it was"
			return d, nil //nolint:nilerr // as above
		}
	}
	if m.Enabled == "" {
		return d, nil
	}
	return s.runScript(ctx, t, m, k, d, before)
}

// runScript returns d with the decision of m's enabled script.
func (s *discoverStep) runScript(ctx context.Context, t workflow.Task, m module.Module, k known, d decided, before []string) (decided, error) {
	config, err := json.Marshal(k.layers.HookConfigValues(m.Key))
	if err != nil {
		return d, err
	}
	merged, skipped := k.layers.HookValues(m.Key, append([]string{}, before...))
	s.values.WarnSkipped(skipped)
	text, err := json.Marshal(merged)
	if err != nil {
		return d, err
	}
	t.Subject = graph.Subject{Module: m.Name, Hook: "enabled"}
	enabled, reason, err := s.runner.Enabled(ctx, hook.EnabledRun{
		Path: m.Enabled, Module: m.Name, Task: t.ID.String(), Attempt: t.Try, Previous: hook.Previous(t.Previous),
		ConfigValues: config, Values: text, Output: s.reports.Output(t, "enabled"),
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
