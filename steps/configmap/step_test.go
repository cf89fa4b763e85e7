package configmap

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/values"
	"addon-operator/steps/desired"
	"addon-operator/steps/scan/scantest"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

func TestAnUnreadableRecordOfTheConfigMapIsReplacedByTheNextRead(t *testing.T) {
	s, _ := scantest.New(t)
	scantest.Scan(t, s)
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		tx.Put(store.AppliedConfigKey(), []byte(`{"config":`))
		return nil
	})
	read := readConfig{ResourceVersion: "7", Config: values.Config{Sections: values.Values{"web": map[string]any{"size": 2.0}}}}
	if err := s.DB.View(func(tx *store.Tx) error {
		c, err := readChange(tx, read)
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
	step := New(s, nil, nil)
	var facts []graph.Fact
	scantest.Update(t, s.DB, func(tx *store.Tx) (err error) {
		facts, err = step.Apply(tx, workflow.Task{}, workflow.Outcome{Data: data})
		return err
	})
	if !slices.Equal(facts, []graph.Fact{lifecycle.GlobalChanged}) {
		t.Errorf("facts: %q, want that everything may have changed", facts)
	}
	if err := s.DB.View(func(tx *store.Tx) error {
		c, _, err := sections.LoadApplied(tx)
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

func TestASectionThatAJournalAnnouncesIsNotInForceBeforeItsTaskEnds(t *testing.T) {
	s, _ := scantest.New(t)
	scantest.Scan(t, s)
	before := values.Config{Sections: values.Values{"web": map[string]any{"n": int64(1)}}}
	w, err := sections.PlanConfigWrite(before, "web", []values.Op{{Op: "add", Path: "/web/n", Value: json.RawMessage("2")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	effect, err := desired.EffectOf(*w)
	if err != nil {
		t.Fatal(err)
	}
	read := readConfig{ResourceVersion: "7", Config: values.Config{Sections: values.Values{
		"web": map[string]any{"n": int64(2)}, "other": map[string]any{"n": int64(2)},
	}}}
	data, err := json.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	step := New(s, nil, nil)
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		journal := store.JournalKey(store.ID{Epoch: 1, N: 1})
		if err := store.Save(tx, journal, workflow.Outcome{Effects: []workflow.Effect{effect}}); err != nil {
			return err
		}
		defer tx.Delete(journal) // it belongs to no task
		if err := s.ConfigMap.SaveApplied(tx, before, "6"); err != nil {
			return err
		}
		_, err := step.Apply(tx, workflow.Task{}, workflow.Outcome{Data: data})
		return err
	})
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		now, _, err := sections.LoadApplied(tx)
		if diff := cmp.Diff(values.Values{"web": map[string]any{"n": int64(1)}, "other": map[string]any{"n": int64(2)}}, now.Sections); diff != "" {
			t.Errorf("in force (-want +got):\n%s", diff)
		}
		return err
	})
}

func TestTheHistoryNamesTheFlagsThatAChangeOfTheConfigMapSets(t *testing.T) {
	t.Parallel()
	s, _ := scantest.New(t)
	scantest.Scan(t, s)
	before := values.Config{Flags: map[string]bool{"webEnabled": true, "dbEnabled": true, "appEnabled": true}}
	now := values.Config{Flags: map[string]bool{"webEnabled": false, "appEnabled": true, "newEnabled": true}}
	want := &store.ValueChanges{List: []store.ValueChange{
		{Path: "/dbEnabled", Old: "true"}, {Path: "/newEnabled", New: "true"}, {Path: "/webEnabled", Old: "true", New: "false"},
	}}
	for name, test := range map[string]struct {
		read time.Time
		want *store.ValueChanges
	}{"the first content": {time.Time{}, nil}, "a change": {time.Now(), want}} {
		c := configChange{before: before, record: store.AppliedConfig{At: test.read}}
		got, err := New(s, nil, nil).valueChanges(c, now)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}
