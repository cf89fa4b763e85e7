package sections

import (
	"maps"
	"slices"

	"addon-operator/internal/values"
	"addon-operator/store"
)

// DropPatches deletes saved operations of a section. It calls the argument gone to find out which ones.
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

// OutdatePatches marks the patches in a section as outdated if their authors are keys of the argument awaits. It adds
// the authors of the marked patches to the argument left.
func OutdatePatches(tx *store.Tx, section string, awaits map[string][]string, left map[string]bool) error {
	saved, _, err := store.Load[[]values.Saved](tx, store.SavedKey(section))
	if err != nil {
		return err
	}
	marked := false
	for i, s := range saved {
		if awaits[s.Hook] != nil {
			saved[i].Outdated, left[s.Hook], marked = true, true, true
		}
	}
	if !marked {
		return nil
	}
	return store.Save(tx, store.SavedKey(section), saved)
}

// OutdateOverrides marks the enabled overrides as outdated if their authors are keys of the argument awaits. It adds
// the authors of the marked overrides to the argument left.
func OutdateOverrides(tx *store.Tx, awaits map[string][]string, left map[string]bool) error {
	overrides, err := Overrides(tx)
	if err != nil {
		return err
	}
	marked := false
	for flag, o := range overrides {
		if awaits[o.Hook] != nil {
			o.Outdated, left[o.Hook], marked = true, true, true
			overrides[flag] = o
		}
	}
	if !marked {
		return nil
	}
	return store.Save(tx, store.EnabledOverridesKey(), overrides)
}
