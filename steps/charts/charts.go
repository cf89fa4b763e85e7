package charts

import (
	"context"
	"errors"
	"fmt"

	"addon-operator/internal/helm"
	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/desired"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/sections"
	"addon-operator/store"
)

// An Observer is notified of operations on charts, to log and count them. An Observer does not influence the steps.
type Observer interface {
	// HelmBegins reports the start of an operation on a module's chart. The returned function is called at the end of
	// the operation.
	HelmBegins(module, operation string) (ends func())
}

// Charts renders the charts of modules with their current values and files. It can render a manifest before the step
// that needs it begins. This manifest is used only if values and files have not changed after the rendering.
type Charts struct {
	db       *store.DB
	log      *oncelog.Logger
	helm     *helm.Client
	modules  *desired.Modules
	values   *desired.Values
	observer Observer

	renderings renderings
}

// New returns the charts of modules with these values. The argument client renders the charts, and observer is notified
// of each rendering, except those by [Charts.Rendered].
func New(db *store.DB, log *oncelog.Logger, client *helm.Client, modules *desired.Modules, values *desired.Values, observer Observer) *Charts {
	return &Charts{db: db, log: log, helm: client, modules: modules, values: values, observer: observer}
}

// Release returns the release that Helm must install for module. It returns nil if the module has no chart.
func (c *Charts) Release(module string) (*helm.Release, error) {
	return c.releaseUnder(module, nil)
}

// releaseUnder is like Release, but if config is not nil, it uses config instead of the ConfigMap
// content in force.
func (c *Charts) releaseUnder(name string, config *values.Config) (*helm.Release, error) {
	m, ok := c.modules.Disk().Find(name)
	if !ok {
		return nil, fmt.Errorf("module %s is not on disk any more", name)
	}
	if m.Broken != nil {
		return nil, m.Broken
	}
	if m.Chart == module.NoChart {
		if chart, err := module.FindChart(m.Path); err != nil || chart == module.NoChart {
			return nil, err
		}
	}
	r := &helm.Release{Name: name, ChartDir: m.ChartDir(), Addon: m.Addon != nil}
	err := c.db.View(func(tx *store.Tx) error {
		key := sections.Of(name)
		layers, err := c.values.LayersOf(tx, key)
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
			c.modules.WarnOfDefaultPlan(m, r.Values[key])
			return addonValues(r, m.Addon, key)
		}
		r.EnabledModules = append([]string{}, l.Enabled...)
		return nil
	})
	return r, err
}

// Rendered renders the chart of module with its current values, and changes nothing. If the argument loose is true,
// it returns the output of the templates even if the output is not a valid manifest. If the module has no chart, it
// returns an error.
func (c *Charts) Rendered(ctx context.Context, module string, loose bool) (string, error) {
	release, err := c.Release(module)
	if err != nil {
		return "", err
	}
	if release == nil {
		return "", errors.New("the module has no chart")
	}
	if loose {
		return c.helm.Templates(ctx, *release)
	}
	manifest, err := c.helm.Render(ctx, *release)
	return manifest.Text, err
}

// RenderAhead renders the chart of module in the background, while the last beforeHelm hook of the module runs. The
// release check after this hook uses the manifest. If the hook changes the values or the chart, the release check
// renders the chart again.
func (c *Charts) RenderAhead(ctx context.Context, module string) {
	ahead := c.renderings.put(module)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), aheadTimeout)
	go func() {
		defer cancel()
		defer func() {
			_ = recover() // a chart can make Helm panic; the release check renders it again and reports the error
			if !ahead.ok {
				close(ahead.ended)
			}
		}()
		r, err := c.Release(module)
		if err != nil || r == nil {
			return
		}
		if m, err := c.render(ctx, *r); err == nil {
			ahead.end(m)
		}
	}()
}

// SaveRendering saves the manifest of module for the next step of the module's run. The text of the manifest is not
// saved, because it can be long and can contain secrets.
func (c *Charts) SaveRendering(module string, m helm.Manifest) {
	m.Text = ""
	c.renderings.put(module).end(m)
}

// Manifest returns the manifest of a release, with its text. It uses the manifest that was rendered ahead, if values,
// files and the kinds that the API server serves have not changed. Otherwise it renders the chart.
func (c *Charts) Manifest(ctx context.Context, r helm.Release) (helm.Manifest, error) {
	return c.renderedIf(ctx, r, func(m helm.Manifest) (bool, error) { return c.helm.Reusable(ctx, r, m) })
}

// Checked returns the manifest that the release check has saved, without its text. If values or files have changed,
// it renders the chart again. Checked does not ask the API server which kinds it serves, because the release check
// has just asked. Helm does not ask again, either.
func (c *Charts) Checked(ctx context.Context, r helm.Release) (helm.Manifest, error) {
	return c.renderedIf(ctx, r, func(m helm.Manifest) (bool, error) { return m.RenderedFrom(r) })
}

// renderedIf returns the manifest that was rendered ahead, if the function reusable returns true for it. Otherwise it
// renders the chart.
func (c *Charts) renderedIf(ctx context.Context, r helm.Release, reusable func(helm.Manifest) (bool, error)) (helm.Manifest, error) {
	ahead := c.renderings.remove(r.Name)
	if ahead == nil {
		return c.render(ctx, r)
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
	return c.render(ctx, r)
}

// render renders a chart, and reports the start and the end to the observer.
func (c *Charts) render(ctx context.Context, r helm.Release) (helm.Manifest, error) {
	defer c.observer.HelmBegins(r.Name, "template")()
	return c.helm.Render(ctx, r)
}

// addonValues replaces the values of r by the values for the chart of an addon. Such a chart expects no sections: the
// content of the module's section is the top level of its values, and it does not get the global section. The
// argument key is the key of the module's section.
func addonValues(r *helm.Release, addon *module.Addon, key string) (err error) {
	section, _ := r.Values[key].(map[string]any)
	r.Values, err = addon.HelmValues(section)
	if err != nil {
		return fmt.Errorf("section %s: %w", key, err)
	}
	return nil
}
