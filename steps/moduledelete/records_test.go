package moduledelete

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
)

func TestADeletedModuleIsNoLongerEnabledAtStartup(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ enabled, want []string }{
		"among others": {[]string{"a", "web", "b"}, []string{"a", "b"}},
		"alone":        {[]string{"web"}, nil},
		"not there":    {[]string{"a", "webby"}, []string{"a", "webby"}},
		"none":         {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Memory(t)
			start := store.Startup{Enabled: test.enabled, Converged: 7}
			scantest.Update(t, db, func(tx *store.Tx) error { return store.Save(tx, store.StartupKey(), start) })
			scantest.Update(t, db, func(tx *store.Tx) error { return leaveEnabled(tx, "web") })
			if err := db.View(func(tx *store.Tx) error {
				got, err := store.LoadStartup(tx)
				if len(got.Enabled) == 0 {
					got.Enabled = nil
				}
				if diff := cmp.Diff(store.Startup{Enabled: test.want, Converged: 7}, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestTheRecordOfAReleaseExistsAsLongAsTheRelease(t *testing.T) {
	t.Parallel()
	known := &store.Release{Checksum: "c", Revision: 3}
	for name, test := range map[string]struct {
		record   *store.Release
		released bool
		want     *store.Release
	}{
		"deleted release":      {known, false, nil},
		"no release":           {nil, false, nil},
		"recorded release":     {known, true, known},
		"release not recorded": {nil, true, &store.Release{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Memory(t)
			if test.record != nil {
				scantest.Update(t, db, func(tx *store.Tx) error { return store.Save(tx, store.ReleaseKey("web"), *test.record) })
			}
			scantest.Update(t, db, func(tx *store.Tx) error { return noteRelease(tx, "web", test.released) })
			if err := db.View(func(tx *store.Tx) error {
				got, found, err := store.Load[store.Release](tx, store.ReleaseKey("web"))
				if found != (test.want != nil) {
					t.Errorf("there is a record: %t", found)
				} else if found && !cmp.Equal(*test.want, got) {
					t.Errorf("got %+v, want %+v", got, *test.want)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestTheEndOfADeletionResetsTheRecordOfTheModule(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		record  store.Module
		enabled bool // by the ConfigMap
		want    store.Module
		forgets bool
		addons  int
	}{
		"disabled module": {
			store.Module{State: store.Uninstalled, Order: 10, RanInStart: 2, Defined: "d"},
			false,
			store.Module{State: store.Off, Order: 10},
			true, 1,
		},
		// The module needs the files of its addon again, so End does not release them.
		"module that is enabled again": {
			store.Module{State: store.Uninstalled, Order: 10, Enabled: true, RanInStart: 2, Defined: "d"},
			true,
			store.Module{State: store.Off, Order: 10, Enabled: true},
			true, 0,
		},
		"broken module": {
			store.Module{State: store.Uninstalled, Broken: "bad", BrokenSince: since},
			false,
			store.Module{State: store.Off, Broken: "bad", BrokenSince: since},
			true, 1,
		},
		"deletion that another task has ended": {
			store.Module{State: store.On, RanInStart: 2, Defined: "d"},
			false,
			store.Module{State: store.On, RanInStart: 2, Defined: "d"},
			false, 0,
		},
		"deletion that has not removed the release": {
			store.Module{State: store.Deleting, Defined: "d"},
			false,
			store.Module{State: store.Deleting, Defined: "d"},
			false, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state, _ := scantest.New(t)
			scantest.Scan(t, state)
			var changes counted
			step := &endStep{db: state.DB, values: state.Values, changes: &changes}
			var config []string
			if test.enabled {
				config = []string{"webEnabled", "true"}
			}
			scantest.Update(t, state.DB, func(tx *store.Tx) error {
				return errors.Join(
					state.ConfigMap.SaveApplied(tx, scantest.Config(t, config...), "1"),
					store.Save(tx, store.ModuleKey("web"), test.record),
					store.Save(tx, store.HookKey("web", "x"), store.Hook{Digest: "d"}),
				)
			})
			scantest.Update(t, state.DB, func(tx *store.Tx) error {
				_, err := step.End(tx, web, nil)
				return err
			})
			if err := state.DB.View(func(tx *store.Tx) error {
				got, _, err := store.Load[store.Module](tx, store.ModuleKey("web"))
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				if forgotten := tx.Get(store.HookKey("web", "x")) == nil; forgotten != test.forgets {
					t.Errorf("its hooks are forgotten: %t, want %t", forgotten, test.forgets)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if changes.addons != test.addons {
				t.Errorf("%d signals that other modules may be made from addons, want %d", changes.addons, test.addons)
			}
		})
	}
}

func TestAPurgedReleaseLeavesNoRecords(t *testing.T) {
	t.Parallel()
	state, _ := scantest.New(t)
	var step purgeStep
	scantest.Update(t, state.DB, func(tx *store.Tx) error {
		return errors.Join(
			store.Save(tx, store.ModuleKey("web"), store.Module{State: store.Off}), store.Save(tx, store.ModuleKey("other"), store.Module{State: store.On}),
			store.Save(tx, store.HookKey("web", "x"), store.Hook{Digest: "d"}), store.Save(tx, store.HookKey("other", "x"), store.Hook{Digest: "d"}),
		)
	})
	scantest.Update(t, state.DB, func(tx *store.Tx) error {
		facts, err := step.Apply(tx, web, workflow.Outcome{})
		if facts != nil {
			t.Errorf("facts %v", facts)
		}
		return err
	})
	if err := state.DB.View(func(tx *store.Tx) error {
		for key, want := range map[string]bool{
			string(store.ModuleKey("web")): false, string(store.HookKey("web", "x")): false,
			string(store.ModuleKey("other")): true, string(store.HookKey("other", "x")): true,
		} {
			if exists := tx.Get(store.Key(key)) != nil; exists != want {
				t.Errorf("the record %s exists: %t, want %t", store.Key(key), exists, want)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedDataOfADeletionIsAnError(t *testing.T) {
	t.Parallel()
	state, _ := scantest.New(t)
	step := &beginStep{state: state}
	if err := state.DB.Update(func(tx *store.Tx) error {
		_, err := step.Apply(tx, web, workflow.Outcome{Data: []byte("{")})
		return err
	}); err == nil {
		t.Error("no error")
	}
}
