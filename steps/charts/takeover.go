package charts

import (
	"context"
	"slices"
	"strings"

	"addon-operator/internal/helm"
	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/store"
)

// A Takeover has the objects of the modules that a change of the ConfigMap enables. The same change can disable a
// module whose release contains one of these objects. The object must not be deleted, because the enabled module
// takes it over.
type Takeover struct {
	objects []store.Object // objects of the charts, rendered with the values after the change
	// hooks is true if one of the enabled modules has hooks. Hooks can change values before the chart is rendered
	// again, so the chart may then have other objects.
	hooks bool
	// unknown is true if one of the charts cannot be rendered.
	unknown bool
}

// TakeoverOf renders the charts of modules that config enables, and returns the objects of these charts. The argument
// on has these modules.
func (c *Charts) TakeoverOf(ctx context.Context, on []module.Module, config values.Config) (t Takeover) {
	for _, m := range on {
		t.hooks = t.hooks || m.Hooks != ""
		r, err := c.releaseUnder(m.Name, &config)
		if err == nil && r == nil {
			continue // the module has no chart
		}
		var manifest helm.Manifest
		if err == nil {
			r.EnabledModules = append(r.EnabledModules, m.Name)
			manifest, err = c.render(ctx, *r)
		}
		if err != nil {
			t.unknown = true
			c.log.Debug().Err(err).Str("module", m.Name).Msg("chart cannot be rendered; disabled modules are not deleted at once, but by the next reload")
			continue
		}
		for _, o := range manifest.Objects {
			t.objects = append(t.objects, store.Object(o))
		}
	}
	return t
}

// Of reports whether one of the enabled modules may take over an object of the release. In case of doubt, it returns
// true. If the record of the release lists no objects, the objects are not known, for example because the module is in
// maintenance.
func (t Takeover) Of(release *store.Release) bool {
	if t.unknown {
		return true
	}
	if len(release.Objects) == 0 {
		return t.hooks || len(t.objects) > 0
	}
	for _, o := range release.Objects {
		if slices.ContainsFunc(t.objects, o.Is) || t.hooks && keepsData(o) {
			return true
		}
	}
	return false
}

// keepsData reports whether the object may contain data that a chart cannot restore. For kinds that are not built
// into Kubernetes, it returns true, unless their API group has one label before .k8s.io, as in autoscaling.k8s.io.
func keepsData(o store.Object) bool {
	group, _, named := strings.Cut(o.APIVersion, "/")
	if !named {
		switch o.Kind {
		case "Namespace", "PersistentVolume", "PersistentVolumeClaim", "Secret":
			return true
		}
		return false
	}
	switch {
	case group == "apiextensions.k8s.io":
		return true
	case group == "rbac.authorization.k8s.io", strings.HasSuffix(group, ".apiserver.k8s.io"):
		return false
	case strings.HasSuffix(group, ".k8s.io"):
		return strings.Count(group, ".") > 2 // as in snapshot.storage.k8s.io
	}
	return strings.Contains(group, ".")
}
