package steps

import (
	"addon-operator/internal/values"
	"addon-operator/steps/desired"
	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// hookOutputs writes the output of hooks to the store.
type hookOutputs struct {
	values *desired.Values
	config *desired.ConfigMap
}

// save writes the output of the hook by to the store. It returns a fact for changed values, configs
// or flags of the module, and one for changed global ones.
func (k *hookOutputs) save(tx *store.Tx, out hookOutput, by string) ([]graph.Fact, error) {
	own, err := k.saveOwn(tx, out, by)
	if err != nil {
		return nil, err
	}
	switch {
	case out.Section == values.Global && own:
		return []graph.Fact{lifecycle.GlobalChanged}, nil
	case out.Section == values.Global:
		return nil, nil
	}
	var facts []graph.Fact
	if own {
		facts = append(facts, lifecycle.ModuleChanged)
	}
	if out.Global != nil {
		changed, err := k.values.SavePatch(tx, values.Global, *out.Global, by)
		if err != nil {
			return nil, err
		}
		if changed {
			facts = append(facts, lifecycle.GlobalChanged)
		}
	}
	return facts, nil
}

// saveOwn writes the output for the hook's own section. It reports whether the values or the config
// of the section have changed or, for the global section, any flag.
func (k *hookOutputs) saveOwn(tx *store.Tx, out hookOutput, by string) (changed bool, err error) {
	if len(out.Values) > 0 {
		if changed, err = k.values.SavePatch(tx, out.Section, out.Patch, by); err != nil {
			return false, err
		}
	}
	if len(out.Flags) > 0 {
		other, err := k.values.SaveFlags(tx, out.Flags, by)
		if err != nil {
			return false, err
		}
		changed = changed || other
	}
	if out.Config != nil {
		other, err := k.config.SaveWritten(tx, *out.Config)
		if err != nil {
			return false, err
		}
		changed = changed || other
	}
	return changed, nil
}
