package modulerun

import (
	"context"
	"encoding/json"

	"addon-operator/steps/addons/modules"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A checkStep is the first step of a module run. It checks whether the module must be run, and with which step the
// run continues.
type checkStep struct {
	state  *scan.State
	hooks  *hooks.Configs
	survey Survey
}

// Do gets the configurations of the module's hooks; see [hooks.Configs.AskModule]. If the module is no longer enabled,
// Do returns an outcome that ends the run, even if the module cannot be loaded.
func (s *checkStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	if err := s.state.ScanAfter(t); err != nil {
		return workflow.Outcome{}, err
	}
	enabled, wanted, undefined := false, false, false
	var unusable error
	if err := s.state.DB.View(func(tx *store.Tx) error {
		record, _, err := store.Load[store.Module](tx, store.ModuleKey(t.Subject.Module))
		if err != nil {
			return err
		}
		enabled, undefined = record.Enabled, record.Undefined != ""
		if wanted, err = s.state.Values.Wanted(tx, t.Subject.Module, record); err != nil || !wanted {
			return err
		}
		unusable, err = s.runnable(tx, t.Subject.Module, record)
		return err
	}); err != nil {
		return workflow.Outcome{}, err
	}
	if !wanted {
		return s.unwanted(t.Subject.Module, enabled)
	}
	if undefined {
		return workflow.Outcome{Detail: "not run: its CRDs could not be installed"}, nil
	}
	if unusable != nil {
		return notRun(unusable)
	}
	out, err := s.hooks.AskModule(ctx, t.Subject.Module)
	if err != nil && ctx.Err() == nil {
		return notRun(err)
	}
	return out, err
}

// unwanted returns the outcome of a run of a module that is not enabled or not on disk. The argument enabled says
// whether the last discovery has enabled the module.
func (s *checkStep) unwanted(name string, enabled bool) (workflow.Outcome, error) {
	gone, err := s.state.Modules.Gone(name)
	switch {
	case enabled && err != nil:
		return notRun(err)
	case enabled && gone:
		return workflow.Outcome{Detail: "its directory is gone"}, nil
	default:
		return workflow.Outcome{Detail: "it is not enabled any more"}, nil
	}
}

// notRun returns the outcome of a run of a module that cannot be loaded. The run ends without a failure, because
// retries would delay all other modules. The module runs in the first converge after its files have been corrected.
func notRun(broken error) (workflow.Outcome, error) {
	data, err := json.Marshal(hooks.ModuleCheck{Broken: broken.Error()})
	return workflow.Outcome{Data: data, Detail: "not run, it cannot be loaded: " + broken.Error()}, err
}

// runnable checks the values of a module that has not run in this start yet. If the module cannot start because its
// values are invalid, the first result is the error of the values.
func (s *checkStep) runnable(tx *store.Tx, name string, record store.Module) (unusable, err error) {
	l, err := store.LoadStartup(tx)
	if err != nil || record.HasRunSince(l) || s.state.Modules.Usable(name) != nil {
		return nil, err
	}
	layers, err := s.state.Values.LayersOf(tx, sections.Of(name))
	if err != nil {
		return nil, err
	}
	return layers.CheckFiles(sections.Of(name)), nil
}

// Apply returns the fact with which the graph selects the next step: the module is just enabled, has already started,
// or is partly deleted. If the module is not enabled, cannot be loaded or lacks its CRDs, Apply returns no fact, and
// the run ends.
func (s *checkStep) Apply(tx *store.Tx, t workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
	name := t.Subject.Module
	if len(o.Data) == 0 {
		return nil, nil
	}
	record, _, err := store.Load[store.Module](tx, store.ModuleKey(name))
	if err != nil {
		return nil, err
	}
	if wanted, err := s.state.Values.Wanted(tx, name, record); err != nil || !wanted {
		return nil, err
	}
	var found hooks.ModuleCheck
	if err := json.Unmarshal(o.Data, &found); err != nil {
		return nil, err
	}
	if found.Broken != "" {
		record.SetBroken(found.Broken, tx.Now())
		return nil, store.Save(tx, store.ModuleKey(name), record)
	}
	if record.State == store.Uninstalled {
		return []graph.Fact{lifecycle.HalfDeleted}, nil
	}
	l, err := store.LoadStartup(tx)
	if err != nil {
		return nil, err
	}
	changed, err := found.Save(tx, name)
	if err == nil && changed {
		err = bindings.ReplaceConversions(tx, name)
	}
	if err == nil && found.Addon != "" {
		err = modules.SaveOne(tx, name, store.AddonModule{Content: found.Addon, Used: true})
	}
	if err != nil {
		return nil, err
	}
	s.survey.RunBegan(tx, name)
	repaired := record.Broken != ""
	record.SetBroken("", tx.Now()) // because Do has loaded the module without an error
	if record.HasRunSince(l) && !changed {
		if repaired {
			err = store.Save(tx, store.ModuleKey(name), record)
		}
		return []graph.Fact{lifecycle.AlreadyStarted}, err
	}
	record.State, record.RanInStart = store.On, 0
	return []graph.Fact{lifecycle.JustEnabled}, store.Save(tx, store.ModuleKey(name), record)
}
