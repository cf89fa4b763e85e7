package steps

import (
	"maps"
	"slices"
	"strings"

	"addon-operator/internal/values"
	"addon-operator/store"
)

// schemasDir is the directory of the schemas of a module or of global hooks.
const schemasDir = "openapi"

// A fit is the result of a hook's operations.
type fit struct {
	before, after any // the section's merged values
	saved         []values.Saved
	noOp          []string // paths of the operations that are no longer saved
}

// mostSaved is the number of saved operations of a section above which no-op removals are not
// saved. Otherwise a hook that adds and removes new names again and again would leave one for each
// name. Below the limit they are saved, because the removed path may exist again later.
const mostSaved = 1000

// fitting returns the state of a section after ops. It fails if they cannot be applied, or if the
// schema does not accept the resulting values.
func fitting(l values.Layers, section string, ops []values.Op, by string) (f fit, err error) {
	f.before, _ = l.Section(section)
	if _, err := values.Apply(values.Values{section: f.before}, ops); err != nil {
		return f, err
	}
	f.saved = values.MergePatches(l.Saved[section], ops, by)
	l.Saved = map[string][]values.Saved{section: f.saved}
	if len(f.saved) > mostSaved {
		f.noOp = l.NoOp(section)
		f.saved = values.Without(f.saved, f.noOp)
		l.Saved[section] = f.saved
	}
	f.after, _ = l.Section(section)
	return f, l.CheckMerged(section, f.after, f.before)
}

// without returns saved without the operations in unfit.
func without(saved, unfit []values.Saved) []values.Saved {
	return slices.DeleteFunc(slices.Clone(saved), func(s values.Saved) bool {
		return slices.ContainsFunc(unfit, func(u values.Saved) bool {
			return s.Path == u.Path && s.Hook == u.Hook && s.Op.Op == u.Op.Op && string(s.Value) == string(u.Value)
		})
	})
}

// drop removes the operations in unfit from the store.
func drop(tx *store.Tx, unfit map[string][]values.Saved) error {
	for _, section := range slices.Sorted(maps.Keys(unfit)) {
		saved, _, err := store.Load[[]values.Saved](tx, store.SavedKey(section))
		if err != nil {
			return err
		}
		if err := store.Save(tx, store.SavedKey(section), without(saved, unfit[section])); err != nil {
			return err
		}
	}
	return nil
}

// dropped returns a text for the history that names the dropped operations.
func dropped(unfit map[string][]values.Saved) string {
	var paths []string
	for _, section := range slices.Sorted(maps.Keys(unfit)) {
		for _, s := range unfit[section] {
			paths = append(paths, s.Path)
		}
	}
	if len(paths) == 0 {
		return ""
	}
	return ", saved values dropped that schemas do not take any more: " + strings.Join(paths, ", ")
}
