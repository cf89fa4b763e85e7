package main

import (
	"strings"
	"testing"

	"addon-operator/store"
)

func TestAStoppedStoreShowsTheModulesWhoseRecordsCanBeRead(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.file("modules/001-first/values.yaml", "first: {replicas: 2}\n")
	s.file("modules/002-second/values.yaml", "second: {replicas: 3}\n")
	db := makeStore(t, s.path("store.db"))
	if err := db.Update(func(tx *store.Tx) error {
		tx.Put(store.StartupKey(), []byte(`{"mode":`))
		tx.Put(store.ModuleKey("lost"), []byte(`{"order":`))
		tx.Put(store.ReleaseKey("first"), []byte(`{"revision":`))
		tx.Put(store.RefusedConfigKey(), []byte(`{"at":`))
		for i, name := range []string{"second", "first"} {
			if err := store.Save(tx, store.ModuleKey(name), store.Module{State: store.On, RanInStart: 1, Enabled: true, Order: 2 - i}); err != nil {
				return err
			}
		}
		return store.Save(tx, store.RunKey(1), store.Run{ID: 1, Graph: "lifecycle"})
	}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, db)
	for verb, want := range map[string][]string{
		"module values first": {"replicas: 2"},
		"module config first": {"{}"},
		"global values":       {"- first\n", "- second\n"},
		"module list": {
			"first true on", "second true on", "lost false broken - its record in the store cannot be read",
			"record modules/lost cannot be read", "record " + store.StartupKey().String() + " cannot be read",
		},
		"workflow inspect": {"record modules/lost cannot be read", "record " + store.StartupKey().String() + " cannot be read", "record configmap/refused cannot be read"},
	} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			cmd := asked(t, s.path("store.db"), verb)
			if strings.Contains(verb, "values") || strings.Contains(verb, "config") {
				cmd.Args = append(cmd.Args, "--modules-dir", s.path("modules"))
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			text, words := string(out), strings.Join(strings.Fields(string(out)), " ")
			for _, part := range want {
				if !strings.Contains(text, part) && !strings.Contains(words, part) {
					t.Errorf("the answer does not contain %q:\n%s", part, text)
				}
			}
		})
	}
}

func TestAnUnreadableConfigMapRecordIsNamedAndModulesAreListed(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	db := makeStore(t, s.path("store.db"))
	if err := db.Update(func(tx *store.Tx) error {
		tx.Put(store.AppliedConfigKey(), []byte(`{"config":`))
		if err := store.Save(tx, store.ModuleKey("first"), store.Module{State: store.On, RanInStart: 1, Enabled: true}); err != nil {
			return err
		}
		return store.Save(tx, store.RunKey(1), store.Run{ID: 1, Graph: "lifecycle"})
	}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, db)
	for verb, want := range map[string][]string{
		"module list":      {"first true on", "record configmap/applied cannot be read", "start the operator again: it then reads the ConfigMap"},
		"workflow inspect": {"record configmap/applied cannot be read"},
	} {
		out, err := asked(t, s.path("store.db"), verb).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", verb, err, out)
		}
		words := strings.Join(strings.Fields(string(out)), " ")
		for _, part := range want {
			if !strings.Contains(words, part) {
				t.Errorf("%s does not contain %q:\n%s", verb, part, out)
			}
		}
	}
}
