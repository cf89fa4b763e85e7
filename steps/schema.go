package steps

import (
	"maps"
	"slices"
	"strings"

	"addon-operator/internal/values"
	"addon-operator/store"
)

// schemasDir is where modules and global hooks have their schemas.
const schemasDir = "openapi"

// A fit is what operations of a hook come to.
type fit struct {
	before, after any // the section's merged values
	saved         []values.Saved
	noOp          []string // paths of what is not saved any more
}

// mostSaved is how many operations of a section are saved before those that remove
// what is not there are not. A hook that adds and removes names without end would
// leave as many; of others they stay, for the time there is something again.
const mostSaved = 1000

// fitting returns what a section comes to once ops are taken in. It fails where
// they cannot be done, or lead to values that the schema does not take.
func fitting(l values.Layers, section string, ops []values.Op, by string) (f fit, err error) {
	f.before, _ = l.Section(section)
	if _, err := values.Apply(values.Values{section: f.before}, ops); err != nil {
		return f, err
	}
	f.saved = values.Fold(l.Saved[section], ops, by)
	l.Saved = map[string][]values.Saved{section: f.saved}
	if len(f.saved) > mostSaved {
		f.noOp = l.NoOp(section)
		f.saved = values.Without(f.saved, f.noOp)
		l.Saved[section] = f.saved
	}
	f.after, _ = l.Section(section)
	return f, l.CheckMerged(section, f.after, f.before)
}

// without returns saved without unfit.
func without(saved, unfit []values.Saved) []values.Saved {
	return slices.DeleteFunc(slices.Clone(saved), func(s values.Saved) bool {
		return slices.ContainsFunc(unfit, func(u values.Saved) bool {
			return s.Path == u.Path && s.Hook == u.Hook && s.Op.Op == u.Op.Op && string(s.Value) == string(u.Value)
		})
	})
}

// drop takes operations that are unfit out of the store.
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

// dropped says for the history which operations were taken away.
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
