package values

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"
)

// Saved is a stored operation of the values patch of a successful hook. The list of a section is
// replayed whenever its values are composed.
type Saved struct {
	Op
	// Hook is the name of the last hook that wrote it, as passed by the caller.
	Hook string `json:"hook"`
	Origin
}

// An Origin is the time of a write by a hook, and whether the hook's code has changed since.
type Origin struct {
	// At is when the hook first wrote it in its current form.
	At time.Time `json:"at,omitzero"`
	// Outdated is true if the hook's code has changed and the new code has not written it again.
	Outdated bool `json:"outdated,omitempty"`
}

// MergePatches returns the list of a section after adding the operations of a hook. Of each path only the
// last operation is kept, and an operation replaces all saved operations below its path. Tests are
// not saved. The list is sorted by path, which is the order of Replay, so that a parent precedes
// its children. Elements of a list have no stable names: an element that was appended twice is
// saved once, and an index means another element when the list below has changed.
func MergePatches(saved []Saved, ops []Op, hook string) []Saved {
	merged := make([]Saved, 0, len(saved)+len(ops))
	later := make(map[string]bool, len(ops)) // paths of later operations
	for _, op := range slices.Backward(ops) {
		if op.Op == opTest {
			continue
		}
		if !covered(later, op.Path) {
			merged = append(merged, Saved{Op: op, Hook: hook})
		}
		later[op.Path] = true
	}
	for _, s := range saved {
		if !covered(later, s.Path) {
			merged = append(merged, s)
		}
	}
	slices.SortFunc(merged, bySavedPath) // no two have the same path
	return merged
}

// covered reports whether path or one of its parents is in paths.
func covered(paths map[string]bool, path string) bool {
	for i, r := range path {
		if r == '/' && i > 0 && paths[path[:i]] {
			return true
		}
	}
	return paths[path]
}

// Dated sets the time of the operations in merged, the result of MergePatches for before. Operations that
// did not change keep their time.
func Dated(merged, before []Saved, at time.Time) []Saved {
	for i, s := range merged {
		if old, found := slices.BinarySearchFunc(before, s, bySavedPath); found && before[old].same(s) {
			merged[i].At = before[old].At
			continue
		}
		merged[i].At = at
	}
	return merged
}

// same reports whether both are the same operation of the same hook.
func (s Saved) same(other Saved) bool {
	return s.Hook == other.Hook && s.Op.Op == other.Op.Op && s.Path == other.Path && bytes.Equal(s.Value, other.Value)
}

func bySavedPath(a, b Saved) int { return strings.Compare(a.Path, b.Path) }

// Skipped is a saved operation that could not be replayed, with the reason.
type Skipped struct {
	Saved
	Reason string
}

// Replay applies the saved operations to a copy of base. The base may have changed since they were
// saved, so an operation that fails is skipped: silently for a remove, and with a Skipped
// otherwise.
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

// NoOp returns the paths of saved remove operations that have no effect when replayed on base.
func NoOp(base Values, saved []Saved) (paths []string) {
	replayed := Merge(base)
	for _, s := range saved {
		if err := applyOp(replayed, s.Op); err != nil && s.Op.Op == opRemove {
			paths = append(paths, s.Path)
		}
	}
	return paths
}

// Without returns saved without the remove operations at the paths, which must be sorted.
func Without(saved []Saved, paths []string) []Saved {
	return slices.DeleteFunc(slices.Clone(saved), func(s Saved) bool {
		_, found := slices.BinarySearch(paths, s.Path)
		return found && s.Op.Op == opRemove
	})
}

// EnabledOverride is the last value that a hook set for a flag.
type EnabledOverride struct {
	Value bool `json:"value"`
	// Hook is the name of that hook, as passed to MergeEnabledOverrides.
	Hook string `json:"hook"`
	Origin
}

// MergeEnabledOverrides returns the overrides after a hook has set or removed some of them, by
// flag. The flags of the hook are in the form that Split returns. The last hook wins: it can also
// remove the override of another hook.
func MergeEnabledOverrides(overrides map[string]EnabledOverride, want map[string]*bool, hook string, at time.Time) map[string]EnabledOverride {
	merged := make(map[string]EnabledOverride, len(overrides)+len(want))
	maps.Copy(merged, overrides)
	for flag, value := range want {
		if value == nil {
			delete(merged, flag)
			continue
		}
		now := EnabledOverride{Value: *value, Hook: hook, Origin: Origin{At: at}}
		if old, ok := overrides[flag]; ok && old.Value == now.Value && old.Hook == hook {
			now.At = old.At
		}
		merged[flag] = now
	}
	return merged
}
