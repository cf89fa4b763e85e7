package moduledelete

import (
	"context"
	"encoding/json"
	"slices"

	"addon-operator/internal/module"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A beginStep begins the deletion of a module.
type beginStep struct {
	state    *scan.State
	hooks    *hooks.Configs
	releases Releases
	changes  Changes
}

// toDelete is the data of beginStep's outcome.
type toDelete struct {
	Hooks    json.RawMessage `json:"hooks,omitempty"`
	Released bool            `json:"released"`
}

// Do gets the configurations of the module's hooks, and checks whether the module has a release. If a hook does not
// answer --config, the deletion continues without this hook, and the history names the hook.
func (s *beginStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	if err := s.state.ScanAfter(t); err != nil {
		return workflow.Outcome{}, err
	}
	asked, without, err := s.hooks.AskAnswering(ctx, t.Subject.Module)
	if err != nil {
		return workflow.Outcome{}, err
	}
	status, released, err := s.releases.Status(ctx, t.Subject.Module)
	if err != nil {
		return workflow.Outcome{}, err
	}
	out := workflow.Outcome{Detail: "release is " + status + without}
	out.Data, err = json.Marshal(toDelete{Hooks: asked.Data, Released: released})
	return out, err
}

// Apply begins the deletion: it detaches the bindings of the module and returns the fact [lifecycle.Unwanted]. If the
// module has been enabled again or is already deleted, Apply returns no fact, and the deletion ends.
func (s *beginStep) Apply(tx *store.Tx, t workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
	var data toDelete
	if err := json.Unmarshal(o.Data, &data); err != nil {
		return nil, err
	}
	name := t.Subject.Module
	record, _, err := store.Load[store.Module](tx, store.ModuleKey(name))
	if err != nil {
		return nil, err
	}
	if wanted, err := s.state.Values.Wanted(tx, name, record); err != nil || wanted {
		return nil, err
	}
	if !data.Released && (record.State == store.Off || record.State == "") {
		return nil, nil // another task has already deleted the module
	}
	if err := leaveEnabled(tx, name); err != nil {
		return nil, err
	}
	if by, err := s.state.Values.Decide(tx, name); err != nil {
		return nil, err
	} else if by.Source == module.SourceConfig && !by.Enabled {
		tx.OnCommit(func() { s.changes.ModuleDisabledByConfig(name) })
	}
	if err := noteRelease(tx, name, data.Released); err != nil {
		return nil, err
	}
	store.DeleteProblems(tx, store.OrphanedModule, name)
	record.State = store.Deleting
	if err := store.Save(tx, store.ModuleKey(name), record); err != nil {
		return nil, err
	}
	return []graph.Fact{lifecycle.Unwanted}, s.detachHooks(tx, name, data.Hooks)
}

// detachHooks detaches the bindings of all hooks of module. Before that, it saves the hooks in the argument asked,
// which is JSON or empty. A module that was never enabled in this store has no attached bindings. detachHooks attaches
// its bindings first, because the hooks of the deletion receive snapshots.
func (s *beginStep) detachHooks(tx *store.Tx, module string, asked json.RawMessage) error {
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
	if _, err := bindings.Attach(tx, module, hooks); err != nil {
		return err
	}
	return bindings.Detach(tx, module)
}

// leaveEnabled removes name from the saved list of enabled modules, if the list contains it.
func leaveEnabled(tx *store.Tx, name string) error {
	l, err := store.LoadStartup(tx)
	if err != nil || !slices.Contains(l.Enabled, name) {
		return err
	}
	l.Enabled = slices.DeleteFunc(l.Enabled, func(enabled string) bool { return enabled == name })
	return store.Save(tx, store.StartupKey(), l)
}

// noteRelease deletes the record of the module's release if released is false. If released is true and the store has
// no record, noteRelease creates an empty record.
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
