package values

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"
)

// Saved is an operation kept from the values patch of a hook that succeeded. A
// section's list of them is replayed whenever its values are composed.
type Saved struct {
	Op
	// Hook is the hook that wrote it last, in the caller's own notation.
	Hook string `json:"hook"`
	Origin
}

// An Origin says when a hook wrote something, and by which code.
type Origin struct {
	// At is when the hook wrote it first as it is.
	At time.Time `json:"at,omitzero"`
	// Outdated is set where the hook's code has changed since, and the new code has not written it again.
	Outdated bool `json:"outdated,omitempty"`
}

// Fold returns the list of a section with the operations a hook wrote taken in. Of
// each path only the last operation stays, and an operation takes with it all that
// was saved below its path; tests are not saved. The list is sorted by path: that
// is the order of Replay, so a parent comes before what is added to it. Elements of
// a list have no lasting names: what was appended twice is saved once, and an index
// means another element when the list below changed.
func Fold(saved []Saved, ops []Op, hook string) []Saved {
	folded := make([]Saved, 0, len(saved)+len(ops))
	later := make(map[string]bool, len(ops)) // paths of the operations behind
	for _, op := range slices.Backward(ops) {
		if op.Op == opTest {
			continue
		}
		if !covered(later, op.Path) {
			folded = append(folded, Saved{Op: op, Hook: hook})
		}
		later[op.Path] = true
	}
	for _, s := range saved {
		if !covered(later, s.Path) {
			folded = append(folded, s)
		}
	}
	slices.SortFunc(folded, bySavedPath) // no two have the same path
	return folded
}

// covered reports whether path, or one that it is below, is among paths.
func covered(paths map[string]bool, path string) bool {
	for i, r := range path {
		if r == '/' && i > 0 && paths[path[:i]] {
			return true
		}
	}
	return paths[path]
}

// Dated returns the list that Fold made of before, with the time of what was written at that time. What a hook wrote
// again as it was keeps its time.
func Dated(folded, before []Saved, at time.Time) []Saved {
	for i, s := range folded {
		if old, found := slices.BinarySearchFunc(before, s, bySavedPath); found && before[old].same(s) {
			folded[i].At = before[old].At
			continue
		}
		folded[i].At = at
	}
	return folded
}

// same reports whether both are the same operation of the same hook.
func (s Saved) same(other Saved) bool {
	return s.Hook == other.Hook && s.Op.Op == other.Op.Op && s.Path == other.Path && bytes.Equal(s.Value, other.Value)
}

func bySavedPath(a, b Saved) int { return strings.Compare(a.Path, b.Path) }

// Skipped is a saved operation that could not be done again, and why.
type Skipped struct {
	Saved
	Reason string
}

// Replay returns the base with the saved operations done again. The base may have
// changed since they were saved, so what does not fit any more is left out: a
// remove of what is not there silently, anything else with a Skipped for a warning.
func Replay(base Values, saved []Saved) (Values, []Skipped) {
	var skipped []Skipped
	replayed := Merge(base)
	for _, s := range saved {
		if err := applyOp(replayed, s.Op); err != nil && s.Op.Op != opRemove {
			skipped = append(skipped, Skipped{Saved: s, Reason: err.Error()})
		}
	}
	return replayed, skipped
}

// NoOp returns the paths of saved operations that remove what is not there, done
// again on the base.
func NoOp(base Values, saved []Saved) (paths []string) {
	replayed := Merge(base)
	for _, s := range saved {
		if err := applyOp(replayed, s.Op); err != nil && s.Op.Op == opRemove {
			paths = append(paths, s.Path)
		}
	}
	return paths
}

// Without returns saved without what removes at one of the paths, which are sorted
// as saved is.
func Without(saved []Saved, paths []string) []Saved {
	return slices.DeleteFunc(slices.Clone(saved), func(s Saved) bool {
		_, found := slices.BinarySearch(paths, s.Path)
		return found && s.Op.Op == opRemove
	})
}

// EnabledOverride is what hooks said last of a flag.
type EnabledOverride struct {
	Value bool `json:"value"`
	// Hook is the hook that said it, in the caller's own notation.
	Hook string `json:"hook"`
	Origin
}

// MergeEnabledOverrides returns the overrides by flag after a hook has set or removed some of them.
// The flags of the hook are in the form that Split returns. The last hook wins: it can also remove
// the override of another hook.
func MergeEnabledOverrides(held map[string]EnabledOverride, said map[string]*bool, hook string, at time.Time) map[string]EnabledOverride {
	folded := make(map[string]EnabledOverride, len(held)+len(said))
	maps.Copy(folded, held)
	for flag, value := range said {
		if value == nil {
			delete(folded, flag)
			continue
		}
		now := EnabledOverride{Value: *value, Hook: hook, Origin: Origin{At: at}}
		if old, ok := held[flag]; ok && old.Value == now.Value && old.Hook == hook {
			now.At = old.At
		}
		folded[flag] = now
	}
	return folded
}
