package steps

import (
	"slices"

	"addon-operator/internal/values"
	"addon-operator/store"
)

// Values are the values and enabled flags of modules. A section's values are always merged from the
// same layers in the same order: files of the last scan, the ConfigMap in force, patches of hooks.
// No patch is saved that the schemas reject.
type Values struct {
	db      *store.DB
	log     *logger
	modules *Modules
	applied *appliedConfig
}

// layers returns what the values of the global section and of the sections
// named by keys are made of.
func (v *Values) layers(tx *store.Tx, keys ...string) (values.Layers, error) {
	if err := v.modules.usable(""); err != nil {
		return values.Layers{}, err
	}
	config, err := v.applied.inForce(tx)
	if err != nil {
		return values.Layers{}, err
	}
	l := values.Layers{Static: v.modules.Disk().Static, Config: config, Saved: map[string][]values.Saved{}, Schemas: v.modules.loaded()}
	for _, key := range append(slices.Clone(keys), values.Global) {
		saved, ok, err := store.Load[[]values.Saved](tx, store.SavedKey(key))
		if err != nil {
			return l, err
		}
		if ok {
			l.Saved[key] = saved
		}
	}
	return l, nil
}

// enabledOverrides returns what hooks hold of enabled flags.
func enabledOverrides(tx *store.Tx) (map[string]values.EnabledOverride, error) {
	o, _, err := store.Load[map[string]values.EnabledOverride](tx, store.EnabledOverridesKey())
	return o, err
}
