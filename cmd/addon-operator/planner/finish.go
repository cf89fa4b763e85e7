package planner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"addon-operator/internal/values"
	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

// finish completes the plan.
func (p *planner) finish() (*inspect.Plan, error) {
	var after map[string]store.Module
	if err := p.db.View(func(tx *store.Tx) (err error) {
		if after, err = modulesIn(tx); err != nil {
			return err
		}
		for problem, err := range store.EachProblem(tx) {
			if err != nil {
				return err
			}
			if problem.Kind == store.BlockedDeletion {
				p.plan.Problems = append(p.plan.Problems, problem.Error+"; "+problem.Fix)
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(after)) { // the modules that do not run come last, sorted by name
		record := after[name]
		if p.skips("", subjectOf(name)) {
			continue
		}
		m := p.module(name)
		if m.Why == "" {
			m.Why = record.Why
		}
		// A module that cannot be loaded, or whose CRDs cannot be installed, does not run.
		m.Error = cmp.Or(m.Error, record.Broken, record.Undefined)
	}
	if err := p.valuesInForce(after); err != nil {
		return nil, err
	}
	if err := p.known(after); err != nil {
		return nil, err
	}
	for _, name := range p.order {
		p.plan.Modules = append(p.plan.Modules, *p.modules[name])
	}
	p.plan.Basis = p.Basis
	p.limits()
	p.plan.Count()
	return &p.plan, nil
}

// known returns an error if a module in p.Modules does not exist and has no release.
func (p *planner) known(after map[string]store.Module) error {
	for _, name := range p.Modules {
		if _, is := after[name]; !is && !p.released[name] {
			return fmt.Errorf("there is no module %s", name)
		}
	}
	return nil
}

// limits adds sentences to the plan about the results that the planner could not compute.
func (p *planner) limits() {
	if p.Store == nil {
		p.plan.Limits = append(p.plan.Limits, "the store of the operator is not known: values and enabled flags that hooks patched are missing, "+
			"so the plan can differ from the converge; name a store or a snapshot of one with --store")
	}
	ran := len(p.plan.Hooks) > 0
	for _, m := range p.plan.Modules {
		ran = ran || len(m.Hooks) > 0
	}
	if ran {
		p.plan.Limits = append(p.plan.Limits, "hooks are not run: the values that their last runs patched are used, and objects that hooks change are not shown")
	}
}

// valuesInForce adds to the plan the differences between the values of the running operator and the values after the
// planned converge: of the global section, and of the planned modules that are enabled before and after the converge. If
// no operator runs, valuesInForce does nothing.
func (p *planner) valuesInForce(after map[string]store.Module) error {
	if p.InForce == nil {
		return nil
	}
	keys := map[string]string{values.Global: ""}
	for name, m := range after {
		if m.Enabled && p.before[name].Enabled && !p.skips("", subjectOf(name)) {
			keys[values.Camel(name)] = name
		}
	}
	for key, name := range keys {
		before, err := sectionIn(p.Store, p.InForce.Layers, key)
		if err != nil {
			return err
		}
		now, err := sectionIn(p.db, p.steps.State.Values.Layers, key)
		if err != nil {
			return err
		}
		changes := p.fieldChanges(map[string]any{key: before}, map[string]any{key: now})
		if name == "" {
			p.plan.Values = changes
		} else {
			p.module(name).Values = changes
		}
	}
	return nil
}

// sectionIn returns the merged values of a section.
func sectionIn(db *store.DB, layers func(*store.Tx, ...string) (values.Layers, error), key string) (section any, err error) {
	err = db.View(func(tx *store.Tx) error {
		l, err := layers(tx, key)
		if err == nil {
			section, _ = l.Section(key)
		}
		return err
	})
	return section, err
}
