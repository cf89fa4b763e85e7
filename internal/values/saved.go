package values

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Saved is a stored operation from the values patch of a hook that succeeded. All saved operations of a section are
// applied whenever the values of the section are merged.
type Saved struct {
	Op
	// Hook is the name of the last hook that wrote the operation, as passed to [MergePatches].
	Hook string `json:"hook"`
	Origin
}

// An Origin says when a hook wrote an operation or a flag, and whether the code of the hook has changed since that time.
type Origin struct {
	// At is the time at which the hook first wrote the operation or flag in its current form.
	At time.Time `json:"at,omitzero"`
	// Outdated is true if the code of the hook has changed, and the new code has not written the operation or flag
	// again.
	Outdated bool `json:"outdated,omitempty"`
}

// MergePatches returns the saved operations of a section, with the operations of a hook added. For each path, only
// the last operation is kept. An operation replaces all saved operations at and below its path. There is one exception:
// if a path ends with the index of a list element, an operation "add" does not replace a "remove" of the same path.
// Together, they replace the element. The "add" alone would insert an element before it. Operations "test" are not
// saved.
//
// The result is sorted by path, so that Replay applies an operation on a parent before the operations on its children.
// Of two operations on the same path, the "remove" is first. Elements of a list have no stable names. So if hooks
// append several elements to a list, only the last one is saved. And if the list changes in a lower layer, the index
// in a saved operation can mean another element.
func MergePatches(saved []Saved, ops []Op, hook string) []Saved {
	all := slices.Clone(saved)
	for _, op := range ops {
		if op.Op != opTest {
			all = append(all, Saved{Op: op, Hook: hook})
		}
	}
	merged := make([]Saved, 0, len(all))
	kept := make(map[string]string, len(all)) // by path, the first kept operation after the current one
	for _, s := range slices.Backward(all) {
		if !replaced(s.Op, kept) {
			merged = append(merged, s)
			kept[s.Path] = s.Op.Op
		}
	}
	slices.SortFunc(merged, bySavedPath)
	return merged
}

// replaced reports whether later operations replace op. The argument later has, by path, the first of these operations.
func replaced(op Op, later map[string]string) bool {
	for i, r := range op.Path {
		if r == '/' && i > 0 && later[op.Path[:i]] != "" {
			return true
		}
	}
	next := later[op.Path]
	if op.Op == opRemove && next == opAdd {
		return !isIndex(op.Path)
	}
	return next != ""
}

// isIndex reports whether the last name of path can be an index of a list.
func isIndex(path string) bool {
	_, err := strconv.Atoi(path[strings.LastIndexByte(path, '/')+1:])
	return err == nil
}

// Touching returns the operations in ops whose path is the path of a saved operation, or is above or below such a path.
func Touching(ops []Op, saved []Saved) []Op {
	return slices.DeleteFunc(slices.Clone(ops), func(op Op) bool {
		return !slices.ContainsFunc(saved, func(s Saved) bool {
			return s.Path == op.Path || isBelow(s.Path, op.Path) || isBelow(op.Path, s.Path)
		})
	})
}

// isBelow reports whether path is below the path parent.
func isBelow(path, parent string) bool {
	return len(path) > len(parent) && path[len(parent)] == '/' && strings.HasPrefix(path, parent)
}

// Dated sets the time of each operation in merged, and returns merged. The argument merged is the result of
// MergePatches, and the argument before has the operations that were saved before. Operations that are equal in both
// keep their time; all others get the time in the argument at.
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

// same reports whether s and other are equal operations of the same hook.
func (s Saved) same(other Saved) bool {
	return s.Hook == other.Hook && s.Op.Op == other.Op.Op && s.Path == other.Path && bytes.Equal(s.Value, other.Value)
}

// bySavedPath compares the paths of saved operations. Of the same path, a "remove" is before an "add".
func bySavedPath(a, b Saved) int {
	if order := strings.Compare(a.Path, b.Path); order != 0 {
		return order
	}
	return strings.Compare(b.Op.Op, a.Op.Op)
}

// Skipped is a saved operation that could not be applied, with the reason.
type Skipped struct {
	Saved
	Reason string
}

// Replay applies the saved operations to a copy of base. An operation can fail, because base may have changed after
// the operation was saved. A failed operation is skipped, and returned as Skipped. A failed operation "remove" is not
// returned, because there is nothing to remove.
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

// NoOp returns the paths of the saved "remove" operations that have no effect when all saved operations are applied
// to base in order.
func NoOp(base Values, saved []Saved) (paths []string) {
	replayed := Merge(base)
	for _, s := range saved {
		if err := applyOp(replayed, s.Op); err != nil && s.Op.Op == opRemove {
			paths = append(paths, s.Path)
		}
	}
	return paths
}

// Without returns a copy of saved without the operations "remove" whose path is in paths. paths must be sorted.
func Without(saved []Saved, paths []string) []Saved {
	return slices.DeleteFunc(slices.Clone(saved), func(s Saved) bool {
		_, found := slices.BinarySearch(paths, s.Path)
		return found && s.Op.Op == opRemove
	})
}

// EnabledOverride is the last value that a hook has set for a flag.
type EnabledOverride struct {
	Value bool `json:"value"`
	// Hook is the name of the hook, as passed to MergeEnabledOverrides.
	Hook string `json:"hook"`
	Origin
}

// MergeEnabledOverrides returns a copy of overrides with the changes of a hook. The keys of both maps are flags. want
// has the flags that the hook sets or removes, as in [Patch.Flags]. A hook can also replace or remove overrides of
// other hooks.
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
