package converge

import (
	"context"
	"encoding/json"
	"fmt"

	"addon-operator/internal/hook"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
)

// A startStep asks the global hooks for their configurations, and then runs their onStartup hooks. In a start, no
// node runs a global hook before this step.
type startStep struct {
	workflow.ItemStep
	state *scan.State
	hooks *hooks.Configs
}

// prepared is the data of the outcome of Prepare.
type prepared struct {
	hooks.Found

	// Dropped has the saved operations that the schemas no longer accept.
	Dropped sections.Unfit `json:"dropped,omitempty"`
	// Modules has the result of the check of each module.
	Modules []hooks.Checked `json:"modules,omitempty"`
}

// Prepare asks the global hooks for their configurations, and checks the global values and all modules. A module that
// cannot be loaded is not an error, because the other modules can run.
func (s *startStep) Prepare(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	if err := s.state.ScanAfter(t); err != nil {
		return workflow.Outcome{}, err
	}
	digest, err := s.state.Modules.CodeOf("")
	if err != nil {
		return workflow.Outcome{}, err
	}
	found, err := s.hooks.Ask(ctx, "", hook.Global, s.state.Modules.GlobalHooks(), digest)
	if err != nil {
		return workflow.Outcome{}, err
	}
	if err := s.hooks.CheckNotEmpty(found); err != nil {
		return workflow.Outcome{}, err
	}
	p := prepared{Found: found}
	if p.Dropped, err = s.state.Values.CheckGlobal(); err != nil {
		return workflow.Outcome{}, err
	}
	set, err := s.state.Scan()
	if err != nil {
		return workflow.Outcome{}, err
	}
	if p.Modules, err = s.hooks.CheckModules(ctx, set); err != nil {
		return workflow.Outcome{}, err
	}
	data, err := json.Marshal(p)
	return workflow.Outcome{Data: data, Detail: fmt.Sprintf("%d hooks", len(found.Hooks)) + p.Dropped.Note()}, err
}

// ApplyPrepared saves the outcome of Prepare. The embedded ItemStep saves the outcomes of the hooks.
func (s *startStep) ApplyPrepared(tx *store.Tx, _ workflow.Task, o workflow.Outcome) error {
	var found prepared
	if err := json.Unmarshal(o.Data, &found); err != nil {
		return err
	}
	if err := found.Dropped.Drop(tx); err != nil {
		return err
	}
	if err := hooks.SaveBroken(tx, found.Modules); err != nil {
		return err
	}
	changed, err := found.Save(tx, "")
	if err == nil && changed {
		err = bindings.ReplaceConversions(tx, "")
	}
	return err
}
