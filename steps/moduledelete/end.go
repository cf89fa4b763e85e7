package moduledelete

import (
	"context"
	"encoding/json"

	"addon-operator/steps/addons/modules"
	"addon-operator/steps/bindings"
	"addon-operator/steps/desired"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// A beforeStep runs the beforeDeleteHelm hooks of a module. If the module has no release, it runs no hooks.
type beforeStep struct{ workflow.ItemStep }

// Items lists the hooks to run. If the module has no release, it lists no hooks.
func (s *beforeStep) Items(tx *store.Tx, t workflow.Task) ([]graph.Item, json.RawMessage, error) {
	if tx.Get(store.ReleaseKey(t.Subject.Module)) == nil {
		return nil, nil, nil
	}
	return s.ItemStep.Items(tx, t)
}

// An endStep runs the afterDeleteHelm hooks of a module, and then ends the deletion of the module. If another task
// has already ended the deletion, for example a task of an earlier process, endStep does nothing, because the module
// may be enabled again.
type endStep struct {
	workflow.ItemStep
	db      *store.DB
	values  *desired.Values
	changes Changes
}

// ended reports whether the deletion of module has already ended.
func (s *endStep) ended(tx *store.Tx, module string) (bool, error) {
	record, _, err := store.Load[store.Module](tx, store.ModuleKey(module))
	return record.State != store.Uninstalled, err
}

// Do runs the hook of t. It does nothing if the deletion has already ended.
func (s *endStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	ended := false
	if err := s.db.View(func(tx *store.Tx) (err error) {
		ended, err = s.ended(tx, t.Subject.Module)
		return err
	}); err != nil {
		return workflow.Outcome{}, err
	}
	if ended {
		return workflow.Outcome{Detail: "not run: the deletion has ended"}, nil
	}
	return s.ItemStep.Do(ctx, t)
}

// Items lists the hooks to run. If the deletion has already ended, it lists no hooks.
func (s *endStep) Items(tx *store.Tx, t workflow.Task) ([]graph.Item, json.RawMessage, error) {
	if ended, err := s.ended(tx, t.Subject.Module); ended || err != nil {
		return nil, nil, err
	}
	return s.ItemStep.Items(tx, t)
}

// End deletes the records of the module's hooks and release, and records that the module is not installed. If the
// module is made from an addon and has not been enabled again, End allows the store to delete the files of the addon.
// After that, the module exists only as long as its addon is registered.
func (s *endStep) End(tx *store.Tx, t workflow.Task, _ []graph.Fact) ([]graph.Fact, error) {
	key := store.ModuleKey(t.Subject.Module)
	record, _, err := store.Load[store.Module](tx, key)
	if err != nil || record.State != store.Uninstalled {
		return nil, err
	}
	record.State, record.RanInStart, record.Defined = store.Off, 0, ""
	if err := bindings.Forget(tx, t.Subject.Module); err != nil {
		return nil, err
	}
	if wanted, err := s.values.Wanted(tx, t.Subject.Module, record); err != nil {
		return nil, err
	} else if !wanted {
		if err := modules.Release(tx, t.Subject.Module); err != nil {
			return nil, err
		}
		tx.OnCommit(s.changes.AddonModulesChanged)
	}
	return nil, store.Save(tx, key, record)
}
