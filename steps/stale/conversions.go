package stale

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"addon-operator/internal/hook"
	"addon-operator/steps/bindings"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// Conversions are conversion bindings in the store that their hooks no longer have, and the bindings of other hooks
// that replace them. A conversion can move to another module, whose run may begin much later than the run of the first
// module. So all these bindings are replaced in one transaction, before the first of these runs.
//
// In a start, if no hook converts the objects any more, the stale binding is removed, too. If it stayed, the operator
// would set the conversion of the CustomResourceDefinition again after each change by a person, until the run of the
// module with the stale binding. The API server continues to reject requests until the start has converged, or until a
// person sets the strategy None.
type Conversions struct {
	Stale        []Binding     `json:"stale,omitempty"`
	Replacements []Replacement `json:"replacements,omitempty"`
}

// A Replacement is a conversion binding in the current configuration of a hook.
type Replacement struct {
	Subject graph.Subject          `json:"subject"`
	Hook    store.Hook             `json:"hook"`
	Config  hook.ConversionBinding `json:"config"`
}

// FindConversions returns the stale conversion bindings that hooks of the given modules replace, and the bindings that
// replace them. A binding replaces another one if both are for the same CustomResourceDefinition. The argument complete
// says that no other module can have hooks. If it is true, and the configurations of all these hooks are known,
// FindConversions also returns the stale bindings that no hook replaces.
func (b *Bindings) FindConversions(ctx context.Context, modules []string, complete bool) (found Conversions, err error) {
	stale := map[string][]Binding{} // by the name of the CustomResourceDefinition
	if err := b.find(ctx, func(s Binding, record store.Binding) error {
		var c hook.ConversionBinding
		err := json.Unmarshal(record.Config, &c)
		stale[c.CRDName] = append(stale[c.CRDName], s)
		return err
	}, store.Conversion); err != nil || len(stale) == 0 {
		return found, err
	}
	replaced := map[string]bool{}
	for _, module := range modules {
		all, known := b.conversionsOf(ctx, module)
		complete = complete && known
		for _, r := range all {
			if crd := r.Config.CRDName; len(stale[crd]) > 0 {
				found.Replacements, replaced[crd] = append(found.Replacements, r), true
			}
		}
	}
	for _, crd := range slices.Sorted(maps.Keys(stale)) {
		if complete || replaced[crd] {
			found.Stale = append(found.Stale, stale[crd]...)
		}
	}
	return found, nil
}

// conversionsOf returns the conversion bindings in the current configurations of the hooks of module. It omits hooks
// whose configurations are not known, because the run of the module reports the error. The result known is false if
// there is such a hook.
func (b *Bindings) conversionsOf(ctx context.Context, module string) (all []Replacement, known bool) {
	m, found := b.modules.Disk().Find(module)
	if found && m.Hooks == "" {
		return nil, true
	}
	digest, err := b.modules.CodeOf(module)
	if err != nil {
		return nil, false
	}
	files, _, err := hook.Find(hook.Module, m.Path)
	known = err == nil
	for _, f := range files {
		asked, err := b.hooks.AskOnce(ctx, module, f, digest)
		if err != nil {
			known = false
			continue
		}
		h, err := bindings.DecodeHook(asked)
		if err != nil {
			known = false
			continue
		}
		ids := h.Config.BindingIDs().Conversion
		for i, c := range h.Config.Conversion {
			all = append(all, Replacement{graph.Subject{Module: module, Hook: f.Name, Binding: ids[i]}, asked, c})
		}
	}
	return all, known
}

// Replace deletes the stale bindings of c and attaches the replacements.
func (b *Bindings) Replace(tx *store.Tx, c Conversions) error {
	if err := b.Withdraw(tx, c.Stale); err != nil {
		return err
	}
	for _, r := range c.Replacements {
		if err := r.attach(tx); err != nil {
			return err
		}
	}
	return nil
}

// attach attaches the binding of r, and saves its hook. If the hook is new or its configuration has changed, the saved
// hook has no digest, so that the run of its module treats the hook and its configuration as changed. Until this run
// attaches the other bindings of the hook, the hook gets no events and ticks; see [store.OutdateBindings]. If the state
// of the module is Off or empty, it becomes On, so that step 6 deletes the bindings if the module is disabled. Without
// a release, step 6 is not run for a module that is Off.
func (r Replacement) attach(tx *store.Tx) error {
	key := store.HookKey(r.Subject.Module, r.Subject.Hook)
	h, known, err := store.Load[store.Hook](tx, key)
	if err != nil {
		return err
	}
	if !known || !bytes.Equal(h.Config, r.Hook.Config) {
		h.Digest, h.File, h.Config = "", r.Hook.File, r.Hook.Config
		if err := store.Save(tx, key, h); err != nil {
			return err
		}
		if err := store.OutdateBindings(tx, r.Subject.Module, r.Subject.Hook); err != nil {
			return err
		}
	}
	m, _, err := store.Load[store.Module](tx, store.ModuleKey(r.Subject.Module))
	if err != nil {
		return err
	}
	if m.State == store.Off || m.State == "" {
		m.State, m.RanInStart = store.On, 0
		if err := store.Save(tx, store.ModuleKey(r.Subject.Module), m); err != nil {
			return err
		}
	}
	return bindings.AttachConversion(tx, r.Subject, r.Config)
}
