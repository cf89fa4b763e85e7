package sections

import "addon-operator/internal/values"

// A Trial describes the result that the operations of a hook on a section would have.
type Trial struct {
	Before, After any // merged values of the section, before and after the operations
	Saved         []values.Saved
	noOp          []string // paths of operations "remove" without effect, which are not saved
}

// If a section has more than mostSaved saved operations, operations "remove" without effect are not saved. Without this
// limit, a hook that adds and removes new names again and again would leave one saved operation for each name. Below
// the limit, operations without effect are saved, because the removed path may exist again later.
const mostSaved = 1000

// Try returns the result that the operations ops would have on a section, without saving it. The argument by is the
// name of the hook that wrote the operations. Try returns an error if an operation cannot be applied, or if the
// schema rejects the resulting values.
func Try(l values.Layers, section string, ops []values.Op, by string) (f Trial, err error) {
	f.Before, _ = l.Section(section)
	if _, err := values.Apply(values.Values{section: f.Before}, ops); err != nil {
		return f, err
	}
	f.Saved = values.MergePatches(l.Saved[section], ops, by)
	l.Saved = map[string][]values.Saved{section: f.Saved}
	if len(f.Saved) > mostSaved {
		f.noOp = l.NoOp(section)
		f.Saved = values.Without(f.Saved, f.noOp)
		l.Saved[section] = f.Saved
	}
	f.After, _ = l.Section(section)
	return f, l.CheckMerged(section, f.After, f.Before)
}
