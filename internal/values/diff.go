package values

import (
	"cmp"
	"slices"
)

// A Change is a changed value at a path. A value is a scalar, a list or an empty map.
type Change struct {
	// Path is the JSON pointer of the value. It begins with the key of the section.
	Path string
	// Old and New are the values. Removed is set if there is no new value. Added is set if there was no old value.
	Old, New       any
	Added, Removed bool
}

// Diff returns the changes from one state of the section with this key to another, by path.
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
