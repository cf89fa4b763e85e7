package crds

import (
	"encoding/json"
	"testing"

	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

func TestDefinitionsAreMissingUntilTheyAreInstalledSinceTheStart(t *testing.T) {
	t.Parallel()
	startup := store.Startup{StartRun: 2}
	for name, c := range map[string]struct {
		record store.Module
		want   bool
	}{
		"never installed":        {store.Module{}, true},
		"installed":              {store.Module{Defined: "d", DefinedIn: 2}, false},
		"of an earlier start":    {store.Module{Defined: "d", DefinedIn: 1}, true},
		"other files":            {store.Module{Defined: "e", DefinedIn: 2}, true},
		"could not be installed": {store.Module{Defined: "d", DefinedIn: 2, Undefined: "bad"}, true},
	} {
		if got := missing("d", c.record, startup); got != c.want {
			t.Errorf("%s: missing %t, want %t", name, got, c.want)
		}
	}
}

func TestInstalledDefinitionsAreRecordedForAKnownModule(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	data, err := json.Marshal(ensured{Digest: "d", Undefined: "bad"})
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range []bool{false, true} {
		if err := db.Update(func(tx *store.Tx) error {
			if err := store.Save(tx, store.StartupKey(), store.Startup{StartRun: 3}); err != nil {
				return err
			}
			if known {
				if err := store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On}); err != nil {
					return err
				}
			}
			task := workflow.Task{Task: store.Task{Subject: graph.Subject{Module: "web"}}}
			if _, err := (&ensureStep{}).Apply(tx, task, workflow.Outcome{Data: data}); err != nil {
				return err
			}
			m, found, err := store.Load[store.Module](tx, store.ModuleKey("web"))
			if found != known || known && (m.Defined != "d" || m.DefinedIn != 3 || m.Undefined != "bad") {
				t.Errorf("known %t: record %+v, found %t", known, m, found)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
