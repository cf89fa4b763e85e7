package crds

import (
	"strings"
	"testing"

	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

func TestAModuleThatHasNoDefinitionsAnyMoreKeepsTheRecordOfItsLast(t *testing.T) {
	t.Parallel()
	s, _ := scantest.New(t)
	scantest.Scan(t, s)
	step, ok := New(Options{}, s.Log, s.Modules, nil).Steps()[lifecycle.EnsureCRDs].(*ensureStep)
	if !ok {
		t.Fatal("no step installs definitions")
	}
	was := store.Module{State: store.On, Enabled: true, Defined: "d", DefinedIn: 2, Undefined: "bad"}
	for name, want := range map[string]string{"web": "the module no longer has CRDs", "gone": "the module no longer has CRDs"} {
		task := workflow.Task{Task: store.Task{Subject: graph.Subject{Module: name}}}
		o, err := step.Do(t.Context(), task)
		if err != nil || o.Detail != want {
			t.Errorf("module %s: %q, %v; want %q", name, o.Detail, err, want)
		}
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			if err := store.Save(tx, store.ModuleKey(name), was); err != nil {
				return err
			}
			if facts, err := step.Apply(tx, task, o); err != nil || len(facts) > 0 {
				t.Errorf("module %s: facts %q, %v", name, facts, err)
			}
			got, _, err := store.Load[store.Module](tx, store.ModuleKey(name))
			if got != was { // the next discovery finds no definitions, and removes the digest from the record
				t.Errorf("module %s: record %+v, want %+v", name, got, was)
			}
			return err
		})
	}
}

func TestDefinitionsAreInstalledAgainWhenTheirFilesChange(t *testing.T) {
	t.Parallel()
	s, mounted := scantest.New(t)
	scantest.Write(t, mounted, "010-web/crds/a.yaml", "kind: CustomResourceDefinition\n")
	definitions := New(Options{}, s.Log, s.Modules, nil)
	startup := store.Startup{StartRun: 2}
	record := store.Module{DefinedIn: 2}
	missing := func() bool {
		t.Helper()
		scantest.Scan(t, s)
		m, found := s.Modules.Disk().Find("web")
		if !found || m.CRDs == "" {
			t.Fatalf("module %+v has no definitions", m)
		}
		missing, err := definitions.Missing(m, record, startup)
		if err != nil {
			t.Fatal(err)
		}
		if record.Defined, err = s.Modules.Digests().CRDs(m); err != nil { // as after an installation
			t.Fatal(err)
		}
		return missing
	}
	for _, c := range []struct {
		when   string
		change func()
		want   bool
	}{
		{"never installed", func() {}, true},
		{"installed", func() {}, false},
		{"another file of the module", func() { scantest.Write(t, mounted, "010-web/values.yaml", "web: {size: 2}") }, false},
		{"another text", func() {
			scantest.Write(t, mounted, "010-web/crds/a.yaml", "kind: CustomResourceDefinition\nother: 1\n")
		}, true},
		{"a new file", func() { scantest.Write(t, mounted, "010-web/crds/sub/b.yaml", "") }, true},
		{"nothing else", func() {}, false},
	} {
		c.change()
		if got := missing(); got != c.want {
			t.Errorf("%s: missing %t", c.when, got)
		}
	}
	m, _ := s.Modules.Disk().Find("web")
	m.CRDs = mounted + "/nowhere"
	if _, err := definitions.Missing(m, record, startup); err == nil || !strings.HasPrefix(err.Error(), "module web: ") || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a directory that is gone: %v", err)
	}
}
