package sections

import "addon-operator/internal/values"

// A Patch is a checked values patch of a hook for one section.
type Patch struct {
	Values []values.Op `json:"values,omitempty"`
	// Base is a checksum of the layers on which the operations were tried. Changed is true if the operations changed
	// the merged values. NoOp lists the paths of operations "remove" that have no effect and are not saved.
	Base    string   `json:"base,omitempty"`
	Changed bool     `json:"changed,omitempty"`
	NoOp    []string `json:"vain,omitempty"`

	// Before and After are the merged values of the section before and after the operations.
	Before any `json:"-"`
	After  any `json:"-"`
}

// NewPatch tries the operations ops on a section of layers, and returns the patch if they are valid. The argument
// base is the checksum of the layers of the section.
//
// If the operations change nothing, the patch has only those that touch saved operations, as in flant/addon-operator. A
// hook can repeat a value of the ConfigMap. If this operation were saved, a later change of the ConfigMap would have no
// effect. But if these operations alone change the values, for example because one of them replaces a map and another
// operation restores a key of this map, the patch has all operations.
func NewPatch(layers values.Layers, base, section string, ops []values.Op) (Patch, error) {
	f, err := Try(layers, section, ops, "")
	if err != nil {
		return Patch{}, err
	}
	changed, err := values.Changed(f.Before, f.After)
	if err != nil {
		return Patch{}, err
	}
	if touching := values.Touching(ops, layers.Saved[section]); !changed && len(touching) < len(ops) {
		alone, err := Try(layers, section, touching, "")
		if differs, failed := values.Changed(f.After, alone.After); err == nil && failed == nil && !differs {
			f, ops = alone, touching
		}
	}
	return Patch{Values: ops, Base: base, Changed: changed, NoOp: f.noOp, Before: f.Before, After: f.After}, nil
}
