package sections

import (
	"slices"

	"addon-operator/internal/values"
)

// Current returns the operations in saved, without the outdated operations of a hook. The argument by is the name of
// this hook.
func Current(saved []values.Saved, by string) []values.Saved {
	return slices.DeleteFunc(slices.Clone(saved), func(s values.Saved) bool { return s.Outdated && s.Hook == by })
}

// AsSeenBy returns l without the outdated operations of a hook, which this hook must not see. The argument by is the
// name of this hook.
func AsSeenBy(l values.Layers, by string) values.Layers {
	all := l.Saved
	l.Saved = make(map[string][]values.Saved, len(all))
	for section, saved := range all {
		l.Saved[section] = Current(saved, by)
	}
	return l
}
