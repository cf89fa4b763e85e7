package webhook

import (
	"slices"

	"addon-operator/internal/hook"
)

// link is one conversion step, from one version to another, that a binding declares.
type link struct {
	Asked
	hook.Conversion
	from, to string // GROUP/VERSION
}

// links returns the conversion steps of the bindings, in the order of the bindings.
func links(conversions []Conversion) []link {
	var all []link
	for _, c := range conversions {
		for _, step := range c.Config.Conversions {
			all = append(all, link{c.Asked, step, c.Config.FullVersion(step.FromVersion), c.Config.FullVersion(step.ToVersion)})
		}
	}
	return all
}

// chain returns the shortest chain of links that converts objects from one version, the argument
// from, to another version, the argument to. If several chains are equally short, chain prefers the
// links that come first in the argument all. The result is nil if there is no chain, or if the
// versions are the same.
func chain(all []link, from, to string) []link {
	reached := map[string][]link{from: nil}
	for next := []string{from}; len(next) > 0; {
		version := next[0]
		next = next[1:]
		if version == to {
			return reached[version]
		}
		for _, l := range all {
			if _, known := reached[l.to]; known || l.from != version {
				continue
			}
			reached[l.to] = append(slices.Clone(reached[version]), l)
			next = append(next, l.to)
		}
	}
	return nil
}
