package steps

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"time"

	"addon-operator/internal/values"
	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// hookOutputs write the output of hooks to the store.
type hookOutputs struct {
	values *Values
	config *ConfigMap
}

// keep writes the output of the hook by to the store. It returns which values, configs or
// flags it changed: those of the module, the global ones, or both.
func (k *hookOutputs) keep(tx *store.Tx, out hookOutput, by string) ([]graph.Fact, error) {
	own, err := k.keepOwn(tx, out, by)
	if err != nil {
		return nil, err
	}
	switch {
	case out.Section == values.Global && own:
		return []graph.Fact{lifecycle.GlobalChanged}, nil
	case out.Section == values.Global:
		return nil, nil
	}
	var facts []graph.Fact
	if own {
		facts = append(facts, lifecycle.ModuleChanged)
	}
	if out.Global != nil {
		changed, err := k.values.keepValues(tx, values.Global, *out.Global, by)
		if err != nil {
			return nil, err
		}
		if changed {
			facts = append(facts, lifecycle.GlobalChanged)
		}
	}
	return facts, nil
}

// keepOwn writes what concerns the hook's own section, and reports whether the section's
// values or config, or for the global section any flag, are others now.
func (k *hookOutputs) keepOwn(tx *store.Tx, out hookOutput, by string) (changed bool, err error) {
	if len(out.Values) > 0 {
		if changed, err = k.values.keepValues(tx, out.Section, out.valuesPatch, by); err != nil {
			return false, err
		}
	}
	if len(out.Flags) > 0 {
		other, err := k.values.keepFlags(tx, out.Flags, by)
		if err != nil {
			return false, err
		}
		changed = changed || other
	}
	if out.Config != nil {
		other, err := k.config.keepConfig(tx, *out.Config)
		if err != nil {
			return false, err
		}
		changed = changed || other
	}
	return changed, nil
}

// keepValues saves the patch of a section, and reports whether the section's merged values
// are others now. A patch that was tried on the same values is not merged and checked once
// more: nothing else is committed meanwhile.
func (v *Values) keepValues(tx *store.Tx, section string, patch valuesPatch, by string) (changed bool, err error) {
	key := store.SavedKey(section)
	base, err := v.base(tx, section)
	if err != nil {
		return false, err
	}
	if base == patch.Base {
		saved, _, err := store.Load[[]values.Saved](tx, key)
		if err != nil {
			return false, err
		}
		folded := values.Dated(values.Fold(saved, patch.Values, by), saved, tx.Now().Truncate(time.Second))
		return patch.Changed, store.Save(tx, key, values.Without(folded, patch.NoOp))
	}
	layers, err := v.layers(tx, section)
	if err != nil {
		return false, err
	}
	before := layers.Saved[section]
	f, err := fitting(layers, section, patch.Values, by)
	if err != nil {
		return false, fmt.Errorf("$VALUES_JSON_PATCH_PATH, on values changed meanwhile: %w", err)
	}
	if changed, err = values.Changed(f.before, f.after); err != nil {
		return false, err
	}
	return changed, store.Save(tx, key, values.Dated(f.saved, before, tx.Now().Truncate(time.Second)))
}

// keepFlags takes in what a hook said of flags, and reports whether any is another
// now.
func (v *Values) keepFlags(tx *store.Tx, said map[string]*bool, by string) (changed bool, err error) {
	held, err := enabledOverrides(tx)
	if err != nil {
		return false, err
	}
	config, err := v.applied.inForce(tx)
	if err != nil {
		return false, err
	}
	folded := values.MergeEnabledOverrides(held, said, by, tx.Now().Truncate(time.Second))
	return !maps.Equal(flags(held, config), flags(folded, config)), store.Save(tx, store.EnabledOverridesKey(), folded)
}

// flags returns the enabled flags that overrides and the ConfigMap set.
func flags(held map[string]values.EnabledOverride, config values.Config) map[string]bool {
	all := make(map[string]bool, len(held)+len(config.Flags))
	for flag, o := range held {
		all[flag] = o.Value
	}
	maps.Copy(all, config.Flags)
	return all
}

// base returns a text that is another, in this life, when what the values of a
// section are made of is.
func (v *Values) base(tx *store.Tx, section string) (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, tx.Epoch(), v.modules.scanCount(), section) // a hash takes what it is given
	for _, k := range []store.Key{store.SavedKey(section), store.AppliedConfigKey()} {
		text := tx.Get(k)
		_, _ = fmt.Fprintln(sum, len(text))
		_, _ = sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), v.modules.usable("")
}

// fingerprint returns a text that is another when the section's values or
// config, or for the global section any flag, are others.
func (v *Values) fingerprint(tx *store.Tx, section string) (string, error) {
	l, err := v.layers(tx, section)
	if err != nil {
		return "", err
	}
	merged, _ := l.Section(section)
	config, _ := l.Config.Section(section)
	parts := []any{merged, config}
	if section == values.Global {
		held, err := enabledOverrides(tx)
		if err != nil {
			return "", err
		}
		parts = append(parts, flags(held, l.Config))
	}
	return values.Checksum(parts)
}
