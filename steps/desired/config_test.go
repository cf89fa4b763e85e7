package desired_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/values"
	"addon-operator/steps/desired"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
)

func TestSectionThatAJournalAnnouncesIsLeftToIt(t *testing.T) {
	before := values.Config{Sections: values.Values{"web": map[string]any{"n": int64(1)}}}
	ops := []values.Op{{Op: "add", Path: "/web/n", Value: json.RawMessage("2")}}
	w, err := sections.PlanConfigWrite(before, "web", ops, nil)
	if err != nil {
		t.Fatal(err)
	}
	effect, err := desired.EffectOf(*w)
	if err != nil {
		t.Fatal(err)
	}
	db := storetest.Memory(t)
	for _, c := range []struct {
		seen any // the section in the ConfigMap when step 16 reads it
		want any // the section in force after step 16
	}{
		{map[string]any{"n": int64(2)}, map[string]any{"n": int64(1)}},
		{map[string]any{"n": int64(3)}, map[string]any{"n": int64(3)}},
	} {
		now := values.Config{Sections: values.Values{"web": c.seen}}
		out := workflow.Outcome{Effects: []workflow.Effect{effect}}
		key := store.JournalKey(store.ID{Epoch: 1, N: 1})
		if err := db.Update(func(tx *store.Tx) error {
			if err := store.Save(tx, key, out); err != nil {
				return err
			}
			defer tx.Delete(key)
			return desired.LeaveAnnounced(tx, before, &now)
		}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, now.Sections["web"]); diff != "" {
			t.Error(diff)
		}
	}
}
