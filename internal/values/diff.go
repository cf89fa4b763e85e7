package values

import (
	"cmp"
	"slices"
)

// A Change describes a changed value of a section. A value is a scalar, a list or an empty map.
type Change struct {
	// Path is the JSON pointer of the value. The path begins with the key of the section.
	Path string
	// Old and New are the values before and after the change. Added is true if there was no old value. Removed is
	// true if there is no new value.
	Old, New       any
	Added, Removed bool
}

// Diff returns the changes between two states of the section with this key, before and after. The changes are sorted
// by path.
func Diff(key string, before, after any) (changes []Change, err error) {
	path := "/" + escape.Replace(key)
	old, now := leaves(path, orEmpty(before)), leaves(path, orEmpty(after))
	for path, value := range now {
		was, had := old[path]
		changed, err := Changed(was, value)
		if err != nil {
			return nil, err
		}
		if !had || changed {
			changes = append(changes, Change{Path: path, Old: was, New: value, Added: !had})
		}
	}
	for path, was := range old {
		if _, has := now[path]; !has {
			changes = append(changes, Change{Path: path, Old: was, Removed: true})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	return changes, nil
}
