package addons

import (
	"encoding/json"
	"testing"
	"time"

	"addon-operator/internal/api"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
)

// TestAnAttemptThatIsNotDueYetIsPlannedAgain processes the event of a due attempt after the clock was set back. Nothing
// else would raise another event.
func TestAnAttemptThatIsNotDueYetIsPlannedAgain(t *testing.T) {
	t.Parallel()
	retry := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		phase       store.Phase
		retry, want time.Time
	}{
		"failed":                     {store.PhaseFailed, retry, retry},
		"failed without a retry":     {store.PhaseFailed, time.Time{}, time.Time{}},
		"ready":                      {store.PhaseReady, time.Time{}, time.Time{}},
		"ready with a wrong old due": {store.PhaseReady, retry, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got time.Time
			r := &Runtime{DB: storetest.Memory(t), Settled: func(_ api.Identity, due time.Time) { got = due }}
			offer(t, r.DB, "c")
			data, err := json.Marshal(readConfiguration{UID: "c", Generation: 1})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.DB.Update(func(tx *store.Tx) error {
				known, _, err := registry.Lookup(tx, registry.Cluster, "c")
				if err != nil {
					return err
				}
				known.Phase, known.Retry = test.phase, test.retry
				if err := store.Save(tx, store.ConfigurationKey("", "c"), known); err != nil {
					return err
				}
				facts, err := (&changedStep{r}).Apply(tx, taskOf("c"), workflow.Outcome{Data: data})
				if len(facts) > 0 {
					t.Errorf("the facts are %v, want none", facts)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if !got.Equal(test.want) {
				t.Errorf("the next attempt is planned at %s, want %s", got, test.want)
			}
		})
	}
}
