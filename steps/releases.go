package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"addon-operator/internal/helm"
	modules "addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/desired"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/report"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// Releases are the Helm releases of modules. A release is rendered from the current values and
// chart. Its record has the result of the last check or upgrade.
type Releases struct {
	db       *store.DB
	log      *oncelog.Logger
	helm     *helm.Client
	modules  *desired.Modules
	values   *desired.Values
	observer Observer
	changes  Changes

	renderings renderings
}

// readRelease returns the current record of module's release.
func (rs *Releases) readRelease(module string) (known knownRelease, err error) {
	err = rs.db.View(func(tx *store.Tx) error {
		known.At = tx.Now()
		known.Release, _, err = store.Load[store.Release](tx, store.ReleaseKey(module))
		return err
	})
	return known, err
}

// saveRelease writes the record of module's release in o, if there is one. Objects that hooks have
// removed meanwhile stay recorded as removed.
func (rs *Releases) saveRelease(tx *store.Tx, module string, o workflow.Outcome) error {
	if len(o.Data) == 0 {
		return nil
	}
	var next knownRelease
	if err := json.Unmarshal(o.Data, &next); err != nil {
		return err
	}
	old, ok, err := store.Load[store.Release](tx, store.ReleaseKey(module))
	if err != nil {
		return err
	}
	next.Changed = old.Changed
	if !ok || old.Revision != next.Revision {
		next.Changed = tx.Now()
	}
	for _, removed := range old.Removed {
		if removed.At.After(next.At) && !next.Lacks(removed.Object) {
			next.Removed = append(next.Removed, removed)
		}
	}
	releaseChanged(tx, rs.changes, module)
	return store.Save(tx, store.ReleaseKey(module), next.Release)
}

// release returns the release that Helm must install for module; nil if it has no chart.
func (rs *Releases) release(module string) (*helm.Release, error) {
	return rs.releaseUnder(module, nil)
}

// releaseUnder is release, with config instead of the ConfigMap content in force unless config is
// nil.
func (rs *Releases) releaseUnder(module string, config *values.Config) (*helm.Release, error) {
	m, ok := rs.modules.Disk().Find(module)
	if !ok {
		return nil, fmt.Errorf("module %s is not on disk any more", module)
	}
	if m.Broken != nil {
		return nil, m.Broken
	}
	if m.Chart == modules.NoChart {
		if chart, err := modules.FindChart(m.Path); err != nil || chart == modules.NoChart {
			return nil, err
		}
	}
	r := &helm.Release{Name: module, ChartDir: m.ChartDir(), Addon: m.Addon != nil}
	err := rs.db.View(func(tx *store.Tx) error {
		key := sections.Of(module)
		layers, err := rs.values.LayersOf(tx, key)
		if err != nil {
			return err
		}
		if config != nil {
			layers.Config = *config
		}
		l, err := store.LoadStartup(tx)
		if err != nil {
			return err
		}
		if r.Maintained = layers.Config.Maintained[key]; !r.Maintained {
			if err := layers.CheckHelm(key); err != nil {
				return err
			}
		}
		r.Values, _ = layers.HelmValues(key, nil)
		if m.Addon != nil {
			rs.modules.WarnOfDefaultPlan(m, r.Values[key])
			return addonValues(r, m.Addon, key)
		}
		r.EnabledModules = append([]string{}, l.Enabled...)
		return nil
	})
	return r, err
}

// uninstall deletes the release of module. The outcome names the objects that were kept because
// they belong to another release.
func (rs *Releases) uninstall(ctx context.Context, module string) (workflow.Outcome, error) {
	kept, err := rs.helm.Uninstall(ctx, module)
	return workflow.Outcome{Detail: rs.reportKept(module, kept)}, err
}

// reportKept logs the objects of module's release that were not deleted with it, and returns them for
// the history.
func (rs *Releases) reportKept(module string, kept []helm.Kept) string {
	for _, k := range kept {
		rs.log.Info().Str("module", module).Str("object", k.Object.String()).Str("owner", k.Owner).
			Msg("object is kept: it belongs to another release")
	}
	switch len(kept) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("kept %s", kept[0])
	default:
		return fmt.Sprintf("kept %s; and %d more", kept[0], len(kept)-1)
	}
}

// watchHelmHooks returns a context for an action on the release of t's module. While the action waits for the Job or Pod of a
// Helm hook for long, that is reported as a slow run.
func (rs *Releases) watchHelmHooks(ctx context.Context, t workflow.Task) context.Context {
	return helm.WithAwaits(ctx, func(hook helm.Object) (ended func()) {
		return report.Slow(rs.observer, report.SlowRun{
			Task: t, Node: graph.NodeID(t.Node), Since: rs.db.Now(), After: report.SlowLeast, Awaits: hook.String(),
		})
	})
}

// Rendered renders the chart of module with its current values, and changes nothing. With loose, it
// also returns output of the templates that is not a valid manifest. For a module without a chart
// it returns an error.
func (rs *Releases) Rendered(ctx context.Context, module string, loose bool) (string, error) {
	release, err := rs.release(module)
	if err != nil {
		return "", err
	}
	if release == nil {
		return "", errors.New("the module has no chart")
	}
	if loose {
		return rs.helm.Templates(ctx, *release)
	}
	manifest, err := rs.helm.Render(ctx, *release)
	return manifest.Text, err
}

// renderAhead renders the chart of module in the background, for the release check that follows the
// last beforeHelm hook. If the hook changes the values or the chart, the check renders it again.
func (rs *Releases) renderAhead(ctx context.Context, module string) {
	ahead := rs.renderings.put(module)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), aheadTimeout)
	go func() {
		defer cancel()
		defer func() {
			_ = recover() // a chart can make Helm panic; the check renders it again and reports the error
			if !ahead.ok {
				close(ahead.ended)
			}
		}()
		r, err := rs.release(module)
		if err != nil || r == nil {
			return
		}
		if m, err := rs.render(ctx, *r); err == nil {
			ahead.end(m)
		}
	}()
}

// saveRendering keeps the manifest of module for the next step of its run.
func (rs *Releases) saveRendering(module string, m helm.Manifest) { rs.renderings.put(module).end(m) }

// rendered returns the manifest of a release, without its text. It uses a reusable rendering, or
// renders the chart now.
func (rs *Releases) rendered(ctx context.Context, r helm.Release) (helm.Manifest, error) {
	return rs.renderedIf(ctx, r, func(m helm.Manifest) (bool, error) { return rs.helm.Reusable(ctx, r, m) })
}

// checked returns the manifest that the release check has just rendered, without its text. It does
// not ask the cluster again for the served kinds, as Helm does not either.
func (rs *Releases) checked(ctx context.Context, r helm.Release) (helm.Manifest, error) {
	return rs.renderedIf(ctx, r, func(m helm.Manifest) (bool, error) { return m.RenderedFrom(r) })
}

// renderedIf returns the manifest that was rendered ahead, if reusable returns true for it, or
// renders it now.
func (rs *Releases) renderedIf(ctx context.Context, r helm.Release, reusable func(helm.Manifest) (bool, error)) (helm.Manifest, error) {
	ahead := rs.renderings.remove(r.Name)
	if ahead == nil {
		return rs.render(ctx, r)
	}
	select {
	case <-ctx.Done():
		return helm.Manifest{}, ctx.Err()
	case <-ahead.ended:
	}
	if ahead.ok {
		if same, err := reusable(ahead.manifest); err == nil && same {
			return ahead.manifest, nil
		}
	}
	return rs.render(ctx, r)
}

// render renders a chart and reports the duration.
func (rs *Releases) render(ctx context.Context, r helm.Release) (helm.Manifest, error) {
	defer rs.observer.HelmBegins(r.Name, "template")()
	return rs.helm.Render(ctx, r)
}

// A knownRelease is the record of a release, and the time at which it was read.
type knownRelease struct {
	store.Release
	At time.Time `json:"at"`
}

// addonValues sets the release's values to those of its addon. The chart of an addon has no
// sections: the section of the module is its values, and the global section is not passed to it.
func addonValues(r *helm.Release, addon *modules.Addon, key string) (err error) {
	section, _ := r.Values[key].(map[string]any)
	r.Values, err = addon.HelmValues(section)
	if err != nil {
		return fmt.Errorf("section %s: %w", key, err)
	}
	return nil
}
