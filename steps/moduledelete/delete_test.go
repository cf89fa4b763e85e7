package moduledelete

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A counted is an implementation of Changes that records its calls.
type counted struct {
	disabledByConfig []string
	addons           int
}

func (c *counted) ModuleDisabledByConfig(module string) {
	c.disabledByConfig = append(c.disabledByConfig, module)
}
func (c *counted) AddonModulesChanged() { c.addons++ }

// web is a task whose subject is the module "web".
var web = workflow.Task{Task: store.Task{Subject: graph.Subject{Module: "web"}}}

func TestTheDeletionOfAModuleBeginsOnlyIfItIsDisabledAndInstalled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config           []string
		record           store.Module
		released         bool
		facts            []graph.Fact
		state            store.ModuleState
		disabledByConfig []string
	}{
		"the ConfigMap has disabled it, and no discovery has run": {
			[]string{"webEnabled", "false"}, store.Module{State: store.On, Enabled: true}, true, []graph.Fact{lifecycle.Unwanted}, store.Deleting, []string{"web"},
		},
		"a discovery has disabled it":       {nil, store.Module{State: store.On}, true, []graph.Fact{lifecycle.Unwanted}, store.Deleting, nil},
		"it was on and has no release":      {nil, store.Module{State: store.On}, false, []graph.Fact{lifecycle.Unwanted}, store.Deleting, nil},
		"it is enabled again":               {[]string{"webEnabled", "true"}, store.Module{State: store.On, Enabled: true}, true, nil, store.On, nil},
		"it has been deleted meanwhile":     {nil, store.Module{State: store.Off}, false, nil, store.Off, nil},
		"it is off, and its release exists": {nil, store.Module{State: store.Off}, true, []graph.Fact{lifecycle.Unwanted}, store.Deleting, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state, _ := scantest.New(t)
			scantest.Scan(t, state)
			var changes counted
			step := &beginStep{state: state, changes: &changes}
			data, err := json.Marshal(toDelete{Released: c.released})
			if err != nil {
				t.Fatal(err)
			}
			scantest.Update(t, state.DB, func(tx *store.Tx) error {
				_, err := store.SaveProblem(tx, store.Problem{Kind: store.OrphanedModule, Subject: web.Subject, Error: "its addon is not registered"})
				return errors.Join(err, store.Save(tx, store.ModuleKey("web"), c.record),
					state.ConfigMap.SaveApplied(tx, scantest.Config(t, c.config...), "1"))
			})
			scantest.Update(t, state.DB, func(tx *store.Tx) error {
				facts, err := step.Apply(tx, web, workflow.Outcome{Data: data})
				if diff := cmp.Diff(c.facts, facts); diff != "" {
					t.Errorf("facts (-want +got):\n%s", diff)
				}
				return err
			})
			if diff := cmp.Diff(c.disabledByConfig, changes.disabledByConfig); diff != "" {
				t.Errorf("modules that the ConfigMap has disabled (-want +got):\n%s", diff)
			}
			if err := state.DB.View(func(tx *store.Tx) error {
				m, _, err := store.Load[store.Module](tx, store.ModuleKey("web"))
				if m.State != c.state {
					t.Errorf("the module is %s, want %s", m.State, c.state)
				}
				problems, failed := store.AllProblems(tx)
				if deleted := len(problems) == 0; deleted != (c.state == store.Deleting) {
					t.Errorf("the problem of the orphaned module is deleted: %t", deleted)
				}
				return errors.Join(err, failed)
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestModuleStopsUsingItsAddonWhenItsDeletionEnds(t *testing.T) {
	t.Parallel()
	state, _ := scantest.New(t)
	var changes counted
	step := &endStep{db: state.DB, values: state.Values, changes: &changes}
	scantest.Update(t, state.DB, func(tx *store.Tx) error {
		return errors.Join(
			store.Save(tx, store.AddonModuleKey("web"), store.AddonModule{Content: "1-x", Used: true}),
			store.Save(tx, store.ModuleKey("web"), store.Module{State: store.Uninstalled}),
		)
	})
	scantest.Update(t, state.DB, func(tx *store.Tx) error {
		_, err := step.End(tx, web, nil)
		return err
	})
	scantest.Update(t, state.DB, func(tx *store.Tx) error {
		m, found, err := store.Load[store.AddonModule](tx, store.AddonModuleKey("web"))
		if m.Used || !found {
			t.Errorf("record %+v, found %t: the module still uses the addon", m, found)
		}
		return err
	})
	if changes.addons != 1 {
		t.Errorf("%d signals that other modules may be made from addons, want 1", changes.addons)
	}
}

func TestADeletionThatHasEndedRunsNoHooks(t *testing.T) {
	t.Parallel()
	state, _ := scantest.New(t)
	step := &endStep{db: state.DB} // ItemStep is nil, because it must not be called
	scantest.Update(t, state.DB, func(tx *store.Tx) error {
		items, _, err := step.Items(tx, web)
		if len(items) > 0 {
			t.Errorf("hooks %v", items)
		}
		return err
	})
	if o, err := step.Do(t.Context(), web); err != nil || o.Detail != "not run: the deletion has ended" {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestHooksBeforeADeletionRunOnlyForARelease(t *testing.T) {
	t.Parallel()
	state, _ := scantest.New(t)
	step := &beforeStep{one{}}
	for _, released := range []bool{false, true} {
		scantest.Update(t, state.DB, func(tx *store.Tx) error {
			if released {
				if err := store.Save(tx, store.ReleaseKey("web"), store.Release{}); err != nil {
					return err
				}
			}
			items, _, err := step.Items(tx, web)
			if len(items) > 0 != released {
				t.Errorf("released %t: hooks %v", released, items)
			}
			return err
		})
	}
}

// The type one is an ItemStep that lists a single item.
type one struct{ workflow.ItemStep }

func (one) Items(*store.Tx, workflow.Task) ([]graph.Item, json.RawMessage, error) {
	return make([]graph.Item, 1), nil, nil
}
