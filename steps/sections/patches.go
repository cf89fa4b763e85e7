package sections

import (
	"maps"
	"slices"

	"addon-operator/internal/values"
	"addon-operator/store"
)

// DropPatches deletes the saved operations of a section for which the function gone returns true.
func DropPatches(tx *store.Tx, section string, gone func(values.Saved) bool) error {
	key := store.SavedKey(section)
	saved, _, err := store.Load[[]values.Saved](tx, key)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(saved), gone)
	if len(left) == len(saved) {
		return nil
	}
	return store.Save(tx, key, left)
}

// Forget deletes the patches and the overrides of a hook.
func Forget(tx *store.Tx, module, name string) error {
	by := Author(module, name)
	for _, section := range slices.Compact([]string{Of(module), values.Global}) {
		if err := DropPatches(tx, section, func(s values.Saved) bool { return s.Hook == by }); err != nil {
			return err
		}
	}
	overrides, err := Overrides(tx)
	if err != nil {
		return err
	}
	before := len(overrides)
	maps.DeleteFunc(overrides, func(_ string, o values.EnabledOverride) bool { return o.Hook == by })
	if len(overrides) < before {
		return store.Save(tx, store.EnabledOverridesKey(), overrides)
	}
	return nil
}

// OutdatePatches marks patches in a section as outdated: those for which the function earlier returns true.
func OutdatePatches(tx *store.Tx, section string, earlier func(values.Saved) bool) error {
	saved, _, err := store.Load[[]values.Saved](tx, store.SavedKey(section))
	if err != nil {
		return err
	}
	marked := false
	for i, s := range saved {
		if earlier(s) {
			saved[i].Outdated, marked = true, true
		}
	}
	if !marked {
		return nil
	}
	return store.Save(tx, store.SavedKey(section), saved)
}

// OutdateOverrides marks enabled overrides as outdated: those for which the function earlier returns true.
func OutdateOverrides(tx *store.Tx, earlier func(flag string, o values.EnabledOverride) bool) error {
	overrides, err := Overrides(tx)
	if err != nil {
		return err
	}
	marked := false
	for flag, o := range overrides {
		if earlier(flag, o) {
			o.Outdated, marked = true, true
			overrides[flag] = o
		}
	}
	if !marked {
		return nil
	}
	return store.Save(tx, store.EnabledOverridesKey(), overrides)
}
