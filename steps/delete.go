package steps

import (
	"context"
	"encoding/json"
	"slices"

	"addon-operator/internal/helm"
	"addon-operator/internal/module"
	"addon-operator/steps/addons/modules"
	"addon-operator/steps/bindings"
	"addon-operator/steps/desired"
	"addon-operator/steps/hookrun"
	"addon-operator/steps/hooks"
	"addon-operator/steps/releases"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A moduleDeleteStep begins the deletion of a module.
type moduleDeleteStep struct {
	directories *directories
	modules     *desired.Modules
	values      *desired.Values
	hooks       *hooks.Configs
	bindings    *bindings.Attached
	releases    *releases.Releases
	changes     Changes
}

// toDelete is the data of moduleDeleteStep's outcome.
type toDelete struct {
	Hooks    json.RawMessage `json:"hooks,omitempty"`
	Released bool            `json:"released"`
}

// Do calls the module's new hooks for their config, and checks whether there is a release. A hook
// that does not answer does not prevent the deletion, which continues without it and says so.
func (s *moduleDeleteStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	if err := s.directories.scanAfter(t); err != nil {
		return workflow.Outcome{}, err
	}
	asked, without, err := s.hooks.AskAnswering(ctx, t.Subject.Module)
	if err != nil {
		return workflow.Outcome{}, err
	}
	status, err := s.releases.Status(ctx, t.Subject.Module)
	if err != nil {
		return workflow.Outcome{}, err
	}
	out := workflow.Outcome{Detail: "release is " + string(status) + without}
	out.Data, err = json.Marshal(toDelete{Hooks: asked.Data, Released: status != helm.Absent})
	return out, err
}

// Apply retires the module: it detaches its bindings. For a module that is enabled again it returns
// no fact, and the deletion ends.
func (s *moduleDeleteStep) Apply(tx *store.Tx, t workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
	var data toDelete
	if err := json.Unmarshal(o.Data, &data); err != nil {
		return nil, err
	}
	name := t.Subject.Module
	record, _, err := store.Load[store.Module](tx, store.ModuleKey(name))
	if err != nil {
		return nil, err
	}
	if wanted, err := s.values.Wanted(tx, name, record); err != nil || wanted {
		return nil, err
	}
	if !data.Released && (record.State == store.Off || record.State == "") {
		return nil, nil // it has been deleted meanwhile
	}
	if err := leaveEnabled(tx, name); err != nil {
		return nil, err
	}
	if by, err := s.values.Decide(tx, name); err != nil {
		return nil, err
	} else if by.Source == module.SourceConfig && !by.Enabled {
		tx.OnCommit(func() { s.changes.ModuleRetired(name) })
	}
	if err := noteRelease(tx, name, data.Released); err != nil {
		return nil, err
	}
	store.DeleteProblems(tx, store.OrphanedModule, name)
	record.State = store.Retiring
	if err := store.Save(tx, store.ModuleKey(name), record); err != nil {
		return nil, err
	}
	return []graph.Fact{lifecycle.Unwanted}, s.detachHooks(tx, name, data.Hooks)
}

// detachHooks saves the hooks of module that were called for their config, if any, and detaches the
// bindings of all hooks. A module that was never enabled in this store has no bindings yet. It gets
// them first, because its hooks receive their snapshots.
func (s *moduleDeleteStep) detachHooks(tx *store.Tx, module string, asked json.RawMessage) error {
	if len(asked) > 0 {
		var found hooks.Found
		if err := json.Unmarshal(asked, &found); err != nil {
			return err
		}
		if _, err := found.Save(tx, module); err != nil {
			return err
		}
	}
	hooks, err := bindings.LoadHooks(tx, module)
	if err != nil {
		return err
	}
	if _, err := s.bindings.Attach(tx, module, hooks); err != nil {
		return err
	}
	return s.bindings.Detach(tx, module)
}

// leaveEnabled removes name from the enabled modules, if discovery has not done so yet.
func leaveEnabled(tx *store.Tx, name string) error {
	l, err := store.LoadStartup(tx)
	if err != nil || !slices.Contains(l.Enabled, name) {
		return err
	}
	l.Enabled = slices.DeleteFunc(l.Enabled, func(enabled string) bool { return enabled == name })
	return store.Save(tx, store.StartupKey(), l)
}

// noteRelease creates or deletes the record of module's release.
func noteRelease(tx *store.Tx, module string, released bool) error {
	key := store.ReleaseKey(module)
	if !released {
		tx.Delete(key)
		return nil
	}
	if tx.Get(key) != nil {
		return nil
	}
	return store.Save(tx, key, store.Release{})
}

// A beforeDeleteStep is the [hookrun.Step] of the hooks that run before a release is deleted. Without a
// release, none runs.
type beforeDeleteStep struct{ *hookrun.Step }

// Items lists the hooks, if the module has a release.
func (s *beforeDeleteStep) Items(tx *store.Tx, t workflow.Task) ([]graph.Item, json.RawMessage, error) {
	if tx.Get(store.ReleaseKey(t.Subject.Module)) == nil {
		return nil, nil, nil
	}
	return s.Step.Items(tx, t)
}

// An afterDeleteStep is the [hookrun.Step] that ends a module's deletion. If another task has ended the
// deletion before, for example one of an earlier process, it does nothing, because the module may
// be enabled again.
type afterDeleteStep struct {
	*hookrun.Step
	db       *store.DB
	values   *desired.Values
	bindings *bindings.Attached
	changes  Changes
}

// ended reports whether there is no deletion of module to end.
func (s *afterDeleteStep) ended(tx *store.Tx, module string) (bool, error) {
	record, _, err := store.Load[store.Module](tx, store.ModuleKey(module))
	return record.State != store.Uninstalled, err
}

// Do runs the hook, unless the deletion has ended.
func (s *afterDeleteStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	ended := false
	if err := s.db.View(func(tx *store.Tx) (err error) {
		ended, err = s.ended(tx, t.Subject.Module)
		return err
	}); err != nil {
		return workflow.Outcome{}, err
	}
	if ended {
		return workflow.Outcome{Detail: "not run: the delete has ended"}, nil
	}
	return s.Step.Do(ctx, t)
}

// Items lists the hooks, unless the deletion has ended.
func (s *afterDeleteStep) Items(tx *store.Tx, t workflow.Task) ([]graph.Item, json.RawMessage, error) {
	if ended, err := s.ended(tx, t.Subject.Module); ended || err != nil {
		return nil, nil, err
	}
	return s.Step.Items(tx, t)
}

// End deletes the state of the module. A module made from an addon releases the addon, so that it
// no longer exists if the addon is not registered.
func (s *afterDeleteStep) End(tx *store.Tx, t workflow.Task, _ []graph.Fact) ([]graph.Fact, error) {
	key := store.ModuleKey(t.Subject.Module)
	record, _, err := store.Load[store.Module](tx, key)
	if err != nil || record.State != store.Uninstalled {
		return nil, err
	}
	record.State, record.StartedIn, record.Defined = store.Off, 0, ""
	if err := s.bindings.Forget(tx, t.Subject.Module); err != nil {
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

// A modulePurgeStep deletes a release that has no module.
type modulePurgeStep struct {
	bindings *bindings.Attached
	releases *releases.Releases
}

// Do uninstalls the release.
func (s *modulePurgeStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	return s.releases.Uninstall(ctx, t)
}

// Apply deletes the records of the release.
func (s *modulePurgeStep) Apply(tx *store.Tx, t workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
	tx.Delete(store.ModuleKey(t.Subject.Module))
	return nil, s.bindings.Forget(tx, t.Subject.Module)
}
