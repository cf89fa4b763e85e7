package sections

import (
	"slices"

	"addon-operator/internal/values"
)

// Current returns the operations in saved, except those of earlier code of the hook by.
func Current(saved []values.Saved, by string) []values.Saved {
	return slices.DeleteFunc(slices.Clone(saved), func(s values.Saved) bool { return s.Outdated && s.Hook == by })
}

// AsSeenBy returns the layers as the hook by receives them, without the values of its earlier code.
func AsSeenBy(l values.Layers, by string) values.Layers {
	all := l.Saved
	l.Saved = make(map[string][]values.Saved, len(all))
	for section, saved := range all {
		l.Saved[section] = Current(saved, by)
	}
	return l
}
