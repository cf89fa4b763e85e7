package steps

import (
	"encoding/json"
	"slices"
	"testing"

	"addon-operator/internal/values"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

func TestAnUnreadableRecordOfTheConfigMapIsReplacedByTheNextRead(t *testing.T) {
	s, _, _ := newLifecycle(t)
	if _, err := s.Modules.Scan(); err != nil {
		t.Fatal(err)
	}
	update(t, s.db, func(tx *store.Tx) error {
		tx.Put(store.AppliedConfigKey(), []byte(`{"config":`))
		return nil
	})
	read := readConfig{ResourceVersion: "7", Config: values.Config{Sections: values.Values{"web": map[string]any{"size": 2.0}}}}
	if err := s.db.View(func(tx *store.Tx) error {
		c, err := s.ConfigMap.readChange(tx, read)
		if err == nil && len(c.before.Sections) > 0 {
			t.Errorf("the lost content is %+v", c.before)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	step, ok := s.Binding().Steps[lifecycle.ConfigMapChanged].(*configMapStep)
	if !ok {
		t.Fatal("the step has another type")
	}
	var facts []graph.Fact
	update(t, s.db, func(tx *store.Tx) (err error) {
		facts, err = step.Apply(tx, workflow.Task{}, workflow.Outcome{Data: data})
		return err
	})
	if !slices.Equal(facts, []graph.Fact{lifecycle.GlobalChanged}) {
		t.Errorf("facts: %q, want that everything may have changed", facts)
	}
	if err := s.db.View(func(tx *store.Tx) error {
		c, _, err := applied(tx)
		if err == nil && c.Sections["web"] == nil {
			t.Errorf("in force is %+v", c)
		}
		n := 0
		for d, err := range store.AllDamaged(tx) {
			if n++; err != nil || d.String() != "record configmap/applied" {
				t.Errorf("damaged is %s: %v", d, err)
			}
		}
		if n != 1 {
			t.Errorf("%d records were moved, want 1", n)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
