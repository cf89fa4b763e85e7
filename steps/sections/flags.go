package sections

import (
	"maps"

	"addon-operator/internal/values"
	"addon-operator/store"
)

// Overrides returns the enabled overrides of hooks, by flag.
func Overrides(tx *store.Tx) (map[string]values.EnabledOverride, error) {
	o, _, err := store.Load[map[string]values.EnabledOverride](tx, store.EnabledOverridesKey())
	return o, err
}

// Flags merges the enabled overrides of hooks and the enabled flags in config, which is the content of the ConfigMap.
// The ConfigMap has precedence.
func Flags(overrides map[string]values.EnabledOverride, config values.Config) map[string]bool {
	all := make(map[string]bool, len(overrides)+len(config.Flags))
	for flag, o := range overrides {
		all[flag] = o.Value
	}
	maps.Copy(all, config.Flags)
	return all
}
