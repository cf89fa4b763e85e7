package sections

import (
	"maps"
	"slices"
	"strings"

	"addon-operator/internal/values"
	"addon-operator/store"
)

// Unfit has the saved operations that the schemas no longer accept, by section.
type Unfit map[string][]values.Saved

// TakeUnfit removes from l the saved operations that the schemas no longer accept. It returns the
// removed operations by section.
func TakeUnfit(l values.Layers) Unfit {
	all := Unfit{}
	for section, saved := range l.Saved {
		unfit := l.Unfit(section)
		if len(unfit) == 0 {
			continue
		}
		all[section] = unfit
		l.Saved[section] = without(saved, unfit)
	}
	return all
}

// without returns the operations in saved that are not in unfit.
func without(saved, unfit []values.Saved) []values.Saved {
	return slices.DeleteFunc(slices.Clone(saved), func(s values.Saved) bool {
		return slices.ContainsFunc(unfit, func(u values.Saved) bool {
			return s.Path == u.Path && s.Hook == u.Hook && s.Op.Op == u.Op.Op && string(s.Value) == string(u.Value)
		})
	})
}

// Drop removes the operations in unfit from the store.
func (unfit Unfit) Drop(tx *store.Tx) error {
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

// Note returns a text for the history with the paths of the dropped operations, or "" if there are
// none.
func (unfit Unfit) Note() string {
	var paths []string
	for _, section := range slices.Sorted(maps.Keys(unfit)) {
		for _, s := range unfit[section] {
			paths = append(paths, s.Path)
		}
	}
	if len(paths) == 0 {
		return ""
	}
	return ", saved values dropped that the schemas no longer accept: " + strings.Join(slices.Compact(paths), ", ")
}
