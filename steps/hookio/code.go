package hookio

import (
	"crypto/sha256"
	"encoding/hex"

	"addon-operator/internal/values"
	"addon-operator/steps/bindings"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A Code identifies the code and the configuration of a hook, as the store has recorded them.
type Code struct {
	// Hooks is the field Code of [store.Hook].
	Hooks string `json:"hooks,omitempty"`
	// Config is a checksum of the configuration.
	Config string `json:"config"`
}

// recordedCode returns the recorded code of the hook s, or the zero value if the hook has no record.
func recordedCode(tx *store.Tx, s graph.Subject) (Code, error) {
	h, ok, err := store.Load[store.Hook](tx, store.HookKey(s.Module, s.Hook))
	if err != nil || !ok {
		return Code{}, err
	}
	sum := sha256.Sum256(h.Config)
	return Code{Hooks: h.Code, Config: hex.EncodeToString(sum[:16])}, nil
}

// isEarlier reports whether c is earlier code than the argument now. A record that an earlier version of the operator
// wrote has no code; it is treated as if it had the same code.
func (c Code) isEarlier(now Code) bool {
	return c.Config != now.Config || c.Hooks != "" && c.Hooks != now.Hooks
}

// outdate marks the saved patches and flags in out as outdated, because the code of the hook s has changed since the
// run. It also records that the new code must run again for all of its start bindings, because the patches and flags
// in out may have replaced patches and flags of the new code. If the hook has no start bindings, outdate does nothing.
func (out Output) outdate(tx *store.Tx, s graph.Subject) error {
	key := store.HookKey(s.Module, s.Hook)
	record, _, err := store.Load[store.Hook](tx, key)
	if err != nil {
		return err
	}
	h, err := bindings.DecodeHook(record)
	if err != nil {
		return err
	}
	if record.Awaits = h.Config.StartBindings(); len(record.Awaits) == 0 {
		return nil
	}
	by := sections.Author(s.Module, s.Hook)
	if err := outdatePatch(tx, out.Section, out.Values, by); err != nil {
		return err
	}
	if out.Global != nil {
		if err := outdatePatch(tx, values.Global, out.Global.Values, by); err != nil {
			return err
		}
	}
	if err := sections.OutdateOverrides(tx, func(flag string, o values.EnabledOverride) bool {
		_, written := out.Flags[flag]
		return written && o.Hook == by
	}); err != nil {
		return err
	}
	return store.Save(tx, key, record)
}

// outdatePatch marks the saved operations of a section that are in ops as outdated. The argument by is the name of the
// hook that has written them.
func outdatePatch(tx *store.Tx, section string, ops []values.Op, by string) error {
	type operation struct{ op, path string }
	written := map[operation]bool{}
	for _, o := range ops {
		written[operation{o.Op, o.Path}] = true
	}
	return sections.OutdatePatches(tx, section, func(s values.Saved) bool { return s.Hook == by && written[operation{s.Op.Op, s.Path}] })
}
